"""The values of workflows: a run, the record of its steps, and its events.

```
  diverged: running, and waits for code that agrees with its record
     ▲
     ▼       checkpoint                                  the body returned
  running ◀─────────────▶ running, its message waits ─────────────────────▶ completed
     │                                                    it raised
     ├────────────────────────────────────────────────────────────────────▶ failed
     ├── cancel, at the next checkpoint ──────────────────────────────────▶ cancelled
     └── terminate, at once ──────────────────────────────────────────────▶ terminated
```

A run that has ended can be restarted. A run is one message of the hidden queue of its workflow. The
claim of that message fences every record, so a worker that has lost it changes nothing.

`signals` counts what happened to a run from outside: events, and verbs such as `pause`. A worker
that lets a run wait says which number it has seen. If there are more, the run is claimed again at
once, so no event is missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from tickwork.core.effects import Effect, LockRank

WORKFLOW_NAME_LENGTH_MAX = 80
STEP_NAME_LENGTH_MAX = 120
RUN_ID_LENGTH_MAX = 120

OUTPUT_BYTES_MAX = 1_048_576
"""Maximum bytes of the result of a step or run, of its params, and of an event's data."""

STEPS_MAX = 10_000
"""Maximum number of steps of a run."""

RUN_BYTES_MAX = 100 * 1_048_576
"""Maximum bytes of all results of a run."""

EVENTS_MAX = 10_000
"""Maximum number of events that wait for one run."""

EVENT_RETENTION_SECONDS = 86_400
"""Seconds for which a run that continues with new params remembers the ids of events that it has
received."""

ITEM_BYTES_MAX = 120_000
"""Maximum bytes of an item of a map, as JSON. It travels in a message."""

MAP_ITEMS_MAX = 10_000
"""Maximum number of items of one `step.map`."""

STARTS_MAX = 1_000
"""Maximum number of runs that one call starts."""

FAILED_STEPS_MAX = 1_000
"""Maximum number of steps that a run remembers as those that failed it."""

RUN_RETENTION_SECONDS = 30 * 86_400
"""Seconds that a run is kept after it has ended."""


class RunStatus(StrEnum):
    """What became of a run. A run that waits is running, too."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"

    @property
    def is_final(self) -> bool:
        return self is not RunStatus.RUNNING


class Control(StrEnum):
    """What a run does at its next checkpoint: it was cancelled, without or with its compensations,
    or it fails with the error that it has."""

    CANCEL = "cancel"
    COMPENSATE = "compensate"
    FAIL = "fail"


class ConflictPolicy(StrEnum):
    """What `start` does if there is a run with the id."""

    ERROR = "error"
    USE_EXISTING = "use_existing"
    RESTART_IF_FINISHED = "restart_if_finished"


class StepKind(StrEnum):
    """What a step of a run is."""

    DO = "do"
    SLEEP = "sleep"
    EVENT = "event"
    PATCH = "patch"
    MAP = "map"


class StepState(StrEnum):
    """How far a step is. A step that `started` has a compensation and no result yet."""

    STARTED = "started"
    RETRYING = "retrying"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (StepState.DONE, StepState.FAILED)


class NewRun(Struct, frozen=True, kw_only=True):
    """A run to start. `params` are JSON. A child has a `parent_id`, the run whose `step.map` makes
    it, and a `parent_step`, its name there."""

    id: str
    uid: UUID
    message_id: UUID
    workflow: str
    version: str | None = None
    params: bytes = b"null"
    deadline_seconds: float | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    event: NewEvent | None = None
    parent_id: str | None = None
    parent_step: str | None = None


class NewEvent(Struct, frozen=True, kw_only=True):
    """An event for a run. `data` is JSON. A run takes an event with an `id` once."""

    type: str
    data: bytes = b"null"
    id: str | None = None


class Run(Struct, frozen=True, kw_only=True, gc=False):
    """A stored run. `uid` names its steps and events, `message_id` the message that stands for it.
    `generation` counts how often it started again: with new params, or by a restart. A child has
    `parent_id` and `parent_step`.

    A run has diverged since `diverged_at`: its code does not ask for what `divergence` names. Steps
    up to the position `accepted` need not be asked for. `failed_step` has the keys of the steps
    with whose errors the run failed; read `failed_steps`."""

    tenant: str
    id: str
    uid: UUID
    message_id: UUID
    workflow: str
    version: str | None
    status: RunStatus
    paused: bool
    control: Control | None
    signals: int
    generation: int
    correlation_id: str | None
    deadline_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    divergence: str | None
    error: str | None
    params: bytes
    result: bytes | None
    parent_id: str | None = None
    parent_step: str | None = None
    diverged_at: datetime | None = None
    accepted: int = 0
    failed_step: str | None = None

    @property
    def is_diverged(self) -> bool:
        """Whether the run waits for code that agrees with its record."""
        return self.diverged_at is not None and not self.status.is_final

    @property
    def is_accepted(self) -> bool:
        """Whether somebody lets the run go on although its code did not agree with its record."""
        return self.divergence is not None and self.diverged_at is None

    @property
    def failed_steps(self) -> tuple[str, ...]:
        """The keys of the steps with whose errors the run failed."""
        return () if self.failed_step is None else tuple(self.failed_step.split(_BETWEEN_KEYS))


_BETWEEN_KEYS = "\x1f"
"""Separates the keys of steps: the unit separator of ASCII."""


def join_keys(keys: Iterable[str]) -> str | None:
    """Keys of steps as one text, `FAILED_STEPS_MAX` at most; None if there are none."""
    return _BETWEEN_KEYS.join([*keys][:FAILED_STEPS_MAX]) or None


class RunStep(Struct, frozen=True, kw_only=True, gc=False):
    """The record of a step. `output` is JSON, `error` is that of the last attempt, also JSON.

    `position` is the order in which steps were started, `ended` the order in which the body got
    their results. `called` names what was called: the function with a digest of its arguments, or
    the type of an event. `args` are the arguments as JSON, if the step has a compensation. An
    `optional` step followed the failure of one that is tried again: if that succeeds now, the body
    does not ask for it."""

    key: str
    position: int
    kind: StepKind
    state: StepState
    attempts: int = 0
    output: bytes | None = None
    error: bytes | None = None
    wake_at: datetime | None = None
    started_at: datetime
    finished_at: datetime | None = None
    ended: int | None = None
    called: str | None = None
    args: bytes | None = None
    optional: bool = False

    def is_open(self, now: datetime) -> bool:
        """Whether the run may wait for it. A sleep whose time has come is over; nothing is recorded
        for that."""
        is_over = self.kind is StepKind.SLEEP and self.wake_at is not None and self.wake_at <= now
        return not (self.state.is_final or is_over)


class RunEvent(Struct, frozen=True, kw_only=True, gc=False):
    """An event of a run. `consumed_by` is the key of the step that received it."""

    number: int
    type: str
    id: str | None
    data: bytes
    sent_at: datetime
    consumed_by: str | None


class Checkpoint(Effect, frozen=True, gc=False):
    """A step to record for the run with this uid, which keeps the claim; `event` is the number of
    the event that it consumes. It is a duplicate if the step is done already: the answer to the
    first one was lost."""

    RANK = LockRank.MESSAGE

    uid: UUID
    step: RunStep
    event: int | None = None

    @property
    def part(self) -> str:
        return self.step.key


class SignalWait(Effect, frozen=True, gc=False):
    """A run that was released waits for signals. If it has others than these `seen` by now, it is
    claimed again at once."""

    RANK = LockRank.MESSAGE

    seen: int


class RunEnd(Effect, frozen=True, kw_only=True, gc=False):
    """How a run ends, with the ack or the dead letter of its message; or that it starts again with
    new `params`."""

    RANK = LockRank.RUN

    uid: UUID
    status: RunStatus = RunStatus.RUNNING
    result: bytes | None = None
    error: str | None = None
    params: bytes | None = None
    failed_step: str | None = None


class RunHistory(Struct, frozen=True, gc=False):
    """A run with its steps in the order in which they started, its events in order, and the time
    at which all of it was read. `steps` is empty if they were not asked for."""

    run: Run
    steps: tuple[RunStep, ...]
    events: tuple[RunEvent, ...]
    now: datetime


class RunPage(Struct, frozen=True, gc=False):
    """A run with some of its steps and events, as people look at it. `steps` and `events` are those
    of a window, and `open_steps` all that are open; steps are in the order in which they
    started."""

    run: Run
    steps: tuple[RunStep, ...]
    steps_total: int
    open_steps: tuple[RunStep, ...]
    events: tuple[RunEvent, ...]
    now: datetime
    events_total: int = 0


STEP_BYTES = 250
"""Bytes of a step in an answer, besides its key, its result and its error."""

EVENT_BYTES = 150
"""Bytes of an event in an answer, besides its names and its data."""


class RunWindow(Struct, frozen=True):
    """Which steps and events of a run to read: at most `limit` steps after the first `offset`, and
    the events after the first `events_offset`. With `bytes_max`, steps and then events end where
    they would have more bytes; the very first one always fits."""

    offset: int = 0
    limit: int = STEPS_MAX
    events_offset: int = 0
    bytes_max: int | None = None

    def bytes_left(self, steps: Iterable[RunStep]) -> int | None:
        """How many bytes the events may have after these steps; None without a maximum."""
        if self.bytes_max is None:
            return None
        return max(self.bytes_max - sum(map(_step_bytes, steps)), 0)


def _step_bytes(step: RunStep) -> int:
    shown = (step.key.encode(), step.output, step.error)
    return STEP_BYTES + sum(len(text) for text in shown if text is not None)


NO_STEPS = RunWindow(0, 0)


class Doing(StrEnum):
    """What a running run does that no worker executes: it is paused, or it waits. One that sleeps
    waits for nothing but the end of its sleeps."""

    PAUSED = "paused"
    SLEEPING = "sleeping"
    WAITING = "waiting"


class RunActivity(Struct, frozen=True, gc=False):
    """The node that executes a run now, and what the run waits for if none does."""

    holder: UUID | None = None
    wait: Doing | None = None


class RunSelection(Struct, frozen=True, kw_only=True):
    """Which runs to list: those that were started, or the children of one run."""

    workflow: str | None = None
    status: RunStatus | None = None
    parent_id: str | None = None
    is_diverged: bool = False
    doing: Doing | None = None


class RunResult(Struct, frozen=True, gc=False):
    """What a parent reads of a child."""

    uid: UUID
    id: str
    status: RunStatus
    parent_step: str | None
    error: str | None
    result: bytes | None


class StepError(Struct, frozen=True):
    """An error of a step, as data. `step` is the item of a map that failed."""

    type: str
    message: str
    detail: str = ""
    step: str = ""
