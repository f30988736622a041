"""A claim on SQLite returns every field of a message, although it leaves out default values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from tests.store.acts import WORK, pull, send, write
from tickwork.core.model import DEFAULT, Message, State
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.sql import LARGE_BODY_BYTES

SETTLED_BY_THE_CLAIM = {"state", "claim", "holder", "claimed_at"}
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
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "hops": 3,
    "batch_id": new_id().bytes,
    "schedule_id": new_id().bytes,
    "slot": 1_000_000,
    "run": 2,
    "catch_up": 1,
    "due_at": 1_000_000,
    "grace_seconds": 1,
    "terms": "{}",
    "idempotency_base": "b",
    "death": "{}",
    "receiver": "r",
    "content_type": "bytes",
    "format": 0,
    "last_error": "no",
    "body": bytes(range(256)),
}


def test_every_field_is_tested() -> None:
    assert {*UNUSUAL, *SETTLED_BY_THE_CLAIM, *SAME_FOR_ALL} == {*Message.__struct_fields__}


@pytest.mark.parametrize("column", UNUSUAL)
async def test_a_claim_returns_every_field_without_its_default(
    store: SqliteStore, column: str
) -> None:
    await claimed_with(store, **{column: UNUSUAL[column]})


async def test_a_claim_returns_earlier_claims_and_attempts(store: SqliteStore) -> None:
    assert (await claimed_with(store, claim=5)).claim == 6


async def test_a_claim_returns_all_fields_together(store: SqliteStore) -> None:
    await claimed_with(store, **UNUSUAL)


async def test_a_claim_returns_a_large_body(store: SqliteStore) -> None:
    await claimed_with(store, body=bytes(LARGE_BODY_BYTES + 1))


async def claimed_with(store: SqliteStore, **values: Any) -> Message:
    """Claims a message with these values among others and compares it with its row."""
    ids = [await send(store) for _ in range(3)]
    assignments = ", ".join(f"{name} = :{name}" for name in values)
    statement = f"UPDATE tickwork_messages SET {assignments} WHERE id = :the_id"
    named = {**values, "the_id": ids[1].bytes}
    await write(store, lambda transaction: transaction.execute(statement, named))
    stored = {id_: await store.messages.get(DEFAULT, WORK, id_) for id_ in ids}
    found = {message.id: message for message in await pull(store, limit=3)}
    for id_ in ids:
        before, claimed = stored[id_], found[id_]
        assert claimed == structs.replace(
            before,
            state=State.CLAIMED,
            claim=before.claim + 1,
            holder=claimed.holder,
            claimed_at=claimed.claimed_at,
            # A slot that is late, unless it was claimed before.
            catch_up=before.catch_up or claimed.catch_up,
        )
    return found[ids[1]]
