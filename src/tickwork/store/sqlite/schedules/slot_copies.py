"""Copies of slots for subscribers on SQLite.

A slot's message is copied in the transaction that plans it. The copies become visible when the slot
is due, and are withdrawn with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from uuid import UUID

from tickwork.core.message.subscription import FiredSlots, copy_id, matches, slot_event
from tickwork.core.model import NewMessage
from tickwork.store.sqlite.engine.sql import SQL, for_rows, from_microseconds, in_chunks
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.prepared_messages import send_exempt_copies
from tickwork.store.sqlite.messages.removal import ID, TENANT, Gone, finish_removal
from tickwork.store.sqlite.schedules.rows import optional_time


def copy_slots(transaction: Transaction, fired: Iterable[FiredSlots[bytes]]) -> None:
    """Copies new messages of slots to subscribers, exempt from the caps of their queues."""
    if not _has_subscriptions(transaction):
        return
    patterns = _Patterns(transaction)
    wanted: dict[tuple[str, bytes], list[bytes]] = {}
    for slots in fired:
        if any(
            queue_id != slots.queue_id and matches(types, slots.type)
            for types, queue_id in patterns[slots.tenant]
        ):
            wanted.setdefault((slots.tenant, slots.queue_id), []).extend(slots.message_ids)
    for (tenant, queue_id), ids in wanted.items():
        for some in in_chunks(ids):
            events = _events(transaction, tenant, some)
            send_exempt_copies(transaction, tenant, events, except_queue_id=queue_id)


def withdraw_copies(transaction: Transaction, removed: Sequence[Gone]) -> None:
    """Deletes the copies of withdrawn messages that no worker has claimed."""
    if not removed or not _has_subscriptions(transaction):
        return
    patterns = _Patterns(transaction)
    copies = [
        (row[TENANT], copy_id(UUID(bytes=row[ID]), UUID(bytes=queue_id)).bytes)
        for row in removed
        for _, queue_id in patterns[row[TENANT]]
    ]
    for some in in_chunks(copies):
        statement = for_rows(SQL.waiting_copies, len(some))
        found = transaction.execute(statement, tuple(chain.from_iterable(some))).fetchall()
        rowids = rows.as_json(rowid for (rowid,) in found)
        gone = transaction.execute(SQL.delete_messages, (rowids,)).fetchall()
        finish_removal(transaction, gone, None)


def _has_subscriptions(transaction: Transaction) -> bool:
    return bool(transaction.execute(SQL.has_subscriptions).fetchone()[0])


def _events(transaction: Transaction, tenant: str, ids: Sequence[bytes]) -> list[NewMessage]:
    """New messages of slots, as subscribers get them."""
    now = from_microseconds(transaction.now)
    values = tuple(chain.from_iterable((tenant, id_) for id_ in ids))
    found = transaction.execute(for_rows(SQL.slots_to_copy, len(ids)), values).fetchall()
    messages = rows.messages([row[:-1] for row in found])
    return [
        slot_event(message, now, optional_time(row[-1]))
        for message, row in zip(messages, found, strict=True)
    ]


class _Patterns(dict[str, list[tuple[str, bytes]]]):
    """The patterns of subscriptions and the ids of their queues, by tenant."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__()
        self._transaction = transaction

    def __missing__(self, tenant: str) -> list[tuple[str, bytes]]:
        found = self._transaction.execute(SQL.subscriptions_of, (tenant,)).fetchall()
        made = self[tenant] = [(types, queue_id) for types, queue_id, *_ in found]
        return made
