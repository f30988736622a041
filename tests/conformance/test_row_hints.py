"""The row id of a claimed message is forgotten when the message is settled, in whatever way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.acts import (
    ack,
    claim,
    dead,
    join,
    make_queue,
    release,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tickwork.core.model import DEFAULT, Ending, Message, Settlement
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.shared.row_hints import ROW_IDS_MAX

pytestmark = pytest.mark.parametrize("home", ["sqlite", "postgres"], indirect=True)


def remembered(store: Store) -> int:
    """How many row ids the settler of the store remembers."""
    messages: Any = store.messages
    return len(messages.settle.__self__.row_hints._row_ids)


@pytest.mark.parametrize(
    "end", [ack, retry, release, dead, lambda message: ack(message, sending("other"))]
)
async def test_no_settled_message_leaves_its_row_id(
    store: Store, end: Callable[[Message], Ending]
) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    await send_many(store, 5)
    await send(store, key="a")
    found = await claim(store, await join(store))
    assert remembered(store) == len(found) == 6
    assert not (await settle(store, *map(end, found))).refused
    assert remembered(store) == 0


async def test_neither_does_one_that_is_settled_jointly_or_by_a_stale_worker(store: Store) -> None:
    await make_queue(store)
    node = await join(store)
    await send_many(store, 2)
    first, second = await claim(store, node)
    await store.messages.settle_jointly(DEFAULT, Settlement((ack(first),)), lambda _: None)
    assert remembered(store) == 1
    await settle(store, ack(second))
    assert (await settle(store, ack(second))).refused
    assert remembered(store) == 0


async def test_a_duplicate_of_a_done_event_leaves_no_row_id(store: Store) -> None:
    await make_queue(store)
    node = await join(store)
    for _ in range(2):
        await send(store, event_id="paid")
        for message in await claim(store, node):
            await settle(store, ack(message))
    assert remembered(store) == 0


async def test_row_ids_of_lost_claims_are_bounded(store: Store) -> None:
    messages: Any = store.messages
    for number in range(3 * ROW_IDS_MAX):
        messages.settle.__self__.row_hints.note([new_id()], [number])
        assert remembered(store) <= ROW_IDS_MAX
