"""Dead letters on SQLite: looked through, edited, replayed, discarded.

Dead messages on SQLite: a letter for each, and perhaps a place in a dead-letter queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.limits import check_body, check_limit, check_pace, check_selection
from tickwork.core.message.dead_letter import (
    DeadGroup,
    DeadLetter,
    Pace,
    Replayed,
    Selection,
    replay_of,
)
from tickwork.core.message.error_summary import fingerprint
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
from tickwork.store.sqlite.messages.removal import (
    BYTES,
    PLACE,
    QUEUE_ID,
    SOURCE,
    TENANT,
    TYPE,
    Gone,
    finish_removal,
)
from tickwork.store.sqlite.messages.send import (
    PreparedMessages,
    QueueRow,
    find_queue,
    is_storable,
    take_backlog,
)
from tickwork.store.sqlite.messages.system_events import publish_dead_letters
from tickwork.store.sqlite.schedules.slot_outcome import (
    DyingMessage,
    end_slots,
    is_expired_unseen,
    slots_of_dead_messages,
)

_FIRST = (-1, b"")
_LAST = 2**63 - 1
"""Before every letter, by when it failed and its id."""


class SqliteDeadLetters:
    """What will not be delivered again by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(
        self, scope: Scope, queue: str, selection: Selection, *, after: UUID | None = None
    ) -> tuple[DeadLetter, ...]:
        check_selection(selection)

        def work(transaction: Transaction) -> list[rows.Row]:
            queue_id = find_queue(transaction, scope, queue).id
            start = _FIRST
            if after is not None:
                _, failed_at = _find(transaction, scope, after)
                start = (failed_at, after.bytes)
            places = _select(transaction, scope, queue_id, selection, start)
            return transaction.execute(SQL.read_dead_letters, (rows.as_json(places),)).fetchall()

        return rows.dead_letters(await self._database.read(work))

    async def get(self, scope: Scope, dead_letter_id: UUID) -> DeadLetter:
        def work(transaction: Transaction) -> list[rows.Row]:
            place, _ = _find(transaction, scope, dead_letter_id)
            return transaction.execute(SQL.read_dead_letters, (rows.as_json([place]),)).fetchall()

        (letter,) = rows.dead_letters(await self._database.read(work))
        return letter

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

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> DeadLetter:
        check_body(body)

        def work(transaction: Transaction) -> list[rows.Row]:
            place, _ = _find(transaction, scope, dead_letter_id)
            values = (place, body, str(content_type), transaction.now)
            if transaction.execute(SQL.edit_dead_letter, values).rowcount == 0:
                raise Conflict(f"dead letter {dead_letter_id} is resolved already")
            return transaction.execute(SQL.read_dead_letters, (rows.as_json([place]),)).fetchall()

        (letter,) = rows.dead_letters(await self._database.write(work))
        return letter

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        check_selection(selection)
        check_pace(pace, selection.limit)
        return await self._database.write(
            lambda transaction: _replay(transaction, scope, queue, selection, pace),
            rows=selection.limit,
        )

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)

        def work(transaction: Transaction) -> int:
            queue_id = find_queue(transaction, scope, queue).id
            places = _select(transaction, scope, queue_id, selection)
            values = (rows.as_json(places), transaction.now)
            discarded = transaction.execute(SQL.discard_dead_letters, values).fetchall()
            for queue_id, tenant, type_, source in discarded:
                passed = CountedMessages(queue_id, tenant, CounterName.DISCARDED, type_, source, 1)
                transaction.counted.append(passed)
            return len(discarded)

        return await self._database.write(work, rows=selection.limit)


def _replay(
    transaction: Transaction, scope: Scope, name: str, selection: Selection, pace: Pace
) -> tuple[Replayed, ...]:
    """Resolves the letters, each once, and sends what they become: the same number of both."""
    queue = find_queue(transaction, scope, name)
    places = _select(transaction, scope, queue.id, selection)
    found = transaction.execute(SQL.read_dead_letters, (rows.as_json(places),)).fetchall()
    by_tenant: dict[str, list[NewMessage]] = {}
    replayed: list[Replayed] = []
    for (place, *_), letter in zip(found, rows.dead_letters(found), strict=True):
        message_id = new_id()
        values = (place, transaction.now, message_id.bytes)
        if transaction.execute(SQL.replay_dead_letters, values).rowcount == 1:
            delay = pace.first_after_seconds + len(replayed) * pace.spacing_seconds
            message = replay_of(letter, message_id=message_id, delay_seconds=delay)
            by_tenant.setdefault(letter.tenant, []).append(message)
            replayed.append(Replayed(letter.id, message_id))
    for tenant, messages in by_tenant.items():
        PreparedMessages(messages).store(transaction, tenant, queue)
        transaction.counted += [
            CountedMessages(queue.id, tenant, CounterName.REPLAYED, each.type, each.source, 1)
            for each in messages
        ]
    return tuple(replayed)


def _find(transaction: Transaction, scope: Scope, dead_letter_id: UUID) -> tuple[int, int]:
    """Where a letter lies, and when it failed."""
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
    after: tuple[int, bytes] = _FIRST,
) -> list[int]:
    """Where the open letters lie that are selected, oldest first."""
    wanted = (selection.reason, selection.fingerprint, selection.type)
    if not all(is_storable(text) for text in wanted if text is not None):
        return []
    until = _LAST if selection.failed_before is None else to_microseconds(selection.failed_before)
    values: tuple[Any, ...] = (queue_id, scope.tenant, *wanted, *after, until)
    if selection.ids is None:
        statement = SQL.pick_dead_letters if scope.is_system else SQL.pick_tenant_dead_letters
        found = transaction.execute(statement, (*values, selection.limit))
        return [place for (place,) in found]
    chosen: list[rows.Row] = []
    for some in in_chunks([each.bytes for each in dict.fromkeys(selection.ids)]):
        statement = for_rows(SQL.pick_dead_letters_by_id, len(some))
        chosen += transaction.execute(statement, (*values, *some))
    return [place for place, *_ in _oldest_first(chosen)[: selection.limit]]


def _oldest_first(chosen: Sequence[rows.Row]) -> list[rows.Row]:
    return sorted(chosen, key=lambda row: row[1:])


class NewDeadLetter(NamedTuple):
    """A message that becomes a dead letter, and why."""

    place: int
    reason: str
    error: str | None = None
    counted: int = 0


class DeadLetterCounts(NamedTuple):
    """How many became dead letters, and how many of these were slots that expired before anybody
    had begun with them."""

    dead: int
    expired_slots: int


def add_dead_letters(
    transaction: Transaction,
    burials: Sequence[NewDeadLetter],
    *,
    later: set[BatchName] | None = None,
) -> int:
    """Moves messages to the dead letters, and on to the dead-letter queue of their queue if
    there is one; says how many. `later` as `leave` has it."""
    if not burials:
        return 0
    dead_letter_ids = {each.place: new_id().bytes for each in burials}
    transaction.connection.executemany(
        SQL.record_dead_letters,
        [
            (each.place, dead_letter_ids[each.place], each.reason, each.error,
             fingerprint(each.error), each.counted, transaction.now)
            for each in burials
        ],
    )  # fmt: skip
    gone = transaction.execute(SQL.delete_messages, (rows.as_json(dead_letter_ids),)).fetchall()
    reasons = {each.place: each.reason for each in burials}
    for reason in set(reasons.values()):
        alike = [row for row in gone if reasons[row[PLACE]] == reason]
        finish_removal(transaction, alike, CounterName.DEAD, reason, later=later)
    _move_on(transaction, {row[PLACE]: row for row in gone}, dead_letter_ids)
    publish_dead_letters(transaction, {dead_letter_ids[row[PLACE]]: row[TENANT] for row in gone})
    return len(gone)


def add_dead_letters_and_end_slots(
    transaction: Transaction, burials: Sequence[NewDeadLetter]
) -> DeadLetterCounts:
    """Buries messages that die by themselves: of slots among them, nobody else tells."""
    ended = slots_of_dead_messages(
        transaction, [DyingMessage(each.place, each.reason, each.error) for each in burials]
    )
    buried = add_dead_letters(transaction, burials)
    end_slots(transaction, ended)
    return DeadLetterCounts(buried, sum(map(is_expired_unseen, ended)))


def _move_on(
    transaction: Transaction, gone: dict[int, Gone], dead_letter_ids: dict[int, bytes]
) -> None:
    """What died in a queue with a dead-letter queue is a message there, whatever the cap says."""
    targets: dict[tuple[str, bytes], QueueRow | None] = {}
    for place, dead_letter_id in dead_letter_ids.items():
        row = gone[place]
        died_in = (row[TENANT], row[QUEUE_ID])
        if died_in not in targets:
            targets[died_in] = _dead_letter_queue(transaction, *died_in)
        queue = targets[died_in]
        if queue is not None:
            values = (dead_letter_id, queue.id, transaction.now)
            transaction.execute(SQL.forward_dead_letter, values)
            passed = CountedMessages(
                queue.id, row[TENANT], CounterName.SENT, row[TYPE], row[SOURCE], 1
            )
            transaction.counted.append(passed)
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
