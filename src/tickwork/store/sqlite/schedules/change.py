"""Changes schedules on SQLite: withdraws planned slots and writes what `decide` returns.

All of it runs in one transaction on the writer thread, including the call of `decide`.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.model import Scope
from tickwork.core.schedule.change import Change, Decision
from tickwork.core.schedule.model import Schedule, ScheduleStatus
from tickwork.core.schedule.plan import UNFINISHED_MAX
from tickwork.core.schedule.shards import Grant
from tickwork.core.schedule.withdraw import Withdrawn, WithdrawScope
from tickwork.core.tenant_limits import becomes_active, check_change
from tickwork.errors import Conflict, NotFound
from tickwork.store.shared.columns import definition_values
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.queue_rows import find_queue, is_storable
from tickwork.store.sqlite.schedules.create import check_number_now
from tickwork.store.sqlite.schedules.firings import record_skips, skip_values
from tickwork.store.sqlite.schedules.rows import (
    StoredSchedule,
    optional_microseconds,
    read_schedule,
)
from tickwork.store.sqlite.schedules.slot_messages import (
    SlotMessages,
    SourceSchedule,
    last_slot_fired,
    prepare_slot,
    store_slot_messages,
    take_back,
    withdrawable,
)
from tickwork.store.sqlite.schedules.slot_outcome import wake_leaders


class Changer:
    """Applies decided changes to schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        *,
        under: Grant | None = None,
    ) -> Schedule:
        def work(transaction: Transaction) -> Schedule:
            if under is not None and not _is_granted(transaction, under):
                return find(transaction, scope, schedule_id).schedule
            return _change(transaction, scope, schedule_id, withdraw, decide)

        return await self._database.change(work)


def find(transaction: Transaction, scope: Scope, schedule_id: UUID) -> StoredSchedule:
    """One schedule, also a deleted one; `NotFound` if the scope has none of this id."""
    found = find_if_any(transaction, scope, schedule_id)
    if found is None:
        raise NotFound("schedule", schedule_id)
    return found


def find_if_any(transaction: Transaction, scope: Scope, schedule_id: UUID) -> StoredSchedule | None:
    """One schedule, also a deleted one; None if the scope has none of this id."""
    row = None
    if scope.tenant is None:
        row = transaction.execute(SQL.get_schedule, (schedule_id.bytes,)).fetchone()
    elif is_storable(scope.tenant):
        values = (scope.tenant, schedule_id.bytes)
        row = transaction.execute(SQL.get_tenant_schedule, values).fetchone()
    found = None if row is None else read_schedule(row)
    return found if found is not None and scope.reaches(found.schedule.owner) else None


def _is_granted(transaction: Transaction, grant: Grant) -> bool:
    return (grant.shard, grant.token) in transaction.execute(SQL.shard_tokens)


def _change(
    transaction: Transaction,
    scope: Scope,
    schedule_id: UUID,
    withdraw: WithdrawScope,
    decide: Decision,
) -> Schedule:
    found = find(transaction, scope, schedule_id)
    schedule = found.schedule
    if schedule.status is ScheduleStatus.DELETED:
        raise NotFound("schedule", schedule_id)
    key = (schedule.tenant, schedule_id.bytes)
    to_withdraw = withdrawable(transaction, *key, withdraw)
    withdrawn = [slot for _, slot in to_withdraw]
    unfinished = _unfinished(transaction, schedule, len(withdrawn))
    seen = structs.replace(schedule, unfinished=unfinished)
    change = decide(seen, withdrawn, from_microseconds(transaction.now))
    if change is None:
        return schedule
    check_change(change.name, change.definition)
    take_back(transaction, [rowid for rowid, _ in to_withdraw])
    _fire(transaction, found, change)
    skips = [(key, skip_values(skip)) for skip in change.skips]
    record_skips(transaction, skips)
    _write(transaction, found, change, withdrawn)
    if becomes_active(schedule.status, change.status):
        check_number_now(transaction, schedule.tenant, [schedule.owner])
    return find(transaction, Scope(schedule.tenant), schedule_id).schedule


def _unfinished(transaction: Transaction, schedule: Schedule, withdrawn: int) -> int:
    """Number of unfinished messages that remain, if the overlap policy of a due slot needs it."""
    slot = optional_microseconds(schedule.next_slot)
    is_due = slot is not None and slot <= transaction.now
    if not is_due or not schedule.definition.overlap.is_decided_when_due:
        return 0
    values = (schedule.tenant, schedule.id.bytes, withdrawn + UNFINISHED_MAX)
    messages: int = transaction.execute(SQL.count_unfinished, values).fetchone()[0]
    return messages - withdrawn


def _fire(transaction: Transaction, found: StoredSchedule, change: Change) -> None:
    """Stores messages for the slots that fire, with the fields of the unchanged schedule."""
    if not change.fires:
        return
    (has_queue,) = transaction.execute(SQL.has_queue, (found.queue_id,)).fetchone()
    if not has_queue:
        raise NotFound("queue", found.schedule.definition.queue)
    origin = SourceSchedule(*transaction.execute(SQL.slot_template, (found.rowid,)).fetchone())
    slots = [prepare_slot(fire) for fire in change.fires]
    source = public_id(Prefix.SCHEDULE, found.schedule.id)
    store_slot_messages(transaction, [SlotMessages(origin, source, slots)])


def _write(
    transaction: Transaction, found: StoredSchedule, change: Change, withdrawn: list[Withdrawn]
) -> None:
    look_at = optional_microseconds(change.look_at)
    values = (
        found.rowid, transaction.now, str(change.status), change.name,
        optional_microseconds(change.next_slot), optional_microseconds(change.due_at), look_at,
        _last_slot(transaction, found.schedule, change, withdrawn), change.fired, change.runs,
        change.error_count, change.last_error, _queue_id(transaction, found, change),
        *definition_values(change.definition),
    )  # fmt: skip
    try:
        transaction.execute(SQL.change_schedule, values)
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise Conflict(f"the name {change.name} is already in use") from error
        raise
    wake_leaders(transaction, look_at)


def _queue_id(transaction: Transaction, found: StoredSchedule, change: Change) -> bytes:
    """The queue of the schedule: the same one while it exists and the name is unchanged."""
    before, name = found.schedule.definition.queue, change.definition.queue
    scope = Scope(found.schedule.tenant)
    if name != before:
        return find_queue(transaction, scope, name).id
    (exists,) = transaction.execute(SQL.has_queue, (found.queue_id,)).fetchone()
    if not exists:
        with suppress(NotFound):  # The planner reports a missing queue when a slot fires.
            return find_queue(transaction, scope, name).id
    return found.queue_id


def _last_slot(
    transaction: Transaction, schedule: Schedule, change: Change, withdrawn: list[Withdrawn]
) -> int | None:
    """The last slot that became a message, without the withdrawn ones."""
    slots = [to_microseconds(fire.slot) for fire in change.fires if not fire.run]
    last = optional_microseconds(schedule.last_slot)
    if withdrawn:
        last = last_slot_fired(transaction, schedule)
    return max([*slots, *([] if last is None else [last])], default=None)
