"""Workers that are killed in the middle of a run: recorded steps are not run again, what they send
is sent once, and the run ends on another node."""

import signal
from pathlib import Path

import pytest

from tests.faults.open_store import opened
from tests.faults.programs import runs
from tests.kit.process import Arm, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.ops.context import Context
from tickwork.ops.workflows import RunStart, ensure_workflow, send_event, start_runs
from tickwork.store.contract import Store

WAIT_SECONDS = 60.0


async def has_ended(store: Store) -> bool:
    return (await store.workflows.get(DEFAULT, "x")).status == "completed"


@pytest.mark.parametrize(
    ("arm", "done"),
    [
        # Before a step is recorded it may run again.
        pytest.param(Arm("worked", "kill", after=1), "abbc", marks=pytest.mark.soak),
        pytest.param(Arm("settling", "kill", after=1), "abbc", marks=pytest.mark.soak),
        (Arm("settled", "kill", after=1), "abc"),  # Recorded, and nobody here knows it.
        pytest.param(Arm("recorded", "kill"), "abc", marks=pytest.mark.soak),  # The sleep.
        pytest.param(Arm("ending", "kill"), "abc", marks=pytest.mark.soak),
        pytest.param(Arm("ended", "kill"), "abc", marks=pytest.mark.soak),
    ],
    ids=lambda name: f"{name.point}" if isinstance(name, Arm) else "",
)
async def test_a_killed_worker_leaves_a_run_that_another_one_ends_without_repeating_steps(
    home: Home, children: Children, tmp_path: Path, arm: Arm, done: str
) -> None:
    log = tmp_path / "steps"
    async with opened(home.url) as store:
        await ensure_workflow(store, "letters")
        await start_runs(Context(store, DEFAULT), [RunStart(workflow="letters", id="x")])
        await send_event(Context(store, DEFAULT), "x", "go", 7)
        dying = children.spawn(runs.PROGRAM, home.url, str(log), arms=[arm])
        assert await dying.wait(WAIT_SECONDS) == -signal.SIGKILL, dying.stderr()
        children.spawn(runs.PROGRAM, home.url, str(log))
        await eventually(lambda: has_ended(store), timeout_seconds=WAIT_SECONDS, what="the end")
        run = await store.workflows.get(DEFAULT, "x")
        assert run.result == b'"ABC7"'
        assert log.read_text() == done
        sent = await store.messages.peek(DEFAULT, "out", 100)
        assert sorted(message.body for message in sent) == [b'"a"', b'"b"', b'"c"']
