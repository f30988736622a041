"""Lists, edits, replays and discards dead letters.

A replay with canaries:

```
  canaries ──all handled, none dead──▶ the rest, in chunks, oldest first
     │
     └── one died or timed out ──────▶ stop; the rest stays open
```

Each chunk is sent and resolved in one transaction, so an interrupted replay neither loses a dead
letter nor sends it twice. A replay never includes dead letters that arrived after it started, so
a message that dies again is not replayed forever. Two bounds ensure that: the start time and the
number of matching dead letters at the start. The time alone fails with a clock that stands still;
the number alone fails if others resolve some of them meanwhile. `count_dead_letters` returns both,
so that a caller can show the number, ask, and then act on what it showed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.answers.dead_letter import DeadLetter, ReplaySummary, StopReason
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import (
    DELAY_SECONDS_MAX,
    LIST_LIMIT_MAX,
)
from tickwork.core.message.body import body_in_json, shown_body
from tickwork.core.message.dead_letter import (
    DEAD_LETTERS_AT_ONCE_MAX,
    DeadGroup,
    DeadLetterPage,
    MatchingDeadLetters,
    Pace,
    Selection,
    StoredDeadLetter,
)
from tickwork.core.message.error_summary import summary
from tickwork.core.message.message_list import LOOKED_AT_MAX
from tickwork.core.model import Scope
from tickwork.core.operation import (
    CANARY_POLL_SECONDS,
    CANARY_TIMEOUT_SECONDS,
    check_pace,
)
from tickwork.errors import BacklogFull, FieldError, InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.queues import queue_names
from tickwork.store.contract import Store

LIST_LIMIT = 100
"""Number of groups that `group_dead_letters` returns unless the caller gives a limit."""

EXAMPLES_MAX = 20
"""Number of groups that are shown with the error of one of their dead letters."""

IDS_NAMED_MAX = 5
"""Maximum number of ids that an error names."""

Progress = Callable[[int, int], None]
"""Called after each chunk with the number of dead letters done and their maximum number."""

Sleep = Callable[[float], Awaitable[None]]


class SelectedDeadLetters(Struct, frozen=True):
    """The open dead letters that matched at one moment, and their number; later ones are not
    included."""

    which: Selection
    letters: int


async def list_dead_letters(
    context: Context, queue: str | None, which: Selection, *, after: UUID | None = None
) -> DeadLetterPage:
    """Returns the open dead letters of a queue that are selected, oldest first; without a queue
    those of all queues, newest first.

    `after` is `next` of the page before, or the id of a dead letter. A page may be short, or empty,
    and have a next one: where few dead letters match a filter, it looks at `LOOKED_AT_MAX` of them.
    """
    letters, looked_at_max = context.store.dead_letters, LOOKED_AT_MAX
    if queue is None:
        return await letters.newest(context.scope, which, after=after, looked_at_max=looked_at_max)
    return await letters.list(context.scope, queue, which, after=after, looked_at_max=looked_at_max)


async def first_dead_letters(
    context: Context, queue: str | None, which: Selection, *, after: UUID | None = None
) -> tuple[DeadLetter, ...]:
    """Returns the first of the selected dead letters, however many it has to look at."""
    found: tuple[StoredDeadLetter, ...] = ()
    while True:
        rest = structs.replace(which, limit=which.limit - len(found))
        page = await list_dead_letters(context, queue, rest, after=after)
        found += page.letters
        after = page.next
        if after is None or len(found) == which.limit:
            return await show_dead_letters(context, found)


async def group_dead_letters(
    context: Context, queue: str, *, limit: int = LIST_LIMIT
) -> tuple[DeadGroup, ...]:
    """Groups the open dead letters of a queue by reason, error and type; largest group first. The
    first `EXAMPLES_MAX` have an example."""
    groups = await context.store.dead_letters.groups(context.scope, queue, limit)
    shown = [await _with_example(context, queue, group) for group in groups[:EXAMPLES_MAX]]
    return (*shown, *groups[EXAMPLES_MAX:])


async def _with_example(context: Context, queue: str, group: DeadGroup) -> DeadGroup:
    which = Selection(reason=group.reason, fingerprint=group.fingerprint, type=group.type, limit=1)
    page = await list_dead_letters(context, queue, which)
    example = next((summary(letter.error) for letter in page.letters), None)
    return structs.replace(group, example=example)


async def count_dead_letters(context: Context, queue: str, which: Selection) -> MatchingDeadLetters:
    """Counts the open dead letters of a queue that match now; ignores `which.limit` and its ids."""
    until = _until(which, await context.store.now())
    bounded = structs.replace(which, failed_before=until)
    return MatchingDeadLetters(
        await context.store.dead_letters.count(context.scope, queue, bounded), until
    )


async def find_dead_letter(context: Context, dead_letter_id: UUID) -> StoredDeadLetter:
    """The stored dead letter with an id. Raises `NotFound`."""
    return await context.store.dead_letters.get(context.scope, dead_letter_id)


async def get_dead_letter(
    context: Context, dead_letter_id: UUID, *, as_json: bool = False
) -> DeadLetter:
    """Returns one dead letter, open or resolved; raises `NotFound` if there is none."""
    found = await find_dead_letter(context, dead_letter_id)
    (shown,) = await show_dead_letters(context, [found], as_json=as_json)
    return shown


async def show_dead_letters(
    context: Context, letters: Sequence[StoredDeadLetter], *, as_json: bool = False
) -> tuple[DeadLetter, ...]:
    """Dead letters as users see them. With `as_json` their bodies are to be sent as a part of
    JSON."""
    names = await queue_names(context) if letters else {}
    body_of = body_in_json if as_json else shown_body
    return tuple(
        DeadLetter.of(letter, names.get(letter.queue_id), body_of(letter.body, letter.content_type))
        for letter in letters
    )


async def replay(
    context: Context,
    queue: str,
    which: Selection,
    *,
    limit: int | None = None,
    canary: int = 0,
    rate_per_second: float | None = None,
    canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
    on_progress: Progress | None = None,
    sleep: Sleep = asyncio.sleep,
) -> ReplaySummary:
    """Sends the selected dead letters of a queue again, oldest first; ignores `which.limit`. Raises
    `NotFound`, before anything is sent, if it names ids that are not open.

    With `rate_per_second` the messages become visible one after another. With `canary=N` the first
    N are sent alone, and the rest only after each of them was handled: a consumer must be running.
    `canary_timeout_seconds` counts from when the last canary becomes visible.
    """
    _check(limit, canary, rate_per_second, canary_timeout_seconds)
    started_at = await context.store.now()
    selected = await _select(context, queue, which, started_at, limit)
    letters_max = selected.letters
    spacing = 0.0 if rate_per_second is None else 1.0 / rate_per_second
    if letters_max * spacing > DELAY_SECONDS_MAX:
        fault = f"takes more than a year for {letters_max} dead letters; raise it, or give a limit"
        raise InvalidInput([FieldError("rate_per_second", fault)])
    run = _Replay(
        context.store,
        context.scope,
        queue,
        selected.which,
        spacing_seconds=spacing,
        started_at=started_at,
        letters_max=letters_max,
        on_progress=on_progress,
    )
    async with _recorded(context, "replay", queue, selected):
        canaries = await run.send(min(canary, letters_max))
        failed, stopped = 0, run.stopped
        if canaries and stopped is None:
            deadline = max(run.next_at, started_at) + timedelta(seconds=canary_timeout_seconds)
            handled = await _wait(context, queue, canaries, deadline, sleep)
            failed = len(await dead_among(context, queue, canaries, started_at))
            stopped = (
                StopReason.CANARY_DIED if failed else None if handled else StopReason.CANARY_TIMEOUT
            )
        if stopped is None:
            await run.send(letters_max - run.replayed)
            stopped = run.stopped
    return ReplaySummary(
        replayed=run.replayed, canaries=len(canaries), canaries_failed=failed, stopped=stopped
    )


async def discard(
    context: Context,
    queue: str,
    which: Selection,
    *,
    limit: int | None = None,
    on_progress: Progress | None = None,
) -> int:
    """Resolves the selected dead letters of a queue without sending them; returns how many. Raises
    `NotFound`, before anything is done, if it names ids that are not open."""
    selected = await select_dead_letters(context, queue, which, limit=limit)
    discarded = 0
    async with _recorded(context, "discard", queue, selected):
        while discarded < selected.letters:
            chunk = min(selected.letters - discarded, DEAD_LETTERS_AT_ONCE_MAX)
            these = structs.replace(selected.which, limit=chunk)
            done = await context.store.dead_letters.discard(context.scope, queue, these)
            discarded += done
            if on_progress is not None:
                on_progress(discarded, selected.letters)
            if done < chunk:
                break
    return discarded


@asynccontextmanager
async def _recorded(
    context: Context, verb: str, queue: str, selected: SelectedDeadLetters
) -> AsyncIterator[None]:
    """Records a change of many dead letters in the first of its transactions."""
    after = {"letters": selected.letters, "ids": _named(selected.which.ids or ())}
    async with recorded(context, f"dead_letters.{verb}", queue, after=after) as change:
        change.is_void = not selected.letters
        yield


async def select_dead_letters(
    context: Context, queue: str, which: Selection, *, limit: int | None = None
) -> SelectedDeadLetters:
    """Returns the dead letters that match now, so that a later `discard` takes exactly those.
    Raises `NotFound` if it names ids that are not open."""
    _check(limit, 0, None, CANARY_TIMEOUT_SECONDS)
    return await _select(context, queue, which, await context.store.now(), limit)


def _named(ids: Sequence[UUID]) -> list[str]:
    """The first of the ids, with their prefix."""
    return [public_id(Prefix.DEAD_LETTER, letter_id) for letter_id in ids[:IDS_NAMED_MAX]]


async def _check_open(context: Context, queue: str, ids: Sequence[UUID]) -> None:
    """Raises `NotFound` if some ids are not open dead letters of the queue."""
    still_open = await _by_id(context, queue, Selection(ids=tuple(ids)))
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in still_open]
    if missing:
        named = ", ".join(_named(missing))
        more = len(missing) - IDS_NAMED_MAX
        rest = f" and {more} more" if more > 0 else ""
        raise NotFound("open dead letter", f"{named}{rest} in queue {queue}", "nothing was done")


async def _select(
    context: Context,
    queue: str,
    which: Selection,
    now: datetime,
    limit: int | None,
) -> SelectedDeadLetters:
    which = structs.replace(which, failed_before=_until(which, now))
    if which.ids is None:
        matching = await context.store.dead_letters.count(context.scope, queue, which)
    else:
        await _check_open(context, queue, which.ids)
        matching = len(await _by_id(context, queue, which))
    return SelectedDeadLetters(which, matching if limit is None else min(limit, matching))


def _until(which: Selection, now: datetime) -> datetime:
    return now if which.failed_before is None else min(now, which.failed_before)


async def _by_id(context: Context, queue: str, which: Selection) -> frozenset[UUID]:
    """Returns the ids of a selection that are open and match it."""
    ids = which.ids or ()
    size = DEAD_LETTERS_AT_ONCE_MAX
    found = set[UUID]()
    # With no ids, query anyway: it raises NotFound if there is no such queue.
    for start in range(0, max(len(ids), 1), size):
        some = structs.replace(which, ids=ids[start : start + size], limit=size)
        page = await context.store.dead_letters.list(context.scope, queue, some)
        found.update(letter.id for letter in page.letters)
    return frozenset(found)


class _Replay:
    """A replay in progress: its counters, and when the next message becomes visible."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        queue: str,
        which: Selection,
        *,
        spacing_seconds: float,
        started_at: datetime,
        letters_max: int,
        on_progress: Progress | None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._queue = queue
        self._which = which
        self._spacing_seconds, self._letters_max = spacing_seconds, letters_max
        self._on_progress = on_progress
        self.next_at, self.replayed = started_at, 0
        self.stopped: StopReason | None = None

    async def send(self, letters: int) -> list[UUID]:
        """Replays up to this many in chunks and returns the ids of the new messages."""
        sent: list[UUID] = []
        while len(sent) < letters and self.stopped is None:
            chunk = min(letters - len(sent), DEAD_LETTERS_AT_ONCE_MAX)
            new = await self._send_chunk(chunk)
            sent += new
            if len(new) < chunk:
                break
        return sent

    async def _send_chunk(self, letters: int) -> list[UUID]:
        now = await self._store.now()
        # Time spent waiting for canaries or the database is not made up by a burst.
        self.next_at = max(self.next_at, now)
        pace = Pace(
            first_after_seconds=(self.next_at - now).total_seconds(),
            spacing_seconds=self._spacing_seconds,
        )
        which = structs.replace(self._which, limit=letters)
        try:
            done = await self._store.dead_letters.replay(self._scope, self._queue, which, pace)
        except BacklogFull:
            self.stopped = StopReason.BACKLOG_FULL
            return []
        self.next_at += timedelta(seconds=self._spacing_seconds * len(done))
        self.replayed += len(done)
        if self._on_progress is not None:
            self._on_progress(self.replayed, self._letters_max)
        return [replayed.message_id for replayed in done]


async def _wait(
    context: Context,
    queue: str,
    messages: Iterable[UUID],
    deadline: datetime,
    sleep: Sleep,
) -> bool:
    """Whether all messages were settled by the deadline."""
    waiting = [*messages]
    while waiting:
        # While one message is unsettled there is no need to check the others.
        if await is_unsettled(context, queue, waiting[-1]):
            if await context.store.now() >= deadline:
                return False
            await sleep(CANARY_POLL_SECONDS)
        else:
            waiting.pop()
    return True


async def is_unsettled(context: Context, queue: str, message_id: UUID) -> bool:
    """Whether a message is in its queue."""
    try:
        await context.store.messages.get(context.scope, queue, message_id)
    except NotFound:
        return False
    return True


async def dead_among(
    context: Context, queue: str, messages: Iterable[UUID], since: datetime
) -> dict[UUID, str | None]:
    """Those of the messages that are open dead letters, with their errors in one line.

    Searches only groups with a dead letter since then; usually there is none.
    """
    wanted = frozenset(messages)
    groups = await context.store.dead_letters.groups(context.scope, queue, LIST_LIMIT_MAX)
    found: dict[UUID, str | None] = {}
    for selection in _selections(groups, since):
        found |= await _find_dead(context, queue, selection, wanted)
    return found


def _selections(groups: Sequence[DeadGroup], since: datetime) -> Iterator[Selection]:
    if len(groups) == LIST_LIMIT_MAX:
        # The list of groups may be incomplete.
        yield Selection(limit=DEAD_LETTERS_AT_ONCE_MAX)
        return
    for group in groups:
        if group.last_failed_at >= since:
            yield Selection(
                reason=group.reason,
                fingerprint=group.fingerprint,
                type=group.type,
                no_type=group.type is None,
                limit=DEAD_LETTERS_AT_ONCE_MAX,
            )


async def _find_dead(
    context: Context, queue: str, selection: Selection, wanted: frozenset[UUID]
) -> dict[UUID, str | None]:
    found: dict[UUID, str | None] = {}
    after: UUID | None = None
    while True:
        page = await list_dead_letters(context, queue, selection, after=after)
        found |= {
            letter.message_id: summary(letter.error)
            for letter in page.letters
            if letter.message_id in wanted
        }
        after = page.next
        if after is None:
            return found


def _check(
    limit: int | None, canary: int, rate_per_second: float | None, canary_timeout_seconds: float
) -> None:
    if limit is not None and limit < 1:
        raise InvalidInput([FieldError("limit", f"must be 1 or more, not {limit}")])
    check_pace(
        canary=canary,
        canary_timeout_seconds=canary_timeout_seconds,
        rate_per_second=rate_per_second,
    )
