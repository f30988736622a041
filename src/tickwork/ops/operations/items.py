"""Batches of operations on things that are changed one by one: runs and schedules.

An operation walks through what its selection lists, in the order of their making, and notes behind
which one it is. Each change and that note are one transaction, fenced by the version of the
operation, so a thing is changed once wherever a node dies. What was made, or came to fit, after the
start is left alone. What no longer can be changed is skipped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.answers.ids import plain_text
from tickwork.core.fields import Reader
from tickwork.core.message.error_summary import summary
from tickwork.core.operation import (
    LEASE_SECONDS,
    Frozen,
    OperationState,
    StoredOperation,
    Turn,
    after_canaries,
    after_item,
    canaries_of,
    finished,
    item_batch_size,
)
from tickwork.errors import Conflict, InvalidInput, NotFound, StoreError, TickworkError
from tickwork.ops.context import Context

COUNTED_MAX = 1_000
"""Things that a start counts; of more the number is an estimate."""

PAGE_ITEMS = 100
"""Things that are read at a time."""

LIMIT_MAX = 1_000_000
"""Maximum of the limit of an operation."""


class Item(NamedTuple):
    """A thing to change. `position` is where the walk goes on behind it; one that `is_new` came to
    fit after the start."""

    id: Any
    uid: UUID
    position: str
    is_new: bool


class Canary(NamedTuple):
    """What became of a canary."""

    is_over: bool
    is_bad: bool
    error: str | None


class Which(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an operation selects. `until` is its upper bound."""

    until: datetime
    limit: int | None = None


class OnItems(ABC):
    """What operations on single things have in common."""

    selection: type[Which]
    has_canaries = True

    @abstractmethod
    def read(self, reader: Reader, until: datetime) -> Which:
        """The selection of a caller."""

    @abstractmethod
    async def list(
        self, context: Context, which: Any, position: str | None, limit: int
    ) -> Sequence[Item]:
        """The things behind a position, in the order of the walk."""

    @abstractmethod
    async def change(self, context: Context, item: Item) -> None:
        """Changes one thing in one transaction."""

    @abstractmethod
    async def canaries(self, context: Context, uids: Sequence[UUID]) -> Sequence[Canary]:
        """What became of the canaries, of which each is one that was changed."""

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for name in self.selection.__struct_fields__ if name != "until")

    async def freeze(self, context: Context, reader: Reader) -> Frozen:
        which = self.read(reader, await context.store.now())
        if reader.faults:
            raise InvalidInput(reader.faults)
        total, has_more = 0, True
        position: str | None = None
        while has_more and total < COUNTED_MAX:
            found = await self.list(context, which, position, PAGE_ITEMS)
            total += sum(not item.is_new for item in found)
            has_more = len(found) == PAGE_ITEMS
            position = found[-1].position if found else None
        if which.limit is not None and which.limit <= total:
            return Frozen(which, which.limit)
        return Frozen(which, total, is_estimate=has_more)

    async def do_batch(
        self, context: Context, operation: StoredOperation, ahead_seconds: float | None
    ) -> StoredOperation:
        which = msgspec.json.decode(operation.selection, type=self.selection)
        turn = Turn(await context.store.now(), ahead_seconds)
        size = item_batch_size(operation, ahead_seconds, which.limit)
        if size == 0:
            return await _end(context, operation, turn.now)
        found = await self.list(context, which, operation.position, size)
        known = operation
        for number, item in enumerate(found, start=1):
            if item.is_new:
                known = structs.replace(known, position=item.position)
                continue
            known = await self._do_one(context, known, item, turn, is_last=number == len(found))
            if known.state != OperationState.RUNNING:
                return known
        if len(found) < size:
            return await _end(context, known, turn.now)
        if found[-1].is_new:
            return await context.store.operations.save(
                context.scope, structs.replace(known, due_at=turn.now)
            )
        return known

    async def _do_one(
        self, context: Context, operation: StoredOperation, item: Item, turn: Turn, *, is_last: bool
    ) -> StoredOperation:
        operations = context.store.operations

        def after(**counts: Any) -> StoredOperation:
            next_ = after_item(operation, turn, position=item.position, **counts)
            if is_last or next_.state != OperationState.RUNNING:
                return next_
            # The batch goes on: nobody else begins it.
            return structs.replace(next_, due_at=turn.now + timedelta(seconds=LEASE_SECONDS))

        changed = after(done=1, canary=item.uid)
        try:
            async with operations.joined(context.scope, changed):
                await self.change(context, item)
        except (Conflict, NotFound):
            return await operations.save(context.scope, after(skipped=1))
        except StoreError:
            raise
        except TickworkError as error:
            failed = after(failed=1, error=summary(f"{plain_text(item.id)}: {error}"))
            return await operations.save(context.scope, failed)
        return structs.replace(changed, version=operation.version + 1)

    async def look_at_canaries(
        self, context: Context, operation: StoredOperation
    ) -> StoredOperation:
        found = await self.canaries(context, canaries_of(operation).messages)
        bad = [canary for canary in found if canary.is_bad]
        next_ = after_canaries(
            operation,
            await context.store.now(),
            is_handled=all(canary.is_over for canary in found),
            dead=len(bad),
            example=bad[0].error if bad else None,
        )
        return await context.store.operations.save(context.scope, next_)


async def _end(context: Context, operation: StoredOperation, now: datetime) -> StoredOperation:
    done = finished(operation, OperationState.DONE, now)
    return await context.store.operations.save(context.scope, done)


def read_limit(reader: Reader) -> int | None:
    """The limit of a caller, if there is one."""
    return reader.integer("limit", 1, LIMIT_MAX) if reader.has("limit") else None
