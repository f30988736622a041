"""What verbs do to a run: pure decisions, which a store carries out in one transaction.

A decision gets the run under lock, and whether its message is still stored. It returns the run as
it shall be, and what happens to its message, steps and events. It raises `Conflict` if the run
cannot do it now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.message.outcome import Snoozed
from tickwork.core.model import LOST_CLAIMS_MAX, REASON_WORKER_LOST
from tickwork.core.workflow.model import (
    ConflictPolicy,
    Control,
    NewEvent,
    NewRun,
    Run,
    RunStatus,
    RunStep,
    SignalWait,
    StepKind,
    StepState,
)
from tickwork.core.workflow.step_key import compensation_name, is_compensation
from tickwork.errors import Conflict, FieldError, InvalidInput

RUN_LOST = f"{REASON_WORKER_LOST}: its workers died {LOST_CLAIMS_MAX} times in a row"
"""The error of a run that fails because of that."""


def suspended(run: Run, seconds: float = 0.0, until: datetime | None = None) -> Snoozed:
    """The run waits for some seconds, or until that time, or until it has other signals."""
    return Snoozed(seconds, effects=(SignalWait(run.signals),), until=until)


class Undone(NamedTuple):
    """How many compensations of a run have begun, and how many of them are done."""

    begun: int
    done: int


class RecordMoved(Exception):
    """A run has gone on since a restart of it was planned. Another plan is needed."""


class RunChange(Struct, frozen=True, kw_only=True):
    """A decision. The store also counts a signal.

    `wakes` makes its message visible now. `takes` also ends the claim of a worker, whose records
    are refused from then on. With `sends` it gets a new message. `steps_from` is the position of
    the first step to forget, `forgotten` are the keys of others, `retried` those of failed steps to
    try again, `freed` those that become optional, `drops_events` forgets the events, and `event`
    adds one. With `accepts` the steps that are left need not be asked for. With `undone` the store
    raises `RecordMoved` unless the run has just these compensations.
    """

    run: Run
    wakes: bool = False
    takes: bool = False
    sends: bool = False
    steps_from: int | None = None
    forgotten: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    freed: tuple[str, ...] = ()
    accepts: bool = False
    undone: Undone | None = None
    drops_events: bool = False
    event: NewEvent | None = None


Decision: TypeAlias = Callable[[Run, bool, datetime], RunChange]
"""Decides about a run, given whether its message is stored, and the time."""


def pause(run: Run, _has_message: bool, _now: datetime) -> RunChange:
    """The run does nothing until it is resumed. A step that is running is still recorded."""
    _check_running(run, "paused")
    return RunChange(run=structs.replace(run, paused=True), wakes=True)


def resume(run: Run, _has_message: bool, _now: datetime) -> RunChange:
    """The run goes on. Times that have passed meanwhile are over."""
    _check_running(run, "resumed")
    return RunChange(run=structs.replace(run, paused=False), wakes=True)


def cancel(*, compensates: bool) -> Decision:
    """The run ends at its next checkpoint, after its compensations if they are asked for."""
    control = Control.COMPENSATE if compensates else Control.CANCEL

    def decide(run: Run, _has_message: bool, _now: datetime) -> RunChange:
        _check_running(run, "cancelled")
        # Whoever cancels a diverged run with its compensations wants what this code can undo.
        is_accepted = compensates and run.is_diverged
        changed = structs.replace(
            run,
            control=control,
            paused=False,
            diverged_at=None if is_accepted else run.diverged_at,
        )
        return RunChange(run=changed, wakes=True, accepts=is_accepted)

    return decide


def terminate(run: Run, _has_message: bool, now: datetime) -> RunChange:
    """The run ends at once; nothing is compensated."""
    if run.status is RunStatus.TERMINATED:
        return RunChange(run=run)
    _check_running(run, "terminated")
    ended = structs.replace(run, status=RunStatus.TERMINATED, finished_at=now, paused=False)
    return RunChange(run=ended, takes=True)


def send_event(event: NewEvent) -> Decision:
    """The run gets an event, for a wait that exists or will."""

    def decide(run: Run, _has_message: bool, _now: datetime) -> RunChange:
        if run.status.is_final:
            raise Conflict(f"run {run.id} has {_ended(run)}, and takes no more events")
        return RunChange(run=run, wakes=True, event=event)

    return decide


def children_ended(run: Run, _has_message: bool, _now: datetime) -> RunChange:
    """The run goes on, because all items of one of its maps have ended."""
    return RunChange(run=run, wakes=not run.status.is_final)


def accept(run: Run, _has_message: bool, _now: datetime) -> RunChange:
    """The run goes on with today's code from here, whatever it has recorded."""
    _check_running(run, "accepted")
    if not run.is_diverged:
        raise Conflict(f"run {run.id} has not diverged; there is nothing to accept")
    return accept_divergence(str(run.divergence))(run, _has_message, _now)


def accept_divergence(divergence: str) -> Decision:
    """The run goes on although its code does not agree with its record."""

    def decide(run: Run, _has_message: bool, _now: datetime) -> RunChange:
        changed = structs.replace(run, diverged_at=None, divergence=divergence)
        return RunChange(run=changed, wakes=True, accepts=True)

    return decide


class Restart(Struct, frozen=True):
    """What a restart does: the steps that run again, in order, and those of them whose effects
    happen again, because they were done and not undone. The results of `keeps` are kept."""

    runs: tuple[str, ...]
    repeats: tuple[str, ...]
    keeps: tuple[str, ...]
    steps_from: int | None = None
    forgotten: tuple[str, ...] = ()
    undone: Undone = Undone(0, 0)


def plan_restart(steps: Sequence[RunStep], from_step: str | None) -> Restart:
    """What a restart from a step, or from the beginning, does. What was undone counts as not done.
    Raises `InvalidInput`."""
    positions = {step.key: step.position for step in steps}
    steps_from = 0
    if from_step is not None:
        steps_from = _restart_position(positions, from_step)
    undone = _compensated(positions)
    undoing = [step for step in steps if step.key in undone]
    forgotten = {step.key for step in undoing}
    forgotten |= {undone[step.key] for step in undoing if step.state is StepState.DONE}
    own = [step for step in steps if step.key not in undone]
    again = [step for step in own if step.position >= steps_from or step.key in forgotten]
    return Restart(
        runs=tuple(step.key for step in again),
        repeats=tuple(
            step.key for step in again if step.key not in forgotten and _has_effects(step)
        ),
        keeps=tuple(step.key for step in own if step not in again),
        steps_from=None if from_step is None else steps_from,
        forgotten=tuple(sorted(forgotten)),
        undone=_count_undone(steps),
    )


def _compensated(keys: Collection[str]) -> dict[str, str]:
    """The keys of the compensations among these, and of the steps that they undo."""
    names = {compensation_name(key): key for key in keys}
    return {name: key for name, key in names.items() if name in keys}


def _has_effects(step: RunStep) -> bool:
    """Whether a step has done something outside its run."""
    return step.kind in (StepKind.DO, StepKind.MAP) and step.state is StepState.DONE


def _count_undone(steps: Sequence[RunStep]) -> Undone:
    states = [step.state for step in steps if is_compensation(step.key)]
    return Undone(len(states), states.count(StepState.DONE))


def check_undone(change: RunChange, found: Sequence[int]) -> None:
    """Raises `RecordMoved` if a run has other compensations than were planned with."""
    if change.undone != Undone(*found):
        text = f"run {change.run.id} is being undone; wait until it has ended, or pause it"
        raise RecordMoved(text)


def _restart_position(positions: Mapping[str, int], from_step: str) -> int:
    if from_step not in positions:
        known = ", ".join(key for key in positions if not is_compensation(key)) or "none"
        fault = f"the run has no step {from_step!r}; it has recorded: {known[:500]}"
        raise InvalidInput([FieldError("from_step", fault)])
    if is_compensation(from_step):
        fault = f"{from_step!r} undoes a step; name the step from which the run shall go on"
        raise InvalidInput([FieldError("from_step", fault)])
    return positions[from_step]


def restart(
    message_id: UUID, *, plan: Restart | None = None, new: NewRun | None = None
) -> Decision:
    """The run starts again: from its beginning, or as planned from a step. A running one gives up
    what it is doing. `new` has the params of the next start."""
    steps_from = None if plan is None else plan.steps_from

    def decide(run: Run, has_message: bool, now: datetime) -> RunChange:
        again = structs.replace(
            run,
            status=RunStatus.RUNNING,
            paused=False,
            control=None,
            finished_at=None,
            divergence=None,
            diverged_at=None,
            accepted=0 if steps_from is None else min(run.accepted, steps_from - 1),
            failed_step=None,
            error=None,
            result=None,
            deadline_at=None,
            generation=run.generation + 1,
            message_id=run.message_id if has_message else message_id,
        )
        if new is not None:
            again = structs.replace(
                again,
                params=new.params,
                version=new.version,
                workflow=new.workflow,
                deadline_at=deadline_of(new, now),
                created_at=now,
                correlation_id=new.correlation_id,
            )
        return RunChange(
            run=again,
            takes=has_message,
            sends=not has_message,
            steps_from=steps_from or 0,
            forgotten=() if plan is None or steps_from is None else plan.forgotten,
            # Steps that were undone run again before those that are kept.
            accepts=plan is not None and steps_from is not None and bool(plan.forgotten),
            undone=None if plan is None or steps_from is None else plan.undone,
            drops_events=steps_from is None,
        )

    return decide


def revive(message_id: UUID, steps: Sequence[RunStep] = ()) -> Decision:
    """The run goes on with a message that replaces its dead one, and tries failed steps again. What
    its body did because they had failed becomes optional."""

    def decide(run: Run, has_message: bool, _now: datetime) -> RunChange:
        if has_message or not can_revive(run):
            raise Conflict(f"run {run.id} does not wait for a replay")
        again = structs.replace(
            run,
            status=RunStatus.RUNNING,
            finished_at=None,
            error=None,
            failed_step=None,
            control=None if run.control is Control.FAIL else run.control,
            message_id=message_id,
        )
        retried = _steps_to_retry(run, steps)
        return RunChange(
            run=again,
            retried=tuple(step.key for step in retried),
            freed=tuple(step.key for step in steps if _may_follow(step, retried)),
        )

    return decide


def can_revive(run: Run) -> bool:
    """Whether a run may have a dead letter that can be replayed: it failed, or a compensation did
    after it was cancelled."""
    is_undone = run.status is RunStatus.CANCELLED and run.control is Control.COMPENSATE
    return is_undone or run.status is RunStatus.FAILED


def _steps_to_retry(run: Run, steps: Sequence[RunStep]) -> list[RunStep]:
    """The failed steps that a replay tries again: the compensations, or before any the steps with
    whose errors the run failed. A failure that the body has caught stays as it is."""
    wanted = {step.key for step in steps if is_compensation(step.key)} or {*run.failed_steps}
    return [step for step in steps if step.key in wanted and step.state is StepState.FAILED]


def _may_follow(step: RunStep, failed: Sequence[RunStep]) -> bool:
    """Whether the body may have called a step because one of these had failed."""
    return not is_compensation(step.key) and any(
        step.position > other.position
        and step.started_at >= (other.finished_at or other.started_at)
        for other in failed
    )


def is_repeat(existing: Run, new: NewRun) -> bool:
    """Whether this very start has made the run, or restarted it, and its answer was lost."""
    return existing.uid == new.uid or existing.message_id == new.message_id


def check_conflict(existing: Run, new: NewRun, on_conflict: ConflictPolicy) -> None:
    """Raises `Conflict` unless the policy lets a start use or restart the run that has its id."""
    if existing.workflow != new.workflow:
        raise Conflict(f"run {new.id} belongs to the workflow {existing.workflow}; use another id")
    if on_conflict is ConflictPolicy.USE_EXISTING:
        return
    if on_conflict is ConflictPolicy.ERROR:
        advice = "use another id, or on_conflict='use_existing' or 'restart_if_finished'"
        raise Conflict(f"there is a run {new.id}; {advice}")
    if not existing.status.is_final:
        raise Conflict(f"run {new.id} has not ended yet; cancel or terminate it first")


def deadline_of(new: NewRun, now: datetime) -> datetime | None:
    """When a run that starts now must have ended."""
    if new.deadline_seconds is None:
        return None
    return now + timedelta(seconds=new.deadline_seconds)


def _check_running(run: Run, verb: str) -> None:
    if run.status.is_final:
        raise Conflict(f"run {run.id} has {_ended(run)}, and cannot be {verb}")


def _ended(run: Run) -> str:
    return {
        RunStatus.COMPLETED: "completed",
        RunStatus.FAILED: "failed",
        RunStatus.CANCELLED: "been cancelled",
        RunStatus.TERMINATED: "been terminated",
        RunStatus.RUNNING: "not ended",
    }[run.status]
