"""Dead letters on PostgreSQL: list, edit, replay and discard them.

One transaction selects and locks dead letters, and then resolves them. Rows locked by another
transaction are skipped (SKIP LOCKED): concurrent replays of one queue share the work, and no dead
letter is replayed twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import asyncpg
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
    Resolution,
    Selection,
    newest_start,
    replay_of,
)
from tickwork.core.message.message_list import (
    END_OF_TIME,
    LAST_ID,
    LOOKED_AT_MAX,
    NO_ID,
    START_OF_TIME,
)
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN, SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import CounterKey, Counters

_SKIP_LOCKED = " FOR UPDATE SKIP LOCKED"

_FIELDS = DeadLetter.__struct_fields__
_CONTENT_TYPE, _RESOLUTION = _FIELDS.index("content_type"), _FIELDS.index("resolution")
_CONTENT_TYPES = {str(kind): kind for kind in ContentType}
_RESOLUTIONS: dict[str | None, Resolution | None] = {None: None} | {
    str(kind): kind for kind in Resolution
}


_Position: TypeAlias = tuple[datetime, UUID]
"""The time of failure and the id of a dead letter, by which they are sorted."""


class _Selected(NamedTuple):
    """Tenants and ids of selected dead letters, oldest first; and the last one that was looked at,
    if more follow."""

    tenants: list[str]
    ids: list[UUID]
    end: UUID | None = None

    @property
    def columns(self) -> tuple[list[str], list[UUID]]:
        return self.tenants, self.ids


class PostgresDeadLetters:
    """Messages that will not be delivered again unless they are replayed."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        counters: Counters,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues = queues
        self._sender = sender
        self._counters = counters

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
        queue_id = await self._queues.id_of(scope, queue)
        limit = selection.limit
        one_more = structs.replace(selection, limit=limit + 1)

        async def work(connection: Connection) -> DeadLetterPage:
            tenants, ids, end = await _select(
                connection, scope, queue_id, one_more, after=after, looked_at_max=looked_at_max
            )
            asked = tenants[:limit], ids[:limit]
            found = await connection.fetch(SQL.read_dead_letters, *asked)
            last = ids[limit - 1] if len(ids) > limit else end
            return DeadLetterPage(tuple(map(read_dead_letter, found)), last)

        return await self._database.transact(work)

    async def newest(
        self,
        scope: Scope,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        check_selection(selection)
        if scope.tenant is not None and not is_name(scope.tenant):
            return DeadLetterPage((), None)
        before = newest_start(selection, None if after is None else await self.get(scope, after))
        window = looked_at_max if selection.has_window else selection.limit + 1
        asked = (
            *(scope.tenant, *before, selection.reason, selection.fingerprint, selection.type),
            window,
        )

        async def work(connection: Connection) -> DeadLetterPage:
            await connection.execute(CUSTOM_PLAN)
            rows = await connection.fetch(SQL.newest_dead_letters, *asked)
            selected = [row for row in rows if row["is_selected"]]
            chosen = selected[: selection.limit]
            found = await connection.fetch(
                SQL.read_dead_letters,
                [row["tenant"] for row in chosen],
                [row["id"] for row in chosen],
            )
            end = rows[-1]["id"] if len(rows) == window else None
            last = chosen[-1]["id"] if len(selected) > selection.limit else end
            return DeadLetterPage(tuple(map(read_dead_letter, reversed(found))), last)

        return await self._database.transact(work)

    async def get(self, scope: Scope, dead_letter_id: UUID) -> DeadLetter:
        row = None
        if scope.tenant is None or is_name(scope.tenant):
            row = await self._database.run(
                lambda connection: connection.fetchrow(
                    SQL.get_dead_letter, scope.tenant, dead_letter_id
                )
            )
        if row is None:
            raise NotFound("dead letter", dead_letter_id)
        return read_dead_letter(row)

    async def of_message(self, scope: Scope, message_id: UUID) -> DeadLetter | None:
        if scope.tenant is not None and not is_name(scope.tenant):
            return None
        values = (scope.tenant, message_id)
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.dead_letter_of_message, *values)
        )
        return None if row is None else read_dead_letter(row)

    async def groups(self, scope: Scope, queue: str, limit: int) -> tuple[DeadGroup, ...]:
        check_limit(limit)
        queue_id = await self._queues.id_of(scope, queue)
        found = await self._database.fetch_with_custom_plan(
            SQL.group_dead_letters, queue_id, scope.tenant, limit
        )
        return tuple(DeadGroup(*row) for row in found)

    async def count(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)
        queue_id = await self._queues.id_of(scope, queue)
        if not _is_findable(selection):
            return 0
        until = selection.failed_before or END_OF_TIME
        filters = (*_texts(selection), selection.no_type, until)
        (row,) = await self._database.fetch_with_custom_plan(
            SQL.count_dead_letters, queue_id, scope.tenant, *filters
        )
        return int(row[0])

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> DeadLetter:
        check_body(body)
        dead_letter = await self.get(scope, dead_letter_id)
        values = (self._moment(), dead_letter.tenant, dead_letter_id, body, content_type)

        async def work(connection: Connection) -> DeadLetter:
            row = await connection.fetchrow(SQL.edit_dead_letter, *values)
            if row is None:
                shown = public_id(Prefix.DEAD_LETTER, dead_letter_id)
                raise Conflict(f"dead letter {shown} is resolved already")
            return read_dead_letter(row)

        return await self._database.change(work)

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        check_selection(selection)
        check_pace(pace, selection.limit)
        queue_id = await self._queues.id_of(scope, queue)

        async def work(connection: Connection) -> tuple[list[Replayed], list[Group]]:
            selected = await _select(connection, scope, queue_id, selection, lock=_SKIP_LOCKED)
            ids = [new_id() for _ in selected.ids]
            rows = await connection.fetch(
                SQL.replay_dead_letters, self._moment(), *selected.columns, ids
            )
            dead_letters = sorted(
                map(read_dead_letter, rows),
                key=lambda dead_letter: (dead_letter.failed_at, dead_letter.id),
            )
            runs = await _number_runs(connection, dead_letters)
            groups = _groups(dead_letters, runs, pace, queue)
            if groups:
                backlog = BacklogChange()
                await self._sender.store(connection, groups, new_id(), backlog)
                await change_backlog(connection, backlog)
                if queue == ENDPOINTS_QUEUE:
                    await _show_deliveries(connection, groups)
            return [_replayed(dead_letter) for dead_letter in dead_letters], groups

        # Not repeated: a second run would select other dead letters.
        replayed, groups = await self._database.change(work, repeatable=False)
        self._sender.after_commit(groups)
        self._counters.add_all(
            CounterKey(
                group.queue_id, group.tenant, CounterName.REPLAYED, m.type or "", m.source or ""
            )
            for group in groups
            for m in group.messages
        )
        return tuple(replayed)

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        check_selection(selection)
        queue_id = await self._queues.id_of(scope, queue)

        async def work(connection: Connection) -> list[asyncpg.Record]:
            selected = await _select(connection, scope, queue_id, selection, lock=_SKIP_LOCKED)
            return await connection.fetch(
                SQL.discard_dead_letters, self._moment(), *selected.columns
            )

        discarded = await self._database.change(work, repeatable=False)
        self._counters.add_all(
            CounterKey(
                queue_id,
                row["tenant"],
                CounterName.DISCARDED,
                row["type"] or "",
                row["source"] or "",
            )
            for row in discarded
        )
        return len(discarded)


async def _select(
    connection: Connection,
    scope: Scope,
    queue_id: UUID,
    selection: Selection,
    *,
    after: UUID | None = None,
    looked_at_max: int | None = None,
    lock: str = "",
) -> _Selected:
    """Returns the selected open dead letters, oldest first. Of those that may not match it looks at
    `looked_at_max`."""
    if not _is_findable(selection):
        return _Selected([], [])
    start: _Position = (START_OF_TIME, NO_ID)
    until: _Position = (selection.failed_before or END_OF_TIME, LAST_ID)
    if after is not None:
        found = await connection.fetchrow(SQL.dead_letter_position, scope.tenant, after)
        if found is None:
            raise NotFound("dead letter", after)
        start = (found["failed_at"], after)
    own: tuple[Any, ...] = () if scope.tenant is None else (scope.tenant,)
    end: UUID | None = None
    await connection.execute(CUSTOM_PLAN)
    if looked_at_max is not None and selection.has_window:
        window = SQL.tenant_dead_letters_window_end if own else SQL.dead_letters_window_end
        last = await connection.fetchrow(window, queue_id, looked_at_max, *start, *until, *own)
        if last is not None and last["number"] == looked_at_max:
            until = (last["failed_at"], end := last["id"])
    filters = _texts(selection)
    wanted: tuple[Any, ...] = (queue_id, *start, *filters, selection.limit, *until)
    wanted += (selection.no_type,)
    if selection.ids is not None:
        statement, own = SQL.pick_dead_letters_by_id, (scope.tenant, list(selection.ids))
    else:
        statement = SQL.pick_tenant_dead_letters if own else SQL.pick_dead_letters
    rows = await connection.fetch(statement + lock, *wanted, *own)
    return _Selected([row["tenant"] for row in rows], [row["id"] for row in rows], end)


def _texts(selection: Selection) -> tuple[str | None, ...]:
    return selection.reason, selection.fingerprint, selection.type


def _is_findable(selection: Selection) -> bool:
    """Whether its texts can be stored; a dead letter with others cannot exist."""
    return all(text is None or _is_storable(text) for text in _texts(selection))


def _is_storable(text: str) -> bool:
    """Whether a text can be stored in the database; one that cannot need not be looked up."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


async def _number_runs(
    connection: Connection, dead_letters: Sequence[DeadLetter]
) -> dict[UUID, int]:
    """Numbers new runs of the schedules whose slots are replayed, by the id of the dead letter."""
    slots = [letter for letter in dead_letters if letter.schedule_id is not None and letter.slot]
    if not slots:
        return {}
    wanted = sorted(Counter((slot.tenant, slot.schedule_id) for slot in slots).items())
    rows = await connection.fetch(
        SQL.number_runs,
        [tenant for (tenant, _), _ in wanted],
        [schedule_id for (_, schedule_id), _ in wanted],
        [runs for _, runs in wanted],
    )
    last = {(row["tenant"], row["id"]): row["runs"] for row in rows}
    numbers: dict[UUID, int] = {}
    for slot in reversed(slots):
        schedule = slot.tenant, slot.schedule_id
        if schedule in last:
            numbers[slot.id] = last[schedule]
            last[schedule] -= 1
    return numbers


def _groups(
    dead_letters: Sequence[DeadLetter], runs: Mapping[UUID, int], pace: Pace, queue: str
) -> list[Group]:
    """Returns the messages that replay dead letters, grouped by tenant and queue."""
    messages: dict[tuple[str, UUID], list[NewMessage]] = {}
    for index, dead_letter in enumerate(dead_letters):
        assert dead_letter.replayed_as is not None
        delay = pace.first_after_seconds + index * pace.spacing_seconds
        message = replay_of(
            dead_letter,
            message_id=dead_letter.replayed_as,
            delay_seconds=delay,
            run=runs.get(dead_letter.id),
        )
        messages.setdefault((dead_letter.tenant, dead_letter.queue_id), []).append(message)
    return [
        Group(tenant, queue_id, queue, tuple(own)) for (tenant, queue_id), own in messages.items()
    ]


async def _show_deliveries(connection: Connection, groups: Sequence[Group]) -> None:
    """Gives deliveries to endpoints their new messages."""
    new = [
        (delivery_id, message.id, group.tenant)
        for group in groups
        for message in group.messages
        if (delivery_id := delivery_of(message))
    ]
    if new:
        columns = map(list, zip(*new, strict=True))
        await connection.execute(SQL.resend_deliveries, *columns)


def _replayed(dead_letter: DeadLetter) -> Replayed:
    assert dead_letter.replayed_as is not None
    return Replayed(dead_letter.id, dead_letter.replayed_as)


def read_dead_letter(row: Any) -> DeadLetter:
    values = list(row)
    values[_CONTENT_TYPE] = _CONTENT_TYPES[values[_CONTENT_TYPE]]
    values[_RESOLUTION] = _RESOLUTIONS[values[_RESOLUTION]]
    return DeadLetter(*values)
