"""A trace is everything of one correlation, as a tree, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork import Message, NotFound, Permanent, Step, Tickwork
from tickwork.core.trace import RECORDS_MAX, TraceNode
from tickwork.ops import trace
from tickwork.testing import harness


def shape(nodes: tuple[TraceNode, ...]) -> list[Any]:
    """The tree as plain values."""
    return [[node.kind, node.name, node.state, *shape(node.children)] for node in nodes]


async def test_a_trace_is_a_tree_of_messages_dead_letters_runs_and_steps(
    database: str | None,
) -> None:
    app = Tickwork()
    orders, notes, graves = app.queue("orders"), app.queue("notes"), app.queue("graves")

    @app.on("orders")
    async def handle(message: Message[Any]) -> None:
        await notes.send("for later", delay_seconds=3_600)
        await graves.send("dies")
        await app.workflows.start(content, id=f"run-{message.body}")

    @app.on("graves")
    async def bury(_: Message[Any]) -> None:
        raise Permanent("never")

    @app.on("notes")
    async def note(_: Message[Any]) -> None: ...

    @app.workflow()
    async def content(step: Step) -> None:
        await step.sleep("cool-down", 3_600)

    async with harness(app, database=database) as h:
        await orders.send(1, correlation_id="story")
        waiting = await app.trace("story")
        assert shape(waiting.nodes) == [["message", "orders", "ready"]]
        first = await orders.send(2)
        await h.drain()
        found = await app.trace("story")
        assert not found.is_cut
        (order,) = found.nodes
        assert (order.kind, order.name, order.state) == ("message", "orders", "done")
        assert sorted(shape(order.children)) == [
            ["dead_letter", "graves", "dead"],
            ["message", "notes", "ready"],
            ["run", "content", "sleeping", ["step", "sleep", "waiting"]],
        ]
        assert "run-1" in {node.id for node in order.children}
        # A message without a correlation id began its own, and any of its records names it.
        own = await app.trace(first)
        assert own.correlation_id == first
        (begun,) = own.nodes
        assert {node.kind for node in begun.children} == {"dead_letter", "message", "run"}
        assert await app.trace("run-2") == own
        with pytest.raises(NotFound, match="nothing with this correlation id is left"):
            await app.trace("other")
        await h.advance(hours=2)
        (order,) = (await app.trace("story")).nodes
        assert sorted(shape(order.children)) == [
            ["dead_letter", "graves", "dead"],
            ["message", "notes", "done"],
            ["run", "content", "completed", ["step", "sleep", "done"]],
        ]


async def test_a_message_that_died_first_is_found_by_its_id(database: str | None) -> None:
    app = Tickwork()
    graves = app.queue("graves")

    @app.on("graves")
    async def bury(_: Message[Any]) -> None:
        raise Permanent("never")

    async with harness(app, database=database) as h:
        first = await graves.send(1)
        await h.drain()
        found = await app.trace(first)
        assert shape(found.nodes) == [["dead_letter", "graves", "dead"]]
        assert found.nodes[0].error == "never"


async def test_a_trace_is_cut_at_its_limit(
    database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "RECORDS_MAX", 3)
    app = Tickwork()
    jobs = app.queue("jobs")
    async with harness(app, database=database):
        await jobs.send_batch([*range(5)], correlation_id="story")
        found = await app.trace("story")
        assert (found.is_cut, found.records) == (True, 3)
    assert RECORDS_MAX == 1_000
