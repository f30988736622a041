"""Replaying and discarding dead letters, many at a time.

```
  canaries ──all gone, none dead──▶ the rest, in pieces, oldest first
     │
     └── one is dead, or too slow ──▶ stop; the rest stays as it is
```

Each piece is sent and resolved in one transaction, so that whatever stops a replay leaves no
letter sent twice or lost. It never goes on to letters that came after it began: what dies again
is not replayed for ever. Two things see to that: the time at which it began, and how many fitted
then. The time alone is not enough for a clock that stands still, the number alone not for
letters that went elsewhere meanwhile and leave room for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.limits import DELAY_SECONDS_MAX, LIST_LIMIT_MAX
from tickwork.core.message.dead_letter import (
    DEAD_LETTERS_AT_ONCE_MAX,
    DeadGroup,
    DeadLetter,
    Pace,
    Selection,
)
from tickwork.core.model import ContentType, Scope
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.errors import BacklogFull, FieldError, InvalidInput, NotFound
from tickwork.store.contract import Store

LIST_LIMIT = 100
"""Number of groups that `group_dead_letters` returns unless the caller gives a limit."""

CANARIES_MAX = 100
CANARY_POLL_SECONDS = 0.5
CANARY_TIMEOUT_SECONDS = 300.0
CANARY_TIMEOUT_SECONDS_MAX = 86_400.0

Progress = Callable[[int, int], None]
"""Told after each piece: how many letters are done, and how many there are at most."""

Sleep = Callable[[float], Awaitable[None]]


class Stop(StrEnum):
    """Why a replay stopped before its end."""

    CANARY_DIED = "canary_died"
    CANARY_TIMEOUT = "canary_timeout"
    BACKLOG_FULL = "backlog_full"


class Chosen(Struct, frozen=True):
    """The open letters that fitted at one moment, and how many; later ones are not among them."""

    which: Selection
    letters: int


class ReplaySummary(Struct, frozen=True, kw_only=True):
    """What a replay did; `replayed` includes the canaries."""

    replayed: int = 0
    canaries: int = 0
    canaries_failed: int = 0
    stopped: Stop | None = None


async def list_dead_letters(
    store: Store, scope: Scope, queue: str, which: Selection, *, after: UUID | None = None
) -> tuple[DeadLetter, ...]:
    """Returns the open dead letters of a queue that are selected, oldest first.

    `after` is the id of the last dead letter of the page before.
    """
    return await store.dead_letters.list(scope, queue, which, after=after)


async def group_dead_letters(
    store: Store, scope: Scope, queue: str, *, limit: int = LIST_LIMIT
) -> tuple[DeadGroup, ...]:
    """Groups the open dead letters of a queue by reason, error and type; largest group first."""
    return await store.dead_letters.groups(scope, queue, limit)


async def get_dead_letter(store: Store, scope: Scope, dead_letter_id: UUID) -> DeadLetter:
    """Returns one dead letter, open or resolved; raises `NotFound` if there is none."""
    return await store.dead_letters.get(scope, dead_letter_id)


async def edit_dead_letter(
    store: Store, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
) -> DeadLetter:
    """Replaces the body of an open dead letter; a replay sends the new one.

    Raises `Conflict` if the dead letter is resolved.
    """
    return await store.dead_letters.edit(scope, dead_letter_id, body, content_type)


async def replay(
    store: Store,
    scope: Scope,
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
    """Replays the chosen letters of a queue, oldest first; `which.limit` does not count here.

    With a rate they become visible one after another. With canaries so many go first, and the
    rest only when each of them was handled; a consumer must be running, and what is waited for
    counts from the last canary's turn.
    """
    _check(limit, canary, rate_per_second, canary_timeout_seconds)
    begun_at = await store.now()
    chosen = await _chosen(store, scope, queue, which, begun_at, limit)
    letters_max = chosen.letters
    spacing = 0.0 if rate_per_second is None else 1.0 / rate_per_second
    if letters_max * spacing > DELAY_SECONDS_MAX:
        told = f"lets {letters_max} letters take more than a year; raise it, or give a limit"
        raise InvalidInput([FieldError("rate_per_second", told)])
    run = _Run(
        store,
        scope,
        queue,
        chosen.which,
        spacing_seconds=spacing,
        begun_at=begun_at,
        letters_max=letters_max,
        on_progress=on_progress,
    )
    canaries = await run.send(min(canary, letters_max))
    failed, stopped = 0, run.stopped
    if canaries and stopped is None:
        deadline = max(run.next_at, begun_at) + timedelta(seconds=canary_timeout_seconds)
        gone = await _wait(store, scope, queue, canaries, deadline, sleep)
        failed = await _died(store, scope, queue, canaries, begun_at)
        stopped = Stop.CANARY_DIED if failed else None if gone else Stop.CANARY_TIMEOUT
    if stopped is None:
        await run.send(letters_max - run.replayed)
        stopped = run.stopped
    return ReplaySummary(
        replayed=run.replayed, canaries=len(canaries), canaries_failed=failed, stopped=stopped
    )


async def discard(
    store: Store,
    scope: Scope,
    queue: str,
    which: Selection,
    *,
    limit: int | None = None,
    on_progress: Progress | None = None,
) -> int:
    """Discards the chosen letters of a queue, oldest first, and says how many."""
    chosen = await choose(store, scope, queue, which, limit=limit)
    discarded = 0
    while discarded < chosen.letters:
        piece = min(chosen.letters - discarded, DEAD_LETTERS_AT_ONCE_MAX)
        these = structs.replace(chosen.which, limit=piece)
        done = await store.dead_letters.discard(scope, queue, these)
        discarded += done
        if on_progress is not None:
            on_progress(discarded, chosen.letters)
        if done < piece:
            break
    return discarded


async def choose(
    store: Store, scope: Scope, queue: str, which: Selection, *, limit: int | None = None
) -> Chosen:
    """The letters that fit now, for somebody to agree to, and then to `discard` exactly those."""
    _check(limit, 0, None, CANARY_TIMEOUT_SECONDS)
    return await _chosen(store, scope, queue, which, await store.now(), limit)


async def not_open(
    store: Store, scope: Scope, queue: str, letters: Iterable[UUID]
) -> tuple[UUID, ...]:
    """Those of the ids that are not open dead letters of the queue, in their order."""
    asked = tuple(dict.fromkeys(letters))
    there = await _by_id(store, scope, queue, Selection(ids=asked))
    return tuple(each for each in asked if each not in there)


async def _chosen(
    store: Store,
    scope: Scope,
    queue: str,
    which: Selection,
    now: datetime,
    limit: int | None,
) -> Chosen:
    until = now if which.failed_before is None else min(now, which.failed_before)
    which = structs.replace(which, failed_before=until)
    if which.ids is None:
        fitting = await _fitting(store, scope, queue, which)
    else:
        fitting = len(await _by_id(store, scope, queue, which))
    return Chosen(which, fitting if limit is None else min(limit, fitting))


async def _fitting(store: Store, scope: Scope, queue: str, which: Selection) -> int:
    """How many open letters fit at most; those that die just now may be counted as well."""
    groups = await store.dead_letters.groups(scope, queue, LIST_LIMIT_MAX)
    if len(groups) == LIST_LIMIT_MAX:
        # There may be groups that were not told.
        return (await store.queues.counts(scope, queue)).dead
    return sum(group.dead_letters for group in groups if _fits(group, which))


def _fits(group: DeadGroup, which: Selection) -> bool:
    return (
        which.reason in (None, group.reason)
        and which.fingerprint in (None, group.fingerprint)
        and which.type in (None, group.type)
    )


async def _by_id(store: Store, scope: Scope, queue: str, which: Selection) -> frozenset[UUID]:
    """Which of the letters named by a selection are open and fit."""
    # With none the queue is looked for all the same.
    which = structs.replace(
        which, limit=min(max(len(which.ids or ()), 1), DEAD_LETTERS_AT_ONCE_MAX)
    )
    return frozenset(each.id for each in await store.dead_letters.list(scope, queue, which))


class _Run:
    """One replay on its way: how far it is, and when the next message has its turn."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        queue: str,
        which: Selection,
        *,
        spacing_seconds: float,
        begun_at: datetime,
        letters_max: int,
        on_progress: Progress | None,
    ) -> None:
        self._store, self._scope, self._queue, self._which = store, scope, queue, which
        self._spacing_seconds, self._letters_max = spacing_seconds, letters_max
        self._on_progress = on_progress
        self.next_at, self.replayed = begun_at, 0
        self.stopped: Stop | None = None

    async def send(self, letters: int) -> list[UUID]:
        """Replays so many, in pieces, and says what they became; fewer if there are no more."""
        sent: list[UUID] = []
        while len(sent) < letters and self.stopped is None:
            piece = min(letters - len(sent), DEAD_LETTERS_AT_ONCE_MAX)
            new = await self._send_piece(piece)
            sent += new
            if len(new) < piece:
                break
        return sent

    async def _send_piece(self, letters: int) -> list[UUID]:
        now = await self._store.now()
        # What was waited for canaries, or for the database, is not caught up.
        self.next_at = max(self.next_at, now)
        pace = Pace(
            first_after_seconds=(self.next_at - now).total_seconds(),
            spacing_seconds=self._spacing_seconds,
        )
        which = structs.replace(self._which, limit=letters)
        try:
            done = await self._store.dead_letters.replay(self._scope, self._queue, which, pace)
        except BacklogFull:
            self.stopped = Stop.BACKLOG_FULL
            return []
        self.next_at += timedelta(seconds=self._spacing_seconds * len(done))
        self.replayed += len(done)
        if self._on_progress is not None:
            self._on_progress(self.replayed, self._letters_max)
        return [each.message_id for each in done]


async def _wait(
    store: Store,
    scope: Scope,
    queue: str,
    messages: Iterable[UUID],
    deadline: datetime,
    sleep: Sleep,
) -> bool:
    """Whether all messages were gone by the deadline."""
    waiting = [*messages]
    while waiting:
        # One look is enough while it finds one that is still there.
        if await _is_there(store, scope, queue, waiting[-1]):
            if await store.now() >= deadline:
                return False
            await sleep(CANARY_POLL_SECONDS)
        else:
            waiting.pop()
    return True


async def _is_there(store: Store, scope: Scope, queue: str, message_id: UUID) -> bool:
    try:
        await store.messages.get(scope, queue, message_id)
    except NotFound:
        return False
    return True


async def _died(
    store: Store, scope: Scope, queue: str, messages: Iterable[UUID], since: datetime
) -> int:
    """How many of the messages are open dead letters.

    Only groups in which somebody died since then are gone through: mostly there is none.
    """
    wanted = frozenset(messages)
    groups = await store.dead_letters.groups(scope, queue, LIST_LIMIT_MAX)
    found: set[UUID] = set()
    for choice in _choices(groups, since):
        found |= await _found(store, scope, queue, choice, wanted)
    return len(found)


def _choices(groups: Sequence[DeadGroup], since: datetime) -> Iterator[Selection]:
    if len(groups) == LIST_LIMIT_MAX:
        # There may be groups that were not told.
        yield Selection(limit=DEAD_LETTERS_AT_ONCE_MAX)
        return
    for group in groups:
        if group.last_failed_at >= since:
            yield Selection(
                reason=group.reason,
                fingerprint=group.fingerprint,
                type=group.type,
                limit=DEAD_LETTERS_AT_ONCE_MAX,
            )


async def _found(
    store: Store, scope: Scope, queue: str, choice: Selection, wanted: frozenset[UUID]
) -> set[UUID]:
    found: set[UUID] = set()
    after: UUID | None = None
    while True:
        letters = await store.dead_letters.list(scope, queue, choice, after=after)
        found.update(each.message_id for each in letters if each.message_id in wanted)
        if len(letters) < choice.limit:
            return found
        after = letters[-1].id


def _check(
    limit: int | None, canary: int, rate_per_second: float | None, canary_timeout_seconds: float
) -> None:
    faults: list[FieldError] = []
    if limit is not None and limit < 1:
        faults.append(FieldError("limit", f"must be 1 or more, not {limit}"))
    if not 0 <= canary <= CANARIES_MAX:
        faults.append(FieldError("canary", f"must be from 0 to {CANARIES_MAX}, not {canary}"))
    if rate_per_second is not None and not RATE_MIN <= rate_per_second <= RATE_MAX:
        told = f"must be from {RATE_MIN:g} to {RATE_MAX:g}, not {rate_per_second:g}"
        faults.append(FieldError("rate_per_second", told))
    if not 0 < canary_timeout_seconds <= CANARY_TIMEOUT_SECONDS_MAX:
        told = f"must be above 0 and at most {CANARY_TIMEOUT_SECONDS_MAX:g}"
        faults.append(FieldError("canary_timeout_seconds", told))
    if faults:
        raise InvalidInput(faults)
