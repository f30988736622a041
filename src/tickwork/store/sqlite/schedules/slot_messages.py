"""Messages of slots on SQLite: stored with the fields of their schedule, and withdrawn.

A slot becomes at most one message, unique by schedule, slot and run. Bodies are copied from row to
row inside the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.message.subscription import FiredSlots
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.model import (
    OverlapPolicy,
    Schedule,
    ordering_key,
    read_terms,
    terms_text,
)
from tickwork.core.schedule.plan import Fire
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.store.ids import new_id
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.removal import finish_removal
from tickwork.store.sqlite.schedules.slot_copies import (
    copy_slots,
    withdraw_copies,
)

_ORDERED = frozenset(str(policy) for policy in OverlapPolicy if policy.is_ordered)
_NEVER = -(2**62)


class SourceSchedule(NamedTuple):
    """The fields of a schedule's row that are needed in Python, as `schedules_to_plan` returns
    them."""

    rowid: int
    tenant: str
    id: bytes
    queue_id: bytes
    type: str
    bytes: int
    overlap: str
    terms: str | None


class SlotMessage(NamedTuple):
    """A slot that becomes a message, with the values of its fire."""

    id: bytes
    slot: int
    due_at: int
    visible_at: int
    catch_up: bool
    run: int
    is_last: bool


class SlotMessages(NamedTuple):
    """Slots of one schedule; `source` is its id as text."""

    origin: SourceSchedule
    source: str
    slots: Sequence[SlotMessage]


def prepare_slot(fire: Fire) -> SlotMessage:
    """A fire, prepared for writing."""
    slot = to_microseconds(fire.slot)
    due_at = slot if fire.due_at is fire.slot else to_microseconds(fire.due_at)
    visible_at = due_at if fire.visible_at is fire.due_at else to_microseconds(fire.visible_at)
    return SlotMessage(
        new_id().bytes, slot, due_at, visible_at, fire.catch_up, fire.run, fire.is_last
    )


def store_slot_messages(transaction: Transaction, many: Sequence[SlotMessages]) -> None:
    """Stores the messages of slots, exempt from the cap of their queue, and copies for
    subscribers."""
    now = transaction.now
    ready = set[bytes]()
    repeats = set[bytes]()
    unkeyed: list[tuple[Any, ...]] = []
    for (rowid, _, schedule_id, queue_id, _, _, overlap, own_terms), source, slots in many:
        key = ordering_key(UUID(bytes=schedule_id)) if overlap in _ORDERED else None
        for id_, slot, due_at, visible_at, catch_up, run, is_last in slots:
            terms = _last_terms(own_terms) if is_last else None
            values = (rowid, id_, slot, due_at, visible_at, catch_up, run, terms, source)
            if key is None:
                unkeyed.append(values)
            elif not transaction.execute(SQL.fire_keyed_slot, (now, *values, key)).rowcount:
                repeats.add(id_)
            if visible_at <= now:
                ready.add(queue_id)
    for some in in_chunks(unkeyed):
        repeats |= _store_unkeyed(transaction, some)
    transaction.queues_to_wake.update(UUID(bytes=queue_id) for queue_id in ready)
    _count(transaction, many, repeats)
    copy_slots(
        transaction,
        (
            FiredSlots(origin.tenant, origin.queue_id, origin.type, [slot.id for slot in slots])
            for origin, _, slots in many
        ),
    )


def withdrawable(
    transaction: Transaction, tenant: str, schedule_id: bytes, withdraw: WithdrawScope
) -> list[tuple[int, Withdrawn]]:
    """The messages that can be withdrawn, with their rowids, earliest slot first."""
    if withdraw is WithdrawScope.NOTHING:
        return []
    only_coming = withdraw is WithdrawScope.NOT_DUE
    after = transaction.now if only_coming else _NEVER
    values = (
        tenant,
        schedule_id,
        after,
        only_coming,
        withdraw is WithdrawScope.ALL,
        transaction.now,
    )
    found = transaction.execute(SQL.withdrawable_slots, values).fetchall()
    return [
        (
            rowid,
            Withdrawn(
                from_microseconds(slot),
                from_microseconds(due_at),
                is_superseded=bool(is_superseded),
                run=run,
                has_future_record=bool(has_future_record),
            ),
        )
        for rowid, slot, due_at, is_superseded, run, has_future_record in found
    ]


def take_back(transaction: Transaction, rowids: Sequence[int]) -> None:
    """Deletes messages whose slots will be planned again, or never, and their copies."""
    if rowids:
        removed = transaction.execute(SQL.delete_messages, (rows.as_json(rowids),)).fetchall()
        finish_removal(transaction, removed, None)
        withdraw_copies(transaction, removed)


def last_slot_fired(transaction: Transaction, schedule: Schedule) -> int | None:
    """The last slot that is or was a message, up to the schedule's last slot."""
    if schedule.last_slot is None:
        return None
    values = (schedule.tenant, schedule.id.bytes, to_microseconds(schedule.last_slot))
    slot: int = transaction.execute(SQL.last_fired_slot, values).fetchone()[0]
    return slot or None


def _store_unkeyed(transaction: Transaction, some: Sequence[tuple[Any, ...]]) -> set[bytes]:
    """Stores messages without a key; returns the ids of those whose slot is a message already."""
    statement = for_rows(SQL.fire_slots, len(some))
    cursor = transaction.execute(statement, (transaction.now, *chain.from_iterable(some)))
    if cursor.rowcount == len(some):
        return set()
    last = cursor.lastrowid or 0
    rowids = (last - cursor.rowcount, last)
    new = {id_ for (id_,) in transaction.execute(SQL.stored_ids, rowids)}
    return {values[1] for values in some} - new


def _count(transaction: Transaction, many: Sequence[SlotMessages], repeats: set[bytes]) -> None:
    """Counts the sent messages and adds their bytes to backlogs with a cap."""
    size: dict[bytes, int] = {}
    for origin, source, slots in many:
        made = len(slots)
        if repeats:
            made -= sum(slot.id in repeats for slot in slots)
        queue_id = origin.queue_id
        transaction.counted.append(
            CountedMessages(queue_id, origin.tenant, CounterName.SENT, origin.type, source, made)
        )
        size[queue_id] = size.get(queue_id, 0) + origin.bytes * made
    for queue_id, added in size.items():
        transaction.execute(SQL.change_backlog, (queue_id, added))


def _last_terms(text: str | None) -> str | None:
    """The terms of the last message of a schedule."""
    return terms_text(structs.replace(read_terms(text), is_last=True))
