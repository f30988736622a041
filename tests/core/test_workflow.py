"""Workflows, the pure part: keys of steps, retries, and what verbs do to a run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from tickwork.core.workflow import control
from tickwork.core.workflow.model import Control, NewRun, Run, RunStatus
from tickwork.core.workflow.queue import run_message, runs_queue, workflow_of_queue
from tickwork.core.workflow.retries import Retries
from tickwork.core.workflow.step_key import StepKeys
from tickwork.errors import Conflict, InvalidInput
from tickwork.store.ids import new_id

NOW = datetime(2027, 3, 14, 9, tzinfo=UTC)


def run(**fields: Any) -> Run:
    known: dict[str, Any] = {
        "tenant": "default",
        "id": "a",
        "uid": new_id(),
        "message_id": new_id(),
        "workflow": "content",
        "version": None,
        "status": RunStatus.RUNNING,
        "paused": False,
        "control": None,
        "signals": 0,
        "generation": 0,
        "correlation_id": None,
        "deadline_at": None,
        "created_at": NOW,
        "finished_at": None,
        "divergence": None,
        "error": None,
        "params": b"null",
        "result": None,
    }
    return Run(**known | fields)


def test_a_key_is_the_name_and_how_often_it_was_used() -> None:
    keys = StepKeys()
    assert [keys.next("a") for _ in range(3)] == ["a", "a#2", "a#3"]
    assert keys.next("a", "x") == "a[x]"
    with pytest.raises(InvalidInput, match=r"key 'x': makes a second step 'a\[x\]'"):
        keys.next("a", "x")
    with pytest.raises(InvalidInput, match="step 'a#2': makes a second step 'a#2'"):
        keys.next("a#2")
    with pytest.raises(InvalidInput, match="is used by two tasks"):
        keys.next("a", task=object())


def test_the_delays_of_retries_double_up_to_their_limit() -> None:
    retries = Retries(4, delay_seconds=10, delay_seconds_max=35)
    assert [retries.after(attempts) for attempts in range(1, 6)] == [10, 20, 35, 35, None]
    assert Retries(0).after(1) is None


def test_the_name_of_a_queue_of_runs_is_that_of_its_workflow() -> None:
    assert workflow_of_queue(runs_queue("content")) == "content"
    assert workflow_of_queue("content") is None
    assert run_message(run()).body == b'"a"'


@pytest.mark.parametrize("status", [run_status for run_status in RunStatus if run_status.is_final])
def test_a_run_that_has_ended_can_only_be_restarted(status: RunStatus) -> None:
    ended = run(status=status)
    for decide in (control.pause, control.resume, control.cancel(compensates=False)):
        with pytest.raises(Conflict, match="run a has"):
            decide(ended, False, NOW)
    again = control.restart(new_id())(ended, False, NOW)
    assert (again.run.status, again.sends, again.takes) == (RunStatus.RUNNING, True, False)


def test_a_restart_takes_the_message_that_is_there_and_a_new_start_has_its_own_deadline() -> None:
    old, new_message = run(control=Control.CANCEL, paused=True, error="x"), new_id()
    plan = control.Restart((), (), (), steps_from=3)
    again = control.restart(new_message, plan=plan)(old, True, NOW)
    assert (again.run.message_id, again.takes, again.sends) == (old.message_id, True, False)
    assert (again.run.control, again.run.paused, again.run.error) == (None, False, None)
    assert (again.steps_from, again.drops_events) == (3, False)
    new = NewRun(
        id="a", uid=new_id(), message_id=new_message, workflow="content", deadline_seconds=60
    )
    started = control.restart(new_message, new=new)(structs.replace(old), False, NOW)
    assert started.run.deadline_at == NOW + timedelta(seconds=60)
    assert (started.run.message_id, started.drops_events) == (new_message, True)
