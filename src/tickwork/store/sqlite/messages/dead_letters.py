"""Dead letters on SQLite: list, edit, replay and discard them, and create them from messages.

A message whose queue has a dead-letter queue also becomes a message there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, delivery_of
from tickwork.core.limits import check_body, check_limit, check_pace, check_selection, is_name
from tickwork.core.message.dead_letter import (
    DeadGroup,
    DeadLetter,
    DeadLetterPage,
    Pace,
    Replayed,
    Selection,
    newest_start,
    replay_of,
)
from tickwork.core.message.error_summary import fingerprint
from tickwork.core.message.message_list import END_OF_TIME, LAST_ID, LOOKED_AT_MAX
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    from_microseconds,
    in_chunks,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.batch_progress import BatchName
from tickwork.store.sqlite.messages.prepared_messages import PreparedMessages, take_backlog
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue, is_storable
from tickwork.store.sqlite.messages.removal import (
    BYTES,
    FENCE,
    QUEUE_ID,
    ROWID,
    SOURCE,
    TENANT,
    TYPE,
    Gone,
    finish_removal,
)
from tickwork.store.sqlite.messages.system_events import dead_message, publish_dead_letters
from tickwork.store.sqlite.schedules.slot_outcome import (
    DyingMessage,
    end_slots,
    is_expired_unseen,
    slots_of_dead_messages,
)

_Position: TypeAlias = tuple[int, bytes]
"""The time of failure and the id of a dead letter, by which they are sorted."""

_FIRST: _Position = (-1, b"")


class SqliteDeadLetters:
    """Messages that will not be delivered again unless they are replayed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        check_selection(selection)
        limit = selection.limit
        one_more = structs.replace(selection, limit=limit + 1)

        def work(transaction: Transaction) -> tuple[list[rows.Row], UUID | None]:
            queue_id = find_queue(transaction, scope, queue).id
            start = _FIRST
            if after is not None:
                _, failed_at = _find(transaction, scope, after)
                start = (failed_at, after.bytes)
            rowids, end = _select(transaction, scope, queue_id, one_more, start, looked_at_max)
            found = transaction.execute(SQL.read_dead_letters, (rows.as_json(rowids),)).fetchall()
            return found, end

        found, end = await self._database.read(work)
        letters = rows.dead_letters(found[:limit])
        return DeadLetterPage(letters, letters[-1].id if len(found) > limit else end)

    async def newest(
        self,
        scope: Scope,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        check_selection(selection)
        start = newest_start(selection, None if after is None else await self.get(scope, after))
        before = (to_microseconds(start[0]), start[1].bytes)
        window = looked_at_max if selection.has_window else selection.limit + 1
        asked = (*before, selection.reason, selection.fingerprint, selection.type, window)

        def work(transaction: Transaction) -> tuple[list[rows.Row], UUID | None]:
            tenants = [(scope.tenant,)] if scope.tenant else transaction.execute(SQL.all_tenants)
            looked_at = [
                row
                for (tenant,) in tenants
                for row in transaction.execute(SQL.newest_dead_letters, (tenant, *asked))
            ]
            looked_at = sorted(looked_at, reverse=True)[:window]
            selected = [row for row in looked_at if row[3]]
            chosen = selected[: selection.limit]
            rowids = rows.as_json([row[2] for row in chosen])
            found = transaction.execute(SQL.read_dead_letters, (rowids,)).fetchall()
            end = looked_at[-1] if len(looked_at) == window else None
            last = chosen[-1] if len(selected) > selection.limit else end
            return found[::-1], None if last is None else UUID(bytes=last[1])

        found, end = await self._database.read(work)
        return DeadLetterPage(rows.dead_letters(found), end)

    async def get(self, scope: Scope, dead_letter_id: UUID) -> DeadLetter:
        def work(transaction: Transaction) -> list[rows.Row]:
            rowid, _ = _find(transaction, scope, dead_letter_id)
            return transaction.execute(SQL.read_dead_letters, (rows.as_json([rowid]),)).fetchall()

        (letter,) = rows.dead_letters(await self._database.read(work))
        return letter

    async def of_message(self, scope: Scope, message_id: UUID) -> DeadLetter | None:
        if scope.tenant is not None and not is_name(scope.tenant):
            return None
        values = (message_id.bytes, scope.tenant)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.dead_letter_of_message, values).fetchall()
        )
        return next(iter(rows.dead_letters(found)), None)

    async def groups(self, scope: Scope, queue: str, limit: int) -> tuple[DeadGroup, ...]:
        check_limit(limit)

        def work(transaction: Transaction) -> list[rows.Row]:
            values = (find_queue(transaction, scope, queue).id, scope.tenant, limit)
            return transaction.execute(SQL.group_dead_letters, values).fetchall()

        return tuple(
            DeadGroup(
                reason, mark, type_, letters, from_microseconds(first), from_microseconds(last)
            )
            for reason, mark, type_, letters, first, last in await self._database.read(work)
        )

    async def count(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)
        until = to_microseconds(selection.failed_before or END_OF_TIME)

        def work(transaction: Transaction) -> int:
            queue_id = find_queue(transaction, scope, queue).id
            if not _is_findable(selection):
                return 0
            values = (queue_id, scope.tenant, *_filters(selection), until)
            return int(transaction.execute(SQL.count_dead_letters, values).fetchone()[0])

        return await self._database.read(work)

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> DeadLetter:
        check_body(body)

        def work(transaction: Transaction) -> list[rows.Row]:
            rowid, _ = _find(transaction, scope, dead_letter_id)
            values = (rowid, body, str(content_type), transaction.now)
            if transaction.execute(SQL.edit_dead_letter, values).rowcount == 0:
                shown = public_id(Prefix.DEAD_LETTER, dead_letter_id)
                raise Conflict(f"dead letter {shown} is resolved already")
            return transaction.execute(SQL.read_dead_letters, (rows.as_json([rowid]),)).fetchall()

        (letter,) = rows.dead_letters(await self._database.change(work))
        return letter

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        check_selection(selection)
        check_pace(pace, selection.limit)
        return await self._database.change(
            lambda transaction: _replay(transaction, scope, queue, selection, pace),
            rows=selection.limit,
        )

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)

        def work(transaction: Transaction) -> int:
            queue_id = find_queue(transaction, scope, queue).id
            rowids, _ = _select(transaction, scope, queue_id, selection)
            values = (rows.as_json(rowids), transaction.now)
            discarded = transaction.execute(SQL.discard_dead_letters, values).fetchall()
            for queue_id, tenant, type_, source in discarded:
                counted = CountedMessages(queue_id, tenant, CounterName.DISCARDED, type_, source, 1)
                transaction.counted.append(counted)
            return len(discarded)

        return await self._database.change(work, rows=selection.limit)


def _replay(
    transaction: Transaction, scope: Scope, name: str, selection: Selection, pace: Pace
) -> tuple[Replayed, ...]:
    """Resolves each dead letter once and sends its replay."""
    queue = find_queue(transaction, scope, name)
    rowids, _ = _select(transaction, scope, queue.id, selection)
    found = transaction.execute(SQL.read_dead_letters, (rows.as_json(rowids),)).fetchall()
    by_tenant: dict[str, list[NewMessage]] = {}
    replayed: list[Replayed] = []
    for (rowid, *_), letter in zip(found, rows.dead_letters(found), strict=True):
        message_id = new_id()
        values = (rowid, transaction.now, message_id.bytes)
        if transaction.execute(SQL.replay_dead_letters, values).rowcount == 1:
            delay = pace.first_after_seconds + len(replayed) * pace.spacing_seconds
            run = _number_run(transaction, letter)
            message = replay_of(letter, message_id=message_id, delay_seconds=delay, run=run)
            by_tenant.setdefault(letter.tenant, []).append(message)
            replayed.append(Replayed(letter.id, message_id))
    for tenant, messages in by_tenant.items():
        PreparedMessages(messages).store(transaction, tenant, queue)
        if queue.name == ENDPOINTS_QUEUE:
            _show_deliveries(transaction, tenant, messages)
        transaction.counted += [
            CountedMessages(queue.id, tenant, CounterName.REPLAYED, message.type, message.source, 1)
            for message in messages
        ]
    return tuple(replayed)


def _show_deliveries(transaction: Transaction, tenant: str, messages: Sequence[NewMessage]) -> None:
    """Gives deliveries to endpoints their new messages."""
    values = [
        (delivery_id.bytes, message.id.bytes, tenant)
        for message in messages
        if (delivery_id := delivery_of(message))
    ]
    transaction.connection.executemany(SQL.resend_deliveries, values)


def _number_run(transaction: Transaction, letter: DeadLetter) -> int | None:
    """The number of a new run of its schedule; None if it has none, or it was deleted."""
    if letter.schedule_id is None or letter.slot is None:
        return None
    values = (letter.tenant, letter.schedule_id.bytes)
    found = transaction.execute(SQL.number_runs, values).fetchone()
    return None if found is None else int(found[0])


def _find(transaction: Transaction, scope: Scope, dead_letter_id: UUID) -> tuple[int, int]:
    """The rowid of a dead letter and its time of failure."""
    row: tuple[int, int] | None = None
    if scope.tenant is None or is_storable(scope.tenant):
        values = (dead_letter_id.bytes, scope.tenant)
        row = transaction.execute(SQL.dead_letter_position, values).fetchone()
    if row is None:
        raise NotFound("dead letter", dead_letter_id)
    return row


def _select(
    transaction: Transaction,
    scope: Scope,
    queue_id: bytes,
    selection: Selection,
    after: _Position = _FIRST,
    looked_at_max: int | None = None,
) -> tuple[list[int], UUID | None]:
    """The rowids of the selected open dead letters, oldest first. Of those that may not match it
    looks at `looked_at_max`, and returns the last one of them if more follow."""
    if not _is_findable(selection):
        return [], None
    until: _Position = (to_microseconds(selection.failed_before or END_OF_TIME), LAST_ID.bytes)
    end: UUID | None = None
    own = (queue_id, scope.tenant)
    if looked_at_max is not None and selection.has_window:
        window = (
            SQL.dead_letters_window_end if scope.is_system else SQL.tenant_dead_letters_window_end
        )
        last = transaction.execute(window, (*own, looked_at_max, *after, *until)).fetchone()
        if last is not None and last[-1] == looked_at_max:
            until, end = last[:-1], UUID(bytes=last[1])
    values: tuple[Any, ...] = (*own, *_filters(selection), *after, *until)
    if selection.ids is None:
        statement = SQL.pick_dead_letters if scope.is_system else SQL.pick_tenant_dead_letters
        found = transaction.execute(statement, (*values, selection.limit))
        return [rowid for (rowid,) in found], end
    chosen: list[rows.Row] = []
    for some in in_chunks([id_.bytes for id_ in dict.fromkeys(selection.ids)]):
        statement = for_rows(SQL.pick_dead_letters_by_id, len(some))
        chosen += transaction.execute(statement, (*values, *some))
    return [rowid for rowid, *_ in _oldest_first(chosen)[: selection.limit]], end


def _filters(selection: Selection) -> tuple[Any, ...]:
    return selection.reason, selection.fingerprint, selection.type, selection.no_type


def _is_findable(selection: Selection) -> bool:
    """Whether its texts can be stored; a dead letter with others cannot exist."""
    texts = (selection.reason, selection.fingerprint, selection.type)
    return all(is_storable(text) for text in texts if text is not None)


def _oldest_first(chosen: Sequence[rows.Row]) -> list[rows.Row]:
    return sorted(chosen, key=lambda row: row[1:])


class NewDeadLetter(NamedTuple):
    """A message that becomes a dead letter, and why."""

    rowid: int
    reason: str
    error: str | None = None
    counted: int = 0


class DeadLetterCounts(NamedTuple):
    """Number of new dead letters, and how many of them were slots that expired before their first
    attempt."""

    dead: int
    expired_slots: int


def add_dead_letters(
    transaction: Transaction,
    new_letters: Sequence[NewDeadLetter],
    *,
    later: set[BatchName] | None = None,
) -> int:
    """Moves messages to the dead letters and into the dead-letter queue of their queue if it has
    one; returns how many. `later` as in `finish_removal`."""
    if not new_letters:
        return 0
    dead_letter_ids = {letter.rowid: new_id().bytes for letter in new_letters}
    transaction.connection.executemany(
        SQL.record_dead_letters,
        [
            (letter.rowid, dead_letter_ids[letter.rowid], letter.reason, letter.error,
             fingerprint(letter.error), letter.counted, transaction.now)
            for letter in new_letters
        ],
    )  # fmt: skip
    removed = transaction.execute(SQL.delete_messages, (rows.as_json(dead_letter_ids),)).fetchall()
    reasons = {letter.rowid: letter.reason for letter in new_letters}
    errors = {letter.rowid: letter.error for letter in new_letters}
    transaction.connection.executemany(
        SQL.fail_dead_run,
        [
            (row[FENCE][1], transaction.now, reasons[row[ROWID]], errors[row[ROWID]])
            for row in removed
        ],
    )
    for reason in set(reasons.values()):
        alike = [row for row in removed if reasons[row[ROWID]] == reason]
        finish_removal(transaction, alike, CounterName.DEAD, reason, later=later)
    _send_to_dead_letter_queue(transaction, {row[ROWID]: row for row in removed}, dead_letter_ids)
    publish_dead_letters(transaction, {dead_letter_ids[row[ROWID]]: row[TENANT] for row in removed})
    return len(removed)


def add_dead_letters_and_end_slots(
    transaction: Transaction, new_letters: Sequence[NewDeadLetter]
) -> DeadLetterCounts:
    """Makes dead letters of unclaimed messages, and records the outcome of slots among them."""
    ended = slots_of_dead_messages(
        transaction,
        [DyingMessage(letter.rowid, letter.reason, letter.error) for letter in new_letters],
    )
    count = add_dead_letters(transaction, new_letters)
    end_slots(transaction, ended)
    return DeadLetterCounts(count, sum(map(is_expired_unseen, ended)))


def _send_to_dead_letter_queue(
    transaction: Transaction, removed: dict[int, Gone], dead_letter_ids: dict[int, bytes]
) -> None:
    """Sends dead messages to the dead-letter queue of their queue, exempt from its cap."""
    targets: dict[tuple[str, bytes], QueueRow | None] = {}
    for rowid, dead_letter_id in dead_letter_ids.items():
        row = removed[rowid]
        died_in = (row[TENANT], row[QUEUE_ID])
        if died_in not in targets:
            targets[died_in] = _dead_letter_queue(transaction, *died_in)
        queue = targets[died_in]
        if queue is not None:
            dead = dead_message(transaction, dead_letter_id)
            values = (
                dead_letter_id, queue.id, transaction.now, dead.death.text, dead.idempotency_key
            )  # fmt: skip
            transaction.execute(SQL.forward_dead_letter, values)
            counted = CountedMessages(
                queue.id, row[TENANT], CounterName.SENT, row[TYPE], row[SOURCE], 1
            )
            transaction.counted.append(counted)
            transaction.queues_to_wake.add(UUID(bytes=queue.id))
            if queue.bytes_max is not None:
                take_backlog(transaction, queue, row[BYTES], is_exempt=True)


def _dead_letter_queue(transaction: Transaction, tenant: str, queue_id: bytes) -> QueueRow | None:
    row = transaction.execute(SQL.queue_settings, (queue_id,)).fetchone()
    name = rows.settings(row[0]).dead_letter_queue if row else None
    if name is not None:
        with suppress(NotFound):
            return find_queue(transaction, Scope(tenant), name)
    return None
