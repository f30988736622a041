"""What verbs do to a run: pure decisions, which a store carries out in one transaction.

A decision gets the run under lock, and whether its message is still stored. It returns the run as
it shall be, and what happens to its message, steps and events. It raises `Conflict` if the run
cannot do it now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.workflow.model import (
    ConflictPolicy,
    Control,
    NewEvent,
    NewRun,
    Run,
    RunStatus,
    RunStep,
    StepKind,
    StepState,
)
from tickwork.core.workflow.step_key import compensation_name
from tickwork.errors import Conflict, step_failure


class RunChange(Struct, frozen=True, kw_only=True):
    """A decision. The store also counts a signal.

    `wakes` makes its message visible now. `takes` also ends the claim of a worker, whose records
    are refused from then on. With `sends` it gets a new message. `steps_from` is the position of
    the first step to forget, `retried` are the keys of failed steps to try again, `drops_events`
    forgets the events, and `event` adds one.
    """

    run: Run
    wakes: bool = False
    takes: bool = False
    sends: bool = False
    steps_from: int | None = None
    retried: tuple[str, ...] = ()
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
        return RunChange(run=structs.replace(run, control=control, paused=False), wakes=True)

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


def restart(
    message_id: UUID, *, steps_from: int | None = None, new: NewRun | None = None
) -> Decision:
    """The run starts again: from its beginning, or from a step, with the results before it. A
    running one gives up what it is doing. `new` has the params of the next start."""

    def decide(run: Run, has_message: bool, now: datetime) -> RunChange:
        again = structs.replace(
            run,
            status=RunStatus.RUNNING,
            paused=False,
            control=None,
            finished_at=None,
            divergence=None,
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
            drops_events=steps_from is None,
        )

    return decide


def revive(message_id: UUID, retried: tuple[str, ...] = ()) -> Decision:
    """The run goes on with a message that replaces its dead one, and tries failed steps again."""

    def decide(run: Run, has_message: bool, _now: datetime) -> RunChange:
        if has_message or not can_revive(run):
            raise Conflict(f"run {run.id} does not wait for a replay")
        again = structs.replace(
            run, status=RunStatus.RUNNING, finished_at=None, error=None, message_id=message_id
        )
        return RunChange(run=again, retried=retried)

    return decide


def can_revive(run: Run) -> bool:
    """Whether a run may have a dead letter that can be replayed: it failed, or a compensation did
    after it was cancelled."""
    is_undone = run.status is RunStatus.CANCELLED and run.control is Control.COMPENSATE
    return is_undone or run.status is RunStatus.FAILED


def steps_to_retry(run: Run, steps: Sequence[RunStep]) -> tuple[str, ...]:
    """The keys of the failed steps that a replay tries again: the compensations, or before any the
    step with whose error the run failed. A failure that the body has caught stays as it is."""
    undoing = {compensation_name(each.key) for each in steps}
    if not any(each.key in undoing for each in steps):
        error = run.error or ""
        undoing = {each.key for each in steps if error.startswith(step_failure(each.key))}
    return tuple(
        each.key
        for each in steps
        if each.key in undoing and each.kind is StepKind.DO and each.state is StepState.FAILED
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
