"""Operations: long work on many rows, which nodes carry on in batches.

```
  running ──canaries are out──▶ canary ──all handled──▶ running ──none left──▶ done
     │                            └─── one died, or too late ──▶ stopped
     ├──canaries are out, and nobody can check them──▶ waiting ──go on──▶ running
     ├──stop──▶ stopped
     └──it cannot go on──▶ failed
```

What it acts on is frozen at its start: a filter with an upper bound, or ids. A batch and the
progress it makes are written in one transaction, which is fenced by the version of the operation:
whoever has read an older version writes nothing. So nothing is done twice or forgotten, wherever a
node dies and however many nodes carry it on.

`due_at` is when the next batch is due. A node that begins a batch moves it by `LEASE_SECONDS`, so
that others leave the operation alone; if the node dies, they go on then.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.message.dead_letter import DEAD_LETTERS_AT_ONCE_MAX, Selection
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.errors import FieldError, InvalidInput

LEASE_SECONDS = 30.0
"""Seconds that a node has for a batch before another one may begin it again."""

BATCH_SECONDS = 1.0
"""Seconds that a batch covers of an operation with a rate: it stops within them."""

RETRY_SECONDS = 1.0
"""Seconds until a batch is tried again whose rows are locked by others."""

ITEMS_AT_ONCE_MAX = 100
"""Maximum number of things in a batch that are changed one by one."""

CANARIES_MAX = 100
"""Maximum number of canaries of one operation."""

CANARY_TIMEOUT_SECONDS = 300.0
"""Seconds to wait for the canaries, unless the caller gives a timeout."""

CANARY_TIMEOUT_SECONDS_MAX = 86_400.0

CANARY_POLL_SECONDS = 0.5
"""Seconds between two checks whether the canaries were handled."""

LEAD_SECONDS = 0.2
"""Seconds before its time that a batch of an operation with a rate is begun."""

POLL_SECONDS_MAX = 1.0
"""Maximum seconds between two looks for operations that are due."""

OPERATION_RETENTION_SECONDS = 30 * 86_400
"""Seconds that a finished operation is kept."""


class OperationTaken(Exception):
    """Somebody stopped the operation, or carries it on; nothing was written."""


class OperationKind(StrEnum):
    """What an operation does."""

    REPLAY_DEAD_LETTERS = "dead_letters.replay"
    DISCARD_DEAD_LETTERS = "dead_letters.discard"
    RESTART_RUNS = "runs.restart"
    CANCEL_RUNS = "runs.cancel"
    TERMINATE_RUNS = "runs.terminate"
    PAUSE_SCHEDULES = "schedules.pause"
    RESUME_SCHEDULES = "schedules.resume"


class OperationState(StrEnum):
    """The state of an operation."""

    RUNNING = "running"
    CANARY = "canary"
    """The canaries are out and not all handled."""
    WAITING = "waiting"
    """The canaries are done; somebody has to look at them and say to go on."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


FINISHED = frozenset({OperationState.DONE, OperationState.STOPPED, OperationState.FAILED})


class OperationReason(StrEnum):
    """Why an operation was stopped before it was done."""

    STOPPED = "stopped"
    """Somebody stopped it."""
    CANARY_DIED = "canary_died"
    CANARY_TIMEOUT = "canary_timeout"
    BACKLOG_FULL = "backlog_full"


class DeadLetterSelection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The dead letters of a queue that an operation acts on. `failed_before` is its upper bound."""

    queue: str
    ids: tuple[UUID, ...] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: bool = False
    failed_before: datetime | None = None

    @classmethod
    def of(cls, queue: str, which: Selection) -> DeadLetterSelection:
        """The frozen form of a selection."""
        names = (name for name in which.__struct_fields__ if name != "limit")
        return cls(queue=queue, **{name: getattr(which, name) for name in names})

    def up_to(self, limit: int) -> Selection:
        """The first of the dead letters that are still open."""
        names = (name for name in self.__struct_fields__ if name != "queue")
        return Selection(limit=limit, **{name: getattr(self, name) for name in names})


class Frozen(NamedTuple):
    """What an operation acts on, as it was when it was asked for, and how many things that are."""

    selection: Struct
    total: int
    is_estimate: bool = False


class Canaries(Struct, frozen=True):
    """Messages that must be handled before the rest is sent, and until when."""

    messages: tuple[UUID, ...]
    until: datetime


class StoredOperation(Struct, frozen=True, kw_only=True):
    """An operation as it is stored. `selection`, `position` and `canaries` are JSON."""

    id: UUID
    tenant: str | None
    kind: str
    selection: str
    started_by: str | None
    started_at: datetime
    state: str = OperationState.RUNNING
    total: int
    is_estimate: bool = False
    canary: int = 0
    canary_timeout_seconds: float
    rate_per_second: float | None = None
    done: int = 0
    failed: int = 0
    skipped: int = 0
    position: str | None = None
    canaries: str | None = None
    paced_until: datetime
    due_at: datetime
    version: int = 0
    reason: str | None = None
    error: str | None = None
    stopped_by: str | None = None
    finished_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        """Whether nothing follows."""
        return self.state in FINISHED

    @property
    def handled(self) -> int:
        """Number of things it is done with."""
        return self.done + self.failed + self.skipped

    @property
    def left(self) -> int:
        """Number of things left, of those it counted at its start."""
        return max(0, self.total - self.handled)

    @property
    def has_canaries_left(self) -> bool:
        """Whether its canaries are not all out."""
        return self.handled < min(self.canary, self.total)


def check_pace(
    *, canary: int, canary_timeout_seconds: float, rate_per_second: float | None
) -> None:
    """Raises `InvalidInput` unless an operation can be carried on like this."""
    faults: list[FieldError] = []
    if not 0 <= canary <= CANARIES_MAX:
        faults.append(
            FieldError("canary", f"must be a whole number from 0 to {CANARIES_MAX}, not {canary}")
        )
    if rate_per_second is not None and not RATE_MIN <= rate_per_second <= RATE_MAX:
        fault = f"must be from {RATE_MIN:g} to {RATE_MAX:g}, not {rate_per_second:g}"
        faults.append(FieldError("rate_per_second", fault))
    if not 0 < canary_timeout_seconds <= CANARY_TIMEOUT_SECONDS_MAX:
        fault = f"must be above 0 and at most {CANARY_TIMEOUT_SECONDS_MAX:g}"
        faults.append(FieldError("canary_timeout_seconds", fault))
    if faults:
        raise InvalidInput(faults)


def to_json(value: Struct) -> str:
    """A selection, or canaries, as an operation stores them."""
    return msgspec.json.encode(value).decode()


class Turn(NamedTuple):
    """The time of a batch: it begins now. If the operation has a rate, it covers the next
    `ahead_seconds`; None is all of them."""

    now: datetime
    ahead_seconds: float | None


_LEAD = timedelta(seconds=LEAD_SECONDS)


def batch_size(operation: StoredOperation, ahead_seconds: float | None) -> int:
    """Number of things in the next batch."""
    size = min(operation.left, DEAD_LETTERS_AT_ONCE_MAX)
    if operation.has_canaries_left:
        size = min(size, operation.canary - operation.handled)
    if operation.rate_per_second is not None and ahead_seconds is not None:
        size = min(size, max(1, int(operation.rate_per_second * ahead_seconds)))
    return size


def batch_start(operation: StoredOperation, now: datetime) -> datetime:
    """When the first of the next batch is due. Lost time is not made up by a burst."""
    return max(operation.paced_until, now)


def spacing_seconds(operation: StoredOperation) -> float:
    """Seconds between two things of an operation with a rate."""
    return 0.0 if operation.rate_per_second is None else 1.0 / operation.rate_per_second


def after_batch(
    operation: StoredOperation, turn: Turn, *, done: int, failed: int = 0, skipped: int = 0
) -> StoredOperation:
    """The operation after a batch that was done with some things."""
    now = turn.now
    items = done + failed + skipped
    until = batch_start(operation, now) + timedelta(seconds=items * spacing_seconds(operation))
    known = structs.replace(
        operation,
        done=operation.done + done,
        failed=operation.failed + failed,
        skipped=operation.skipped + skipped,
        paced_until=until,
        due_at=now if turn.ahead_seconds is None else max(now, until - _LEAD),
    )
    if known.left or operation.has_canaries_left or known.is_estimate:
        return known
    return finished(known, OperationState.DONE, now)


def item_batch_size(
    operation: StoredOperation, ahead_seconds: float | None, limit: int | None
) -> int:
    """As `batch_size`, of things that are changed one by one. Their number may be an estimate."""
    size = ITEMS_AT_ONCE_MAX if operation.is_estimate else min(operation.left, ITEMS_AT_ONCE_MAX)
    if limit is not None:
        size = min(size, max(0, limit - operation.handled))
    if operation.has_canaries_left:
        size = min(size, operation.canary - operation.handled)
    if operation.rate_per_second is not None and ahead_seconds is not None:
        size = min(size, max(1, int(operation.rate_per_second * ahead_seconds)))
    return size


def after_item(
    operation: StoredOperation,
    turn: Turn,
    *,
    position: str,
    done: int = 0,
    failed: int = 0,
    skipped: int = 0,
    error: str | None = None,
    canary: UUID | None = None,
) -> StoredOperation:
    """The operation after one thing, behind which it goes on. Keeps the first error as an example.
    The last canary makes it wait for all of them."""
    before = structs.replace(operation, position=position, error=operation.error or error)
    next_ = after_batch(before, turn, done=done, failed=failed, skipped=skipped)
    if not operation.has_canaries_left:
        return next_
    return after_canaries_sent(next_, () if canary is None else (canary,), turn.now)


def retried(operation: StoredOperation, now: datetime) -> StoredOperation:
    """The operation after a batch that found nothing, because others have locked it."""
    return structs.replace(operation, due_at=now + timedelta(seconds=RETRY_SECONDS))


def after_canaries_sent(
    operation: StoredOperation, messages: tuple[UUID, ...], now: datetime
) -> StoredOperation:
    """The operation after a batch of canaries: with the last of them it waits for all. The time
    they have counts from when the last one becomes visible."""
    sent = messages
    if operation.canaries is not None:
        sent = canaries_of(operation).messages + messages
    until = max(operation.paced_until, now)
    until += timedelta(seconds=operation.canary_timeout_seconds)
    known = structs.replace(operation, canaries=to_json(Canaries(sent, until)))
    if operation.has_canaries_left:
        return known
    return structs.replace(known, state=OperationState.CANARY, due_at=now)


def canaries_of(operation: StoredOperation) -> Canaries:
    """Its canaries that are out."""
    assert operation.canaries is not None
    return msgspec.json.decode(operation.canaries, type=Canaries)


def after_canaries(
    operation: StoredOperation,
    now: datetime,
    *,
    is_handled: bool,
    dead: int,
    example: str | None = None,
) -> StoredOperation:
    """The operation after its canaries were looked at. `example` is the error of a dead one."""
    if dead:
        known = structs.replace(operation, done=operation.done - dead, failed=dead)
        reason = OperationReason.CANARY_DIED
        return finished(known, OperationState.STOPPED, now, reason=reason, error=example)
    if is_handled:
        return structs.replace(operation, state=OperationState.RUNNING, due_at=now)
    if now >= canaries_of(operation).until:
        reason = OperationReason.CANARY_TIMEOUT
        return finished(operation, OperationState.STOPPED, now, reason=reason)
    return structs.replace(operation, due_at=now + timedelta(seconds=CANARY_POLL_SECONDS))


def finished(
    operation: StoredOperation,
    state: OperationState,
    now: datetime,
    *,
    reason: OperationReason | None = None,
    error: str | None = None,
) -> StoredOperation:
    """The operation at its end. What is left of its number was no longer there."""
    skipped = operation.skipped
    if state is OperationState.DONE and not operation.is_estimate:
        skipped += operation.left
    return structs.replace(
        operation,
        state=state,
        reason=reason,
        error=error or operation.error,
        skipped=skipped,
        finished_at=now,
    )
