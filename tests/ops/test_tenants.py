"""Changes of tenants that meet: none is lost, and each is recorded."""

from __future__ import annotations

import asyncio

import pytest

from tickwork.core.model import SYSTEM, Scope, Tenant
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.audit import ACTOR, list_audit
from tickwork.ops.tenants import create_tenant, set_tenant_limits, suspend_tenant
from tickwork.store.contract import Store

LIMITS: dict[str, object] = {
    "weight": 3, "min_interval_seconds": 5, "schedules_max": 7, "schedules_per_second": 2.0,
    "messages_per_second": 9.0, "payload_bytes_max": 1_000, "backlog_max": 50, "claimed_max": 4,
}  # fmt: skip


async def test_changes_that_meet_are_all_kept(store: Store) -> None:
    ACTOR.set("operator")
    await create_tenant(store, "acme", {})
    changes = [set_tenant_limits(store, "acme", {name: each}) for name, each in LIMITS.items()]
    await asyncio.gather(suspend_tenant(store, "acme"), *changes)
    found = await store.tenants.get(SYSTEM, "acme")
    assert found == Tenant(id="acme", suspended=True, **LIMITS)  # type: ignore[arg-type]
    records = await list_audit(store, Scope("acme"))
    assert len(records) == len(LIMITS) + 2
    assert {each.action for each in records} == {
        "tenant.create", "tenant.limits", "tenant.suspend",
    }  # fmt: skip
    assert all(each.before != each.after for each in records)


async def test_a_refused_change_changes_nothing(store: Store) -> None:
    with pytest.raises(NotFound):
        await suspend_tenant(store, "nobody")
    with pytest.raises(NotFound):
        await suspend_tenant(store, "no\0body")
    with pytest.raises(InvalidInput, match="weight"):
        await set_tenant_limits(store, "default", {"weight": 0})
    assert await store.tenants.get(SYSTEM, "default") == Tenant(id="default")
