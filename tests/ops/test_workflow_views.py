"""Runs of workflows, as people see them."""

from datetime import UTC, datetime
from uuid import UUID

from tickwork.core.workflow.model import Run, RunHistory, RunStatus, RunStep, StepKind, StepState
from tickwork.ops.workflow_views import view

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def test_some_of_many_steps_are_shown_with_their_number_and_what_the_run_waits_for() -> None:
    run = Run(
        tenant="default", id="a", uid=UUID(int=1), message_id=UUID(int=2), workflow="w",
        version=None, status=RunStatus.RUNNING, paused=False, control=None, signals=0, generation=0,
        correlation_id=None, deadline_at=None, created_at=NOW, finished_at=None, divergence=None,
        error=None, params=b"null", result=None,
    )  # fmt: skip
    steps = [
        RunStep(key=str(n), position=n, kind=StepKind.DO, state=StepState.DONE, started_at=NOW)
        for n in range(9)
    ]
    last = RunStep(
        key="9", position=9, kind=StepKind.EVENT, state=StepState.WAITING, started_at=NOW
    )
    history = RunHistory(run, (*steps, last), (), NOW)
    for first, limit, shown in (
        (0, None, "0123456789"), (0, 2, "01"), (8, 5, "89"), (10, 5, ""), (3, 0, "")
    ):  # fmt: skip
        seen = view(history, first, limit)
        assert "".join(each.key for each in seen.steps) == shown
        assert (seen.steps_total, seen.waits_for) == (10, ("step 9: an event",))
