"""An app with a workflow, run as a worker until it is killed.

    python -m tests.faults.programs.runs URL LOG

Each step appends its name to the file LOG. Points: `recording` and `recorded` around each
checkpoint, `ending` and `ended` around the end of a run, and those of `exactly_once` around claims
and settlements.
"""

import sys
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.faults.programs.exactly_once import (
    SETTLERS,
    between,
    blame_nobody,
    find_the_dead_soon,
    stop_at_commits,
)
from tests.kit.points import reach
from tickwork.core.model import Scope, Settlement
from tickwork.core.workflow.model import RunEnd
from tickwork.facade.app import Tickwork
from tickwork.store.postgres.workflows.workflows import PostgresWorkflows
from tickwork.store.sqlite.workflows.workflows import SqliteWorkflows
from tickwork.workflow.step import Step

PROGRAM = "tests.faults.programs.runs"
STEPS = "abc"


def build(url: str, log: str) -> Tickwork:
    app = Tickwork(url)
    out = app.queue("out")

    def note(name: str) -> None:
        with Path(log).open("a") as file:
            file.write(name)

    async def work(name: str) -> str:
        note(name)
        reach("worked")
        await out.send(name)
        return name.upper()

    @app.workflow(name="letters")
    async def letters(step: Step) -> str:
        done = [await step.do(name, work, name) for name in STEPS]
        await step.sleep("rest", 0.1)
        event = await step.wait_for_event("event", type="go")
        return "".join(done) + str(event)

    return app


def _stopping_at_ends(settle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A run ends with the settlement of its message."""
    at_end = between("ending", settle, "ended")

    @wraps(settle)
    async def settling(store: Any, scope: Scope, settlement: Settlement) -> Any:
        is_end = any(ending.effect(RunEnd) is not None for ending in settlement.endings)
        return await (at_end if is_end else settle)(store, scope, settlement)

    return settling


def main(url: str, log: str) -> None:
    stop_at_commits()
    stores: tuple[type[Any], ...] = (SqliteWorkflows, PostgresWorkflows)
    for workflows in stores:
        workflows.checkpoint = between("recording", workflows.checkpoint, "recorded")
    for settler in SETTLERS:
        settler.settle = _stopping_at_ends(settler.settle)
    find_the_dead_soon()
    blame_nobody()
    build(url, log).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
