"""Ids are found by their last digits, within a tenant."""

from __future__ import annotations

from uuid import UUID

from tests.conformance.acts import make_queue, make_tenants, new
from tickwork.core.model import DEFAULT, SYSTEM, IdKind
from tickwork.store.contract import Store


async def test_ids_are_found_by_their_last_digits(store: Store) -> None:
    ours, theirs = (UUID(f"0199a7c2-0000-7000-8000-{name}00000000ff") for name in ("0a", "0b"))
    (tenant,) = await make_tenants(store, "acme")
    for scope, message_id in ((DEFAULT, ours), (tenant, theirs)):
        await make_queue(store, scope=scope)
        await store.messages.send(scope, "work", new(id=message_id))
    find = store.ids_ending
    assert await find(DEFAULT, IdKind.MESSAGE, "0000ff", 5) == (ours,)
    assert await find(DEFAULT, IdKind.MESSAGE, "0000FF", 5) == (ours,)
    assert await find(SYSTEM, IdKind.MESSAGE, "0000ff", 5) == (ours, theirs)
    assert await find(SYSTEM, IdKind.MESSAGE, "0000ff", 1) == (ours,)
    assert await find(DEFAULT, IdKind.MESSAGE, "0000fe", 5) == ()
    for kind in (IdKind.BATCH, IdKind.DEAD_LETTER, IdKind.SCHEDULE):
        assert await find(SYSTEM, kind, "0000ff", 5) == ()
