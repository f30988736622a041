"""`why` says what a message, a dead letter, a run, a call or an alarm waits for."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from tickwork import Entity, Message, NotFound, Permanent, Step, Tickwork
from tickwork.core.public_id import Prefix, public_id
from tickwork.ops.wait_answers import Wait
from tickwork.ops.why import why_entity
from tickwork.testing import harness
from tickwork.testing.clock import START


async def ask(app: Tickwork, reference: str) -> Wait:
    found = await app.why(reference)
    for sentence in (found.answer, found.next):
        assert re.fullmatch(r"[A-Z].*[^.:; ]\.", sentence), sentence
    return found


async def test_a_message_says_what_it_waits_for_in_every_state(database: str | None) -> None:
    app, seen = Tickwork(), list[Wait]()
    jobs = app.queue("jobs", max_retries=1)

    @app.on("jobs")
    async def handle(message: Message[Any]) -> None:
        if message.body == "look":
            seen.append(await app.why(str(message.id)))
        if message.body == "fail":
            raise ValueError("no luck")
        if message.body == "die":
            raise Permanent("never")

    async with harness(app, database=database) as h:
        ready = await ask(app, await jobs.send("look", correlation_id="story"))
        assert (ready.kind, ready.code, ready.since) == ("message", "ready", h.now)
        assert ready.answer == "The message in queue jobs is ready and waits for a worker."
        assert ready.correlation_id == "story"
        delayed = await ask(app, await jobs.send("later", delay_seconds=3_600))
        assert (delayed.code, delayed.until) == ("delayed", h.now + timedelta(hours=1))
        first = await jobs.send("fail", key="k")
        blocked = await ask(app, await jobs.send("next", key="k"))
        assert blocked.code == "blocked"
        assert first.replace("-", "") in blocked.answer
        await app.queues.pause("jobs")
        assert "(queue jobs is paused)" in (await ask(app, first)).next
        await app.queues.resume("jobs")
        await h.drain()
        (running,) = seen
        assert running.code == "running"
        assert running.answer == "The message in queue jobs is being handled by harness."
        assert running.until == h.now + timedelta(seconds=900)
        retrying = await ask(app, first)
        assert retrying.code == "retrying"
        assert retrying.details[0] == "1 of 2 attempts failed"
        assert retrying.details[-1].endswith("no luck")
        await jobs.send("die")
        await h.drain()
        (letter,) = await h.dead("jobs")
        dead = await ask(app, public_id(Prefix.DEAD_LETTER, letter.letter.id))
        assert (dead.kind, dead.code) == ("dead_letter", "dead")
        assert dead.answer == "The message died in queue jobs (permanent)."
        gone = str(running.id)
        with pytest.raises(NotFound):
            await app.why(gone)


async def test_a_run_says_which_step_it_waits_for_and_until_when(database: str | None) -> None:
    app, seen = Tickwork(), list[Wait]()

    @app.workflow()
    async def content(step: Step) -> None:
        async def look() -> None:
            seen.append(await app.why("brand-7"))

        await step.do("look", look)
        await step.sleep("cool-down", 3_600)
        await step.wait_for_event("approval", type="approved", timeout_seconds=60)

    start = START.replace(microsecond=250_000)
    async with harness(app, database=database, start=start) as h:
        run = await app.workflows.start(content, id="brand-7")
        ready = await ask(app, "brand-7")
        assert (ready.kind, ready.id, ready.code) == ("run", "brand-7", "ready")
        await h.drain()
        assert (seen[0].code, seen[0].answer) == (
            "running",
            "Run brand-7 of content is running on harness.",
        )
        asleep = await ask(app, "brand-7")
        assert (asleep.code, asleep.until) == ("sleeping", h.now + timedelta(hours=1))
        assert asleep.answer == "Run brand-7 of content waits for cool-down."
        until = h.now + timedelta(hours=1)
        assert asleep.next == f"It wakes at {until:%Y-%m-%dT%H:%M:%S}Z."
        slept = f"since {h.now:%Y-%m-%dT%H:%M:%S}Z until {until:%Y-%m-%dT%H:%M:%S}Z"
        assert asleep.details == (f"step cool-down: sleeps {slept}",)
        await h.advance(hours=1)
        waiting = await ask(app, "brand-7")
        assert (waiting.code, waiting.until) == ("event", h.now + timedelta(minutes=1))
        await run.pause()
        assert (await ask(app, "brand-7")).code == "paused"
        await run.resume()
        await run.send_event("approved", {})
        await h.drain()
        ended = await ask(app, "brand-7")
        assert (ended.code, ended.until) == ("completed", None)


class Brand(Entity):
    async def plan(self) -> None:
        await self.set_alarm(self.now + timedelta(hours=2))

    async def alarm(self, _: Any) -> None: ...


async def test_calls_and_the_alarm_of_an_entity_are_explained(database: str | None) -> None:
    app = Tickwork()
    app.entities.register(Brand)
    async with harness(app, database=database) as h:
        await app.entity(Brand, "llc").plan()
        sent = await app.entity(Brand, "llc").send.plan()
        behind = await app.entity(Brand, "llc").send.plan()
        found = await why_entity(h.store, app._engine.scope, "Brand", "llc")
        assert [(each.kind, each.code) for each in found] == [
            ("alarm", "delayed"),
            ("call", "ready"),
            ("call", "blocked"),
        ]
        assert found[0].answer == "The alarm of Brand 'llc' is delayed."
        assert found[0].until == h.now + timedelta(hours=2)
        assert (await ask(app, str(sent))).answer == (
            "The call of plan of Brand 'llc' is ready and waits for a worker."
        )
        assert (await ask(app, str(behind))).code == "blocked"
        with pytest.raises(NotFound):
            await why_entity(h.store, app._engine.scope, "Nothing", "llc")
