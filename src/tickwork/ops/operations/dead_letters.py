"""Batches of operations on dead letters: replay and discard.

An operation takes the oldest dead letters that are open and match, up to its number and its upper
bound: a message that dies again is not replayed again. Those that somebody else has locked are left
for the next batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.fields import Reader
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.message.dead_letter import (
    DEAD_LETTERS_AT_ONCE_MAX,
    DeadGroup,
    Pace,
    Replayed,
    Selection,
)
from tickwork.core.message.dead_letter_fields import read_selection
from tickwork.core.message.error_summary import summary
from tickwork.core.operation import (
    DeadLetterSelection,
    Frozen,
    OperationReason,
    OperationState,
    StoredOperation,
    Turn,
    after_batch,
    after_canaries,
    after_canaries_sent,
    batch_size,
    batch_start,
    canaries_of,
    finished,
    retried,
    spacing_seconds,
)
from tickwork.errors import BacklogFull, NotFound
from tickwork.ops.context import Context
from tickwork.ops.dead_letters import list_dead_letters, select_dead_letters

_SELECTION = msgspec.json.Decoder(DeadLetterSelection)


class _OnDeadLetters(ABC):
    """What replay and discard have in common."""

    has_canaries = True
    fields = ("queue", *(name for name in Selection.__struct_fields__))

    async def freeze(self, context: Context, reader: Reader) -> Frozen:
        queue = reader.text("queue")
        which, limit = read_selection(reader)
        assert queue is not None
        selected = await select_dead_letters(context, queue, which, limit=limit)
        return Frozen(DeadLetterSelection.of(queue, selected.which), selected.letters)

    async def do_batch(
        self, context: Context, operation: StoredOperation, ahead_seconds: float | None
    ) -> StoredOperation:
        which = _SELECTION.decode(operation.selection)
        turn = Turn(await context.store.now(), ahead_seconds)
        now = turn.now
        size = batch_size(operation, ahead_seconds)
        if size == 0:
            done = finished(operation, OperationState.DONE, now)
            return await context.store.operations.save(context.scope, done)
        known = await self._do(context, operation, which, size, turn)
        if known.handled > operation.handled or known.is_finished:
            return known
        # Nothing was left, or others have locked what is.
        if await _is_any_left(context, which):
            next_ = retried(known, now)
        else:
            next_ = finished(known, OperationState.DONE, now)
        return await context.store.operations.save(context.scope, next_)

    @abstractmethod
    async def _do(
        self,
        context: Context,
        operation: StoredOperation,
        which: DeadLetterSelection,
        size: int,
        turn: Turn,
    ) -> StoredOperation:
        """Does a batch of up to `size`."""

    async def look_at_canaries(
        self, context: Context, operation: StoredOperation
    ) -> StoredOperation:
        which = _SELECTION.decode(operation.selection)
        messages = canaries_of(operation).messages
        is_handled = not await _is_any_unsettled(context, which.queue, messages)
        now = await context.store.now()
        dead: dict[UUID, str | None] = {}
        if is_handled or now >= canaries_of(operation).until:
            dead = await _dead_among(context, which.queue, messages, operation.started_at)
        example = next(iter(dead.values()), None)
        next_ = after_canaries(
            operation, now, is_handled=is_handled, dead=len(dead), example=example
        )
        return await context.store.operations.save(context.scope, next_)


class _ReplayWork(_OnDeadLetters):
    async def _do(
        self,
        context: Context,
        operation: StoredOperation,
        which: DeadLetterSelection,
        size: int,
        turn: Turn,
    ) -> StoredOperation:
        now = turn.now
        pace = Pace(
            first_after_seconds=(batch_start(operation, now) - now).total_seconds(),
            spacing_seconds=spacing_seconds(operation),
        )

        def after(replayed: Sequence[Replayed]) -> StoredOperation:
            next_ = after_batch(operation, turn, done=len(replayed))
            if operation.has_canaries_left and replayed:
                messages = tuple(letter.message_id for letter in replayed)
                return after_canaries_sent(next_, messages, now)
            return next_

        operations = context.store.operations
        try:
            return await operations.replay(
                context.scope, which.queue, which.up_to(size), pace, after
            )
        except BacklogFull:
            reason = OperationReason.BACKLOG_FULL
            stopped = finished(operation, OperationState.STOPPED, now, reason=reason)
            return await operations.save(context.scope, stopped)


class _DiscardWork(_OnDeadLetters):
    has_canaries = False

    async def _do(
        self,
        context: Context,
        operation: StoredOperation,
        which: DeadLetterSelection,
        size: int,
        turn: Turn,
    ) -> StoredOperation:
        return await context.store.operations.discard(
            context.scope,
            which.queue,
            which.up_to(size),
            lambda discarded: after_batch(operation, turn, done=discarded),
        )


REPLAY, DISCARD = _ReplayWork(), _DiscardWork()


async def _is_any_left(context: Context, which: DeadLetterSelection) -> bool:
    page = await list_dead_letters(context, which.queue, which.up_to(1))
    return bool(page.letters) or page.next is not None


async def _is_any_unsettled(context: Context, queue: str, messages: Iterable[UUID]) -> bool:
    """Whether one of the messages is in its queue; the last one sent is asked for first."""
    for message_id in reversed([*messages]):
        try:
            await context.store.messages.get(context.scope, queue, message_id)
        except NotFound:
            continue
        return True
    return False


async def _dead_among(
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
