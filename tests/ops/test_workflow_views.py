"""Runs of workflows, as people see them."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec import structs

from tickwork.core.workflow.model import (
    NO_STEPS,
    Run,
    RunPage,
    RunStatus,
    RunStep,
    RunWindow,
    StepKind,
    StepState,
)
from tickwork.ops.workflow_views import view

NOW = datetime(2027, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_some_of_many_steps_are_shown_with_their_number_and_what_the_run_waits_for() -> None:
    run = Run(
        tenant="default", id="a", uid=UUID(int=1), message_id=UUID(int=2), workflow="w",
        version=None, status=RunStatus.RUNNING, paused=False, control=None, signals=0, generation=0,
        correlation_id=None, deadline_at=None, created_at=NOW, finished_at=None, divergence=None,
        error=None, params=b"null", result=None,
    )  # fmt: skip
    slept = RunStep(
        key="nap", position=1, kind=StepKind.SLEEP, state=StepState.WAITING, wake_at=NOW,
        started_at=NOW - timedelta(seconds=5),
    )  # fmt: skip
    last = RunStep(
        key="go", position=9, kind=StepKind.EVENT, state=StepState.WAITING, wake_at=LATER,
        started_at=NOW,
    )  # fmt: skip
    seen = view(RunPage(run, (slept,), 10, (last,), (), NOW), RunWindow(0, 1))
    assert [(step.key, step.state, step.finished_at) for step in seen.steps] == [
        ("nap", StepState.DONE, NOW)
    ]
    assert (seen.steps_total, seen.wake_at) == (10, LATER)
    assert seen.waits_for == ("step go: an event",)
    ended = structs.replace(run, status=RunStatus.TERMINATED)
    seen = view(RunPage(ended, (), 10, (last,), (), NOW), NO_STEPS)
    assert (seen.waits_for, seen.wake_at) == ((), None)
