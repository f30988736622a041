"""Dead letters: list, edit, replay and discard them.

One transaction selects and locks dead letters, and then resolves them. Rows that another one has
locked are skipped: concurrent replays of one queue share the work, and no dead letter is replayed
twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, delivery_of
from tickwork.core.limits import check_body, check_limit, check_pace, check_selection, is_name
from tickwork.core.message.dead_letter import (
    DeadGroup,
    DeadLetterPage,
    Pace,
    Replayed,
    Resolution,
    Selection,
    StoredDeadLetter,
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
from tickwork.store.ids import new_id
from tickwork.store.nouns.deliveries import RESEND_DELIVERIES
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import (
    NOW,
    Noun,
    Port,
    Row,
    Statement,
    Steps,
    changes,
    changes_once,
    reads,
    searches,
)

_GET = Statement("get_dead_letter", StoredDeadLetter)
_OF_MESSAGE = Statement("dead_letter_of_message", StoredDeadLetter)
_READ = Statement("read_dead_letters", StoredDeadLetter)
_NEWEST = Statement("newest_dead_letters", id=Kind.ID, failed_at=Kind.TIME, is_selected=Kind.FLAG)
_POSITION = Statement("dead_letter_position", failed_at=Kind.TIME)
_GROUPS = Statement("group_dead_letters", DeadGroup)
_COUNT = Statement("count_dead_letters")
_EDIT = Statement("edit_dead_letter", StoredDeadLetter)
_REPLAY = Statement("replay_dead_letters", StoredDeadLetter)
_DISCARD = Statement("discard_dead_letters")
_NUMBER_RUNS = Statement("number_runs", id=Kind.ID)
_PICK = Statement("pick_dead_letters", id=Kind.ID)
_PICK_OF_TENANT = Statement("pick_tenant_dead_letters", id=Kind.ID)
_PICK_BY_ID = Statement("pick_dead_letters_by_id", id=Kind.ID, failed_at=Kind.TIME)
_WINDOW_END = Statement("dead_letters_window_end", failed_at=Kind.TIME, id=Kind.ID)
_WINDOW_END_OF_TENANT = Statement("tenant_dead_letters_window_end", failed_at=Kind.TIME, id=Kind.ID)

Name = tuple[str, UUID]
"""The tenant and the id of a dead letter."""

_Position = tuple[datetime, UUID]
"""The time of failure and the id of a dead letter, by which they are sorted."""


class _Selected(NamedTuple):
    """Selected dead letters, oldest first; and the last one that was looked at, if more follow."""

    names: Sequence[Name]
    end: UUID | None = None


class DeadLetters(Noun):
    """Messages that will not be delivered again unless they are replayed."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    @searches
    def list(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> Steps[DeadLetterPage]:
        check_selection(selection)
        queue_id = (yield from self._paths.queue(scope, queue)).id
        limit = selection.limit
        one_more = structs.replace(selection, limit=limit + 1)
        names, end = yield from _select(
            scope, queue_id, one_more, after=after, looked_at_max=looked_at_max
        )
        letters = yield from _read(names[:limit])
        return DeadLetterPage(letters, names[limit - 1][1] if len(names) > limit else end)

    @searches
    def newest(
        self,
        scope: Scope,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> Steps[DeadLetterPage]:
        check_selection(selection)
        if scope.tenant is not None and not is_name(scope.tenant):
            return DeadLetterPage((), None)
        last = None if after is None else (yield from _get(scope, after))
        window = looked_at_max if selection.has_window else selection.limit + 1
        values = (*newest_start(selection, last), *_texts(selection))
        rows: Sequence[Row] = []
        for tenant in (yield from self._paths.tenants(scope)):
            rows = [*rows, *(yield from _NEWEST.fetch(tenant, *values, window))]
        rows = sorted(rows, key=lambda row: (row["failed_at"], row["id"]), reverse=True)[:window]
        selected = [(row["tenant"], row["id"]) for row in rows if row["is_selected"]]
        chosen = selected[: selection.limit]
        letters = yield from _read(chosen)
        end = rows[-1]["id"] if len(rows) == window else None
        if len(selected) > selection.limit:
            end = chosen[-1][1]
        return DeadLetterPage(letters[::-1], end)

    @reads
    def get(self, scope: Scope, dead_letter_id: UUID) -> Steps[StoredDeadLetter]:
        return (yield from _get(scope, dead_letter_id))

    @reads
    def of_message(self, scope: Scope, message_id: UUID) -> Steps[StoredDeadLetter | None]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return None
        row = yield from _OF_MESSAGE.fetch_row(scope.tenant, message_id)
        return None if row is None else read_dead_letter(row)

    @searches
    def groups(self, scope: Scope, queue: str, limit: int) -> Steps[tuple[DeadGroup, ...]]:
        check_limit(limit)
        queue_id = (yield from self._paths.queue(scope, queue)).id
        rows = yield from _GROUPS.fetch(queue_id, scope.tenant, limit)
        return tuple(DeadGroup(**row) for row in rows)

    @searches
    def count(self, scope: Scope, queue: str, selection: Selection) -> Steps[int]:
        check_selection(selection)
        queue_id = (yield from self._paths.queue(scope, queue)).id
        if not _is_findable(selection):
            return 0
        until = selection.failed_before or END_OF_TIME
        filters = (*_texts(selection), selection.no_type, until)
        return int((yield from _COUNT.fetch_value(queue_id, scope.tenant, *filters)))

    @changes
    def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> Steps[StoredDeadLetter]:
        check_body(body)
        tenant = (yield from _get(scope, dead_letter_id)).tenant
        row = yield from _EDIT.fetch_row(NOW, tenant, dead_letter_id, body, content_type)
        if row is None:
            shown = public_id(Prefix.DEAD_LETTER, dead_letter_id)
            raise Conflict(f"dead letter {shown} is resolved already")
        return read_dead_letter(row)

    # Not repeated: a second run would select other dead letters.
    @changes_once
    def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> Steps[tuple[Replayed, ...]]:
        return (yield from replay_steps(self._paths, scope, queue, selection, pace))

    @changes_once
    def discard(self, scope: Scope, queue: str, selection: Selection) -> Steps[int]:
        return (yield from discard_steps(self._paths, scope, queue, selection))


def replay_steps(
    paths: HotPaths, scope: Scope, queue: str, selection: Selection, pace: Pace
) -> Steps[tuple[Replayed, ...]]:
    """Sends dead letters again, in the open transaction."""
    check_selection(selection)
    check_pace(pace, selection.limit)
    target = yield from paths.queue(scope, queue)
    names, _ = yield from _select(scope, target.id, selection, locks=True)
    rows = yield from _REPLAY.fetch_each([(*name, new_id()) for name in names], NOW)
    letters = _oldest_first(rows)
    runs = yield from _number_runs(letters)
    messages = _messages(letters, runs, pace)
    if messages:
        yield from paths.send(target, messages)
        if queue == ENDPOINTS_QUEUE:
            yield from _show_deliveries(messages)
        kinds = [
            (tenant, message.type, message.source)
            for tenant, own in messages.items()
            for message in own
        ]
        yield from paths.count(target.id, CounterName.REPLAYED, kinds)
    return tuple(
        Replayed(letter.id, letter.replayed_as)
        for letter in letters
        if letter.replayed_as is not None
    )


def discard_steps(paths: HotPaths, scope: Scope, queue: str, selection: Selection) -> Steps[int]:
    """Discards dead letters in the open transaction; returns how many."""
    check_selection(selection)
    queue_id = (yield from paths.queue(scope, queue)).id
    names, _ = yield from _select(scope, queue_id, selection, locks=True)
    rows = yield from _DISCARD.fetch_each(names, NOW)
    kinds = [(row["tenant"], row["type"], row["source"]) for row in rows]
    yield from paths.count(queue_id, CounterName.DISCARDED, kinds)
    return len(rows)


def _get(scope: Scope, dead_letter_id: UUID) -> Steps[StoredDeadLetter]:
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        row = yield from _GET.fetch_row(scope.tenant, dead_letter_id)
    if row is None:
        raise NotFound("dead letter", dead_letter_id)
    return read_dead_letter(row)


def _select(
    scope: Scope,
    queue_id: UUID,
    selection: Selection,
    *,
    after: UUID | None = None,
    looked_at_max: int | None = None,
    locks: bool = False,
) -> Steps[_Selected]:
    """Returns the selected open dead letters, oldest first. Of those that may not match it looks at
    `looked_at_max`."""
    if not _is_findable(selection):
        return _Selected(())
    start: _Position = (START_OF_TIME, NO_ID)
    until: _Position = (selection.failed_before or END_OF_TIME, LAST_ID)
    if after is not None:
        row = yield from _POSITION.fetch_row(scope.tenant, after)
        if row is None:
            raise NotFound("dead letter", after)
        start = (row["failed_at"], after)
    own = (queue_id, scope.tenant)
    end: UUID | None = None
    if looked_at_max is not None and selection.has_window:
        window = _WINDOW_END if scope.is_system else _WINDOW_END_OF_TENANT
        last = yield from window.fetch_row(*own, looked_at_max, *start, *until)
        if last is not None and last["number"] == looked_at_max:
            end = last["id"]
            until = (last["failed_at"], last["id"])
    filters = (*_texts(selection), selection.no_type)
    values = (*own, *start, *until, *filters, selection.limit)
    if selection.ids is None:
        statement = _PICK if scope.is_system else _PICK_OF_TENANT
        rows = yield from statement.fetch(*values, locks=locks)
    else:
        ids = [(id_,) for id_ in dict.fromkeys(selection.ids)]
        rows = yield from _PICK_BY_ID.fetch_each(ids, *values, locks=locks)
        rows = sorted(rows, key=lambda row: (row["failed_at"], row["id"]))[: selection.limit]
    return _Selected([(row["tenant"], row["id"]) for row in rows], end)


def _read(names: Sequence[Name]) -> Steps[tuple[StoredDeadLetter, ...]]:
    """Dead letters, oldest first."""
    return tuple(_oldest_first((yield from _READ.fetch_each(names))))


def _oldest_first(rows: Sequence[Row]) -> list[StoredDeadLetter]:
    return sorted(map(read_dead_letter, rows), key=lambda letter: (letter.failed_at, letter.id))


def _texts(selection: Selection) -> tuple[str | None, ...]:
    return selection.reason, selection.fingerprint, selection.type


def _is_findable(selection: Selection) -> bool:
    """Whether its texts can be stored; a dead letter with others cannot exist."""
    return all(text is None or _is_storable(text) for text in _texts(selection))


def _is_storable(text: str) -> bool:
    """Whether a text can be stored in a database; one that cannot need not be looked up."""
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _number_runs(letters: Sequence[StoredDeadLetter]) -> Steps[dict[UUID, int]]:
    """Numbers new runs of the schedules whose slots are replayed, by the id of the dead letter."""
    slots = [
        (letter.tenant, letter.schedule_id, letter.id)
        for letter in letters
        if letter.schedule_id is not None and letter.slot
    ]
    wanted = sorted(Counter((tenant, schedule_id) for tenant, schedule_id, _ in slots).items())
    rows = yield from _NUMBER_RUNS.fetch_each([(*name, runs) for name, runs in wanted])
    last = {(row["tenant"], row["id"]): row["runs"] for row in rows}
    numbers: dict[UUID, int] = {}
    for tenant, schedule_id, letter_id in reversed(slots):
        if (tenant, schedule_id) in last:
            numbers[letter_id] = last[tenant, schedule_id]
            last[tenant, schedule_id] -= 1
    return numbers


def _messages(
    letters: Sequence[StoredDeadLetter], runs: Mapping[UUID, int], pace: Pace
) -> dict[str, list[NewMessage]]:
    """The messages that replay dead letters, by tenant."""
    messages: dict[str, list[NewMessage]] = {}
    for index, letter in enumerate(letters):
        assert letter.replayed_as is not None
        message = replay_of(
            letter,
            message_id=letter.replayed_as,
            delay_seconds=pace.first_after_seconds + index * pace.spacing_seconds,
            run=runs.get(letter.id),
        )
        messages.setdefault(letter.tenant, []).append(message)
    return messages


def _show_deliveries(messages: Mapping[str, Sequence[NewMessage]]) -> Steps[None]:
    """Gives deliveries to endpoints their new messages."""
    yield from RESEND_DELIVERIES.fetch_each(
        [
            (delivery_id, message.id, tenant)
            for tenant, own in messages.items()
            for message in own
            if (delivery_id := delivery_of(message))
        ]
    )


def read_dead_letter(row: Row) -> StoredDeadLetter:
    """A row with the fields of `StoredDeadLetter`."""
    fields = {name: row[name] for name in StoredDeadLetter.__struct_fields__}
    resolution = fields["resolution"]
    fields["content_type"] = ContentType(fields["content_type"])
    fields["resolution"] = None if resolution is None else Resolution(resolution)
    return StoredDeadLetter(**fields)
