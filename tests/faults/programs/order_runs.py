"""An app with a workflow that has every kind of step, run as a worker until it is killed.

    python -m tests.faults.programs.order_runs URL LOG

A step appends a line to the file LOG each time its function runs: its run, its name, and `again` if
its result was recorded before, and the run is still this worker's. What it sends commits with its
record. Points: `worked` in the middle of a step, `await` at each await, and those of `exactly_once`
around claims and settlements.
"""

import sys
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from tests.faults import tables
from tests.faults.programs.awaits import stop_at_awaits
from tests.faults.programs.exactly_once import blame_nobody, find_the_dead_soon, stop_at_commits
from tests.kit.points import reach
from tickwork.app.invocation import current_handling
from tickwork.app.message import ClaimedMessage
from tickwork.facade.app import Tickwork
from tickwork.store.sqlite.engine.writer import Writer
from tickwork.workflow.step import Step

PROGRAM = "tests.faults.programs.order_runs"
between_writes = Lock()
"""Held while SQLite is written, and at `worked`: a process that is frozen while it writes the file
keeps everybody else out."""

STEPS = ("first", "left", "right", "1", "2", "3")
"""Steps that send, the items of the map among them."""


def build(url: str, log: str) -> Tickwork:
    app = Tickwork(url)
    out = app.queue("out")
    insert = f"INSERT INTO effects VALUES ({'?, ?' if tables.is_sqlite(url) else '$1, $2'})"

    def note(line: str) -> None:
        with Path(log).open("a") as file:
            file.write(line)

    async def work(run: str, name: str) -> str:
        is_recorded = [run, name] in await sent_by_steps(url)
        # A worker that has lost its claim since the step started does not know better.
        is_again = is_recorded and current_message().is_ours
        note(f"{run} {name}{' again' if is_again else ''}\n")
        with between_writes:
            reach("worked")
        await out.send([run, name])
        return name

    async def work_on_item(item: list[str]) -> str:
        return await work(*item)

    def save(rows: Any, run: str) -> str:
        rows.execute(insert, run, "row")
        return "saved"

    @app.workflow(name="orders", max_concurrency=1)
    async def orders(step: Step) -> list[Any]:
        run = step.run_id
        first = await step.do("first", work, run, "first")
        pair = await step.gather(
            step.do("left", work, run, "left"), step.do("right", work, run, "right")
        )
        saved = await step.transaction("save", save, run)
        items = await step.map("items", work_on_item, [[run, name] for name in STEPS[3:]])
        await step.sleep("rest", 0.05)
        event = await step.wait_for_event("event", type="go")
        return [first, *pair, saved, *items, event]

    return app


def current_message() -> ClaimedMessage[Any]:
    """The message of the run whose step is running."""
    handling = current_handling()
    assert handling is not None
    assert isinstance(handling.given, ClaimedMessage)
    return handling.given


async def sent_by_steps(url: str) -> list[Any]:
    """The run and the name of each step that has sent its message."""
    query = (
        "SELECT m.body FROM tickwork_messages m JOIN tickwork_queues q ON q.id = m.queue_id "
        "WHERE q.name = 'out'"
    )
    return [msgspec.json.decode(row[0]) for row in await tables.fetch(url, query)]


def write_under_lock() -> None:
    carry_out = Writer._carry_out

    def carry_out_alone(writer: Writer, group: list[Any]) -> None:
        with between_writes:
            carry_out(writer, group)

    setattr(Writer, "_carry_out", carry_out_alone)  # noqa: B010


def main(url: str, log: str) -> None:
    write_under_lock()
    stop_at_commits()
    stop_at_awaits()
    find_the_dead_soon()
    blame_nobody()
    build(url, log).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
