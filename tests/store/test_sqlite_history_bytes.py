"""A record of the history is small on SQLite: fields without a value at its end take no place."""

from __future__ import annotations

from functools import partial
from time import thread_time

import pytest

from tests.store.acts import WORK, acked, new, pull, send, write
from tickwork.core.message.history import HistorySelection
from tickwork.core.model import DEFAULT
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.sql import SQL, joined_durations
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.rows import as_json

MESSAGES = 20
BYTES_MAX = 120
"""Of a record of a message that has a type and a source, without its share of a row."""


@pytest.mark.parametrize("claims", [1, 2])
async def test_most_records_end_at_their_last_value(store: SqliteStore, claims: int) -> None:
    """Those of one claim are written by one statement, those of several from Python."""
    for _ in range(MESSAGES):
        await send(store, type="mail.send", source="shop")
    pulled = [message for _ in range(claims) for message in await pull(store, MESSAGES // claims)]
    await store.messages.settle(DEFAULT, acked(*pulled))
    stored = await write(
        store,
        lambda transaction: transaction.execute(
            "SELECT sum(length(records)) FROM tickwork_message_history"
        ).fetchone()[0],
    )
    assert stored < MESSAGES * BYTES_MAX
    found = await store.history.page(DEFAULT, HistorySelection(type="mail.send"), MESSAGES)
    assert {record.id for record in found.records} == {message.id for message in pulled}
    assert {(record.key, record.slot, record.body) for record in found.records} == {(None,) * 3}


async def test_a_record_with_one_rare_value_has_it(store: SqliteStore) -> None:
    await send(store, correlation_id="order-7")
    await send(store)
    await store.messages.settle(DEFAULT, acked(*await pull(store)))
    found = await store.history.page(DEFAULT, HistorySelection(correlation_id="order-7"), 10)
    assert [record.correlation_id for record in found.records] == ["order-7"]


async def test_noting_many_messages_takes_no_longer_for_each_than_noting_few(
    store: SqliteStore,
) -> None:
    few, many = 250, 4_000
    await store.messages.send_bulk(DEFAULT, WORK, [new() for _ in range(many)])

    def seconds(number: int, transaction: Transaction) -> float:
        found = transaction.execute("SELECT place, queue_id FROM tickwork_messages").fetchall()
        listed = as_json([place for place, _ in found[:number]])
        took = joined_durations([0.001] * number)
        values = (transaction.now, 0, "default", WORK, None, listed, took, False, found[0][1])
        began = thread_time()
        transaction.execute(SQL.count_plain_ended, values)
        transaction.execute(SQL.record_plain_history, values).fetchall()
        return thread_time() - began

    first, other = [
        min([await write(store, partial(seconds, number)) for _ in range(3)])
        for number in (few, many)
    ]
    assert other / first < 4 * many / few
