"""Readers: roles of the database that may read the rows of one tenant, for reports."""

from __future__ import annotations

from tickwork.core.model import SYSTEM, Scope
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.access_contract import Reader
from tickwork.store.contract import Store


async def grant_reader(store: Store, role: str, tenant: str) -> Reader:
    """Lets a role of the database read the rows of a tenant, and of no other. Raises
    `InvalidInput`, `NotFound`."""
    reader = Reader(role, tenant)
    async with recorded(Context(store, Scope(tenant)), "reader.grant", role, after=reader):
        await store.readers.grant(SYSTEM, reader)
    return reader


async def revoke_reader(store: Store, role: str) -> None:
    """Takes from a role what it may read. Raises `InvalidInput`, `NotFound`."""
    known = {reader.role: reader for reader in await list_readers(store)}.get(role)
    scope = SYSTEM if known is None else Scope(known.tenant)
    async with recorded(Context(store, scope), "reader.revoke", role, before=known):
        await store.readers.revoke(SYSTEM, role)


async def list_readers(store: Store) -> tuple[Reader, ...]:
    """The readers by their role. Raises `InvalidInput`."""
    return await store.readers.list(SYSTEM)
