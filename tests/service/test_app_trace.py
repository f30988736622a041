"""A trace is everything of one correlation, as a tree, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tickwork import Entity, Message, NotFound, Permanent, Step, Tickwork
from tickwork.core.trace import RECORDS_MAX, TraceNode
from tickwork.ops import trace
from tickwork.testing import harness


def shape(nodes: tuple[TraceNode, ...]) -> list[Any]:
    """The tree as plain values."""
    return [[node.kind, node.name, node.state, *shape(node.children)] for node in nodes]


def below(node: TraceNode) -> Iterator[TraceNode]:
    yield node
    for child in node.children:
        yield from below(child)


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


class Page(Entity):
    """A page that is put somewhere."""

    async def put(self, text: str) -> None:
        await self.storage.put("text", text)


async def test_a_story_of_eight_queues_is_one_tree_an_hour_later(database: str | None) -> None:
    """A slot begins it. Messages of it wait, are done and are dead; it has a firing, a delivery
    with an attempt, a run with a step, and a call of an entity."""
    app = Tickwork()
    for name in ("commands", "research", "events"):
        app.queue(name, dead_letter_queue=f"{name}-dlq")
    for name in ("publish", "social", "commands-dlq", "research-dlq"):
        app.queue(name)
    app.entities.register(Page)
    begun: list[str] = []

    @app.on("commands")
    async def command(message: Message[Any]) -> None:
        if message.body == "refused":
            raise Permanent("nobody may")
        if message.body == "cycle":
            begun.append(message.id)
            await app.queue("research").send("good")
            await app.queue("research").send("bad")

    @app.on("research")
    async def research(message: Message[Any]) -> None:
        if message.body == "bad":
            raise Permanent("nothing found")
        await app.queue("publish").send("page")
        await app.queue("social").send("post")

    @app.on("publish")
    async def publish(_: Message[Any]) -> None:
        await app.workflows.start(article, id="article-1")
        await app.events.publish("article.published", {})

    @app.on("social")
    async def post(_: Message[Any]) -> None:
        await app.queue("commands").send("later", delay_seconds=86_400)
        await app.queue("events").send("posted")
        await app.queue("events").send("broken")

    @app.on("events")
    async def event(message: Message[Any]) -> None:
        if message.body == "broken":
            raise Permanent("unreadable")
        await app.queue("commands").send("refused")

    @app.on("commands-dlq")
    async def refuse(_: Message[Any]) -> None:
        raise Permanent("nobody looks")

    @app.on("research-dlq")
    async def look(_: Message[Any]) -> None: ...

    @app.workflow()
    async def article(step: Step) -> None:
        await step.do("write", write)

    async def write() -> None:
        await app.entity(Page, "home").put("text")

    async with harness(app, database=database, start=datetime(2026, 3, 2, 8, tzinfo=UTC)) as h:
        await app.endpoints.create("shop", url="https://shop.example.com/", types=["article.*"])
        await app.schedules.create(
            name="daily", cron_expr="0 9 * * *", target={"queue": "commands"}, payload="cycle"
        )
        await h.advance(hours=1, minutes=1)
        await h.advance(hours=1)
        (first,) = begun
        found = await app.trace(first)
        assert not found.is_cut
        (slot,) = found.nodes
        nodes = [*below(slot)]
        shown = sorted((node.kind, node.name, node.state) for node in nodes)
        assert shown == [
            ("attempt", "", "delivered"),
            ("dead_letter", "commands", "dead"),
            ("dead_letter", "commands-dlq", "dead"),
            ("dead_letter", "events", "dead"),
            ("dead_letter", "research", "dead"),
            ("delivery", "shop", "delivered"),
            ("firing", "commands", "succeeded"),
            ("message", "commands", "done"),
            ("message", "commands", "ready"),
            ("message", "events", "done"),
            ("message", "events-dlq", "ready"),
            ("message", "publish", "done"),
            ("message", "research", "done"),
            ("message", "research-dlq", "done"),
            ("message", "social", "done"),
            ("message", "tickwork.entities.Page", "done"),
            ("run", "article", "completed"),
            ("step", "do", "done"),
        ]
