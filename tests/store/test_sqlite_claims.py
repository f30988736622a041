"""A claim on SQLite tells all of a message, though it leaves out what is usual."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.store.acts import WORK, pull, send, write
from tickwork.core.model import DEFAULT, Message, State
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.sql import LARGE_BODY_BYTES

SETTLED_BY_THE_CLAIM = {"state", "claim", "holder"}
SAME_FOR_ALL = {"tenant", "id", "queue_id", "visible_at", "sent_at"}
UNUSUAL: dict[str, Any] = {
    "priority": 7,
    "attempts": 1,
    "lost": 1,
    "key": "k",
    "event_id": "e",
    "type": "t",
    "source": 'a "quoted" source\n',
    "correlation_id": "c",
    "causation_id": "d",
    "hops": 3,
    "batch_id": new_id().bytes,
    "schedule_id": new_id().bytes,
    "slot": 1_000_000,
    "run": 2,
    "catch_up": 1,
    "due_at": 1_000_000,
    "grace_seconds": 1,
    "terms": "{}",
    "content_type": "bytes",
    "format": 0,
    "last_error": "no",
    "body": bytes(range(256)),
}


def test_every_field_is_looked_at() -> None:
    assert {*UNUSUAL, *SETTLED_BY_THE_CLAIM, *SAME_FOR_ALL} == {*Message.__struct_fields__}


@pytest.mark.parametrize("column", UNUSUAL)
async def test_what_is_not_usual_is_told(store: SqliteStore, column: str) -> None:
    await claimed_with(store, **{column: UNUSUAL[column]})


async def test_an_earlier_claim_is_told(store: SqliteStore) -> None:
    assert (await claimed_with(store, claim=5)).claim == 6


async def test_all_that_is_not_usual_is_told_at_once(store: SqliteStore) -> None:
    await claimed_with(store, **UNUSUAL)


async def test_a_large_body_is_told(store: SqliteStore) -> None:
    await claimed_with(store, body=bytes(LARGE_BODY_BYTES + 1))


async def claimed_with(store: SqliteStore, **values: Any) -> Message:
    """A message that has these values is claimed among others, and is what its row says."""
    ids = [await send(store) for _ in range(3)]
    assignments = ", ".join(f"{name} = :{name}" for name in values)
    statement = f"UPDATE tickwork_messages SET {assignments} WHERE id = :the_id"
    named = {**values, "the_id": ids[1].bytes}
    await write(store, lambda transaction: transaction.execute(statement, named))
    stored = {each: await store.messages.get(DEFAULT, WORK, each) for each in ids}
    found = {each.id: each for each in await pull(store, limit=3)}
    for each in ids:
        before, claimed = stored[each], found[each]
        assert claimed == structs.replace(
            before,
            state=State.CLAIMED,
            claim=before.claim + 1,
            holder=claimed.holder,
            # A slot that is on time no longer, if nobody has had it yet.
            catch_up=before.catch_up or claimed.catch_up,
        )
    return found[ids[1]]
