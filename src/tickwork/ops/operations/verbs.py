"""Operations: start, list, get, stop, go on; and how they are carried on, batch by batch, in every
node and in a caller who waits for one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import ENCODER
from tickwork.core.fields import Reader, choice_error
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.operation import (
    BATCH_SECONDS,
    CANARY_POLL_SECONDS,
    CANARY_TIMEOUT_SECONDS,
    POLL_SECONDS_MAX,
    Frozen,
    OperationKind,
    OperationState,
    OperationTaken,
    StoredOperation,
    check_pace,
    finished,
    to_json,
)
from tickwork.errors import FieldError, InvalidInput, NotFound, StoreError, TickworkError
from tickwork.ops.audit import ACTOR, recorded
from tickwork.ops.context import Context
from tickwork.ops.operations import runs, schedules
from tickwork.ops.operations.dead_letters import DISCARD, REPLAY
from tickwork.store.ids import new_id

OPERATIONS_LISTED = 100
"""Number of operations that a list returns unless the caller gives a limit."""

Sleep = Callable[[float], Awaitable[None]]

Progress = Callable[[StoredOperation], None]
"""Called after each batch."""


class Work(Protocol):
    """The work of a kind of operation. Each step writes in one transaction, fenced by the version
    of the operation, and returns what it has become."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields by which a caller selects things."""

    @property
    def has_canaries(self) -> bool:
        """Whether the first things can fail later than they are done."""

    async def freeze(self, context: Context, reader: Reader) -> Frozen:
        """What the caller selects, as it is now. Raises `InvalidInput` and `NotFound`."""

    async def do_batch(
        self, context: Context, operation: StoredOperation, ahead_seconds: float | None
    ) -> StoredOperation:
        """Does the next batch."""

    async def look_at_canaries(
        self, context: Context, operation: StoredOperation
    ) -> StoredOperation:
        """Looks at what became of the canaries."""


WORK: dict[str, Work] = {
    OperationKind.REPLAY_DEAD_LETTERS: REPLAY,
    OperationKind.DISCARD_DEAD_LETTERS: DISCARD,
    OperationKind.RESTART_RUNS: runs.RESTART,
    OperationKind.CANCEL_RUNS: runs.CANCEL,
    OperationKind.TERMINATE_RUNS: runs.TERMINATE,
    OperationKind.PAUSE_SCHEDULES: schedules.PAUSE,
    OperationKind.RESUME_SCHEDULES: schedules.RESUME,
}
"""What the batches of an operation do."""


async def begin(
    context: Context,
    kind: str,
    fields: Mapping[str, Any],
    *,
    operation_id: UUID | None = None,
    canary: int = 0,
    canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
    rate_per_second: float | None = None,
) -> StoredOperation:
    """Starts an operation on what the fields select now; what comes later is left alone. With the
    id of an operation that was started, returns that."""
    if (fault := choice_error(kind, OperationKind)) is not None:
        raise InvalidInput([FieldError("kind", fault)])
    check_pace(
        canary=canary,
        canary_timeout_seconds=canary_timeout_seconds,
        rate_per_second=rate_per_second,
    )
    if operation_id is not None:
        try:
            return await get_operation(context, operation_id)
        except NotFound:
            pass  # It is new.
    work = WORK[kind]
    if canary and not work.has_canaries:
        fault = f"has no meaning for {kind}, after which nothing can fail; leave it out"
        raise InvalidInput([FieldError("canary", fault)])
    reader = Reader(msgspec.json.decode(ENCODER.encode(fields)), [], "selection.")
    reader.refuse_unknown(frozenset(work.fields))
    frozen = await work.freeze(context, reader)
    return await start(
        context,
        OperationKind(kind),
        frozen.selection,
        operation_id=operation_id,
        total=frozen.total,
        is_estimate=frozen.is_estimate,
        canary=canary,
        canary_timeout_seconds=float(canary_timeout_seconds),
        rate_per_second=None if rate_per_second is None else float(rate_per_second),
    )


async def start(
    context: Context,
    kind: OperationKind,
    selection: Struct,
    *,
    operation_id: UUID | None = None,
    total: int,
    is_estimate: bool = False,
    canary: int = 0,
    canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
    rate_per_second: float | None = None,
) -> StoredOperation:
    """Records an operation, which nodes carry on from then on."""
    now = await context.store.now()
    operation = StoredOperation(
        id=operation_id or new_id(),
        tenant=context.scope.tenant,
        kind=kind,
        selection=to_json(selection),
        started_by=ACTOR.get() or context.store.audit.actor,
        started_at=now,
        total=total,
        is_estimate=is_estimate,
        canary=canary,
        canary_timeout_seconds=canary_timeout_seconds,
        rate_per_second=rate_per_second,
        paced_until=now,
        due_at=now,
    )
    after = {"kind": kind, "selection": selection, "total": total}
    async with recorded(context, "operation.start", operation.id, after=after):
        return await context.store.operations.start(context.scope, operation)


async def list_operations(
    context: Context,
    *,
    limit: int = OPERATIONS_LISTED,
    before: UUID | None = None,
    is_open: bool = False,
) -> tuple[StoredOperation, ...]:
    """Operations, the newest first, before a given one; with `is_open` those not finished."""
    return await context.store.operations.list(context.scope, limit, before=before, is_open=is_open)


async def get_operation(context: Context, operation_id: UUID) -> StoredOperation:
    """One operation. Raises `NotFound`."""
    return await context.store.operations.get(context.scope, operation_id)


async def stop_operation(context: Context, operation_id: UUID) -> StoredOperation:
    """Stops an operation: after this nothing more is done. Raises `Conflict` if it is finished."""
    by = ACTOR.get() or context.store.audit.actor
    async with recorded(context, "operation.stop", operation_id):
        return await context.store.operations.stop(context.scope, operation_id, by)


async def go_on_with_operation(context: Context, operation_id: UUID) -> StoredOperation:
    """Goes on with an operation whose canaries somebody has looked at. Raises `Conflict` if it does
    not wait for that."""
    async with recorded(context, "operation.go_on", operation_id):
        return await context.store.operations.go_on(context.scope, operation_id)


async def carry_on(context: Context) -> float:
    """Does the batch of one operation that is due, of any tenant; returns the seconds until there
    may be another."""
    operations = context.store.operations
    seconds = await operations.next_due_seconds(SYSTEM)
    if seconds is None or seconds > 0:
        return POLL_SECONDS_MAX if seconds is None else min(seconds, POLL_SECONDS_MAX)
    operation = await operations.claim(SYSTEM)
    if operation is not None:
        token = ACTOR.set(operation.started_by)
        try:
            await _step(context.within(Scope(operation.tenant)), operation, BATCH_SECONDS)
        except OperationTaken:
            pass
        finally:
            ACTOR.reset(token)
    return 0.0


async def finish(
    context: Context,
    operation: StoredOperation,
    *,
    on_progress: Progress = lambda _: None,
    sleep: Sleep = asyncio.sleep,
) -> StoredOperation:
    """Carries on an operation until it is finished or waits for somebody. Nodes may do some of its
    batches; if the caller dies, they do the rest. What has a rate gets its times at once."""
    operations = context.store.operations
    while not operation.is_finished and operation.state != OperationState.WAITING:
        claimed = await operations.claim(context.scope, operation.id)
        try:
            if claimed is not None:
                known = await _step(context, claimed, None)
            else:
                await sleep(CANARY_POLL_SECONDS)
                known = await operations.get(context.scope, operation.id)
        except OperationTaken:
            known = await operations.get(context.scope, operation.id)
        if known.handled > operation.handled:
            on_progress(known)
        operation = known
    return operation


async def _step(
    context: Context, operation: StoredOperation, ahead_seconds: float | None
) -> StoredOperation:
    work = WORK[operation.kind]
    try:
        if operation.state == OperationState.CANARY:
            return await work.look_at_canaries(context, operation)
        return await work.do_batch(context, operation, ahead_seconds)
    except StoreError:
        raise  # The lease ends, and then it is tried again.
    except TickworkError as error:
        failed = finished(
            operation, OperationState.FAILED, await context.store.now(), error=str(error)
        )
        return await context.store.operations.save(context.scope, failed)
