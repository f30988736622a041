"""Batches of operations on dead letters: replay and discard.

An operation takes the oldest dead letters that are open and match, up to its number and its upper
bound: a message that dies again is not replayed again. Those that somebody else has locked are left
for the next batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from tickwork.core.fields import Reader
from tickwork.core.message.dead_letter import (
    Pace,
    Replayed,
    Selection,
)
from tickwork.core.message.dead_letter_fields import read_selection
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
from tickwork.errors import BacklogFull
from tickwork.ops.context import Context
from tickwork.ops.dead_letters import (
    dead_among,
    is_unsettled,
    list_dead_letters,
    select_dead_letters,
)

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
            dead = await dead_among(context, which.queue, messages, operation.started_at)
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
        if await is_unsettled(context, queue, message_id):
            return True
    return False
