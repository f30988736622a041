"""Reads tenants: the owners of queues, messages and schedules."""

from __future__ import annotations

from tickwork.core.model import Scope, Tenant
from tickwork.store.contract import Store


async def get_tenant(store: Store, scope: Scope, tenant_id: str) -> Tenant:
    """Returns one tenant; raises `NotFound` if there is none of that id."""
    return await store.tenants.get(scope, tenant_id)
