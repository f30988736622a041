"""`why` says what a message, a dead letter, a run, a call or an alarm waits for."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest

from tickwork import Entity, Message, NotFound, Permanent, Step, Tickwork
from tickwork.channel.secrets import SecretBox, new_key
from tickwork.core.answers.ids import Id
from tickwork.core.answers.wait import Wait
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.errors import FieldError, InvalidInput
from tickwork.facade.app import engine_of
from tickwork.ops.context import Context
from tickwork.ops.limits import put_limit
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
        dead = await ask(app, letter.letter.id)
        assert (dead.kind, dead.code) == ("dead_letter", "dead")
        assert dead.answer == "The message died in queue jobs (permanent)."
        assert f"`tickwork dead replay jobs --id {dead.id}`" in dead.next
        of_message = letter.letter.message_id
        assert await ask(app, of_message) == dead
        assert await ask(app, of_message.rpartition("_")[2][-8:]) == dead
        await app.dead_letters.replay("jobs", ids=[letter.letter.id])
        replayed = await ask(app, of_message)
        assert (replayed.id, replayed.next[:19]) == (dead.id, "It was replayed as ")
        assert (await app.why(str(running.id))).code == "done"
        with pytest.raises(NotFound):
            await app.why(f"msg_{0:032x}")


@pytest.mark.one_store("sqlite")
async def test_a_waiting_message_says_what_is_ahead_and_when_it_starts(
    database: str | None,
) -> None:
    app = Tickwork()
    jobs = app.queue("jobs", rate_per_second=2)

    @app.on("jobs")
    async def handle(message: Message[Any]) -> None: ...

    async with harness(app, database=database) as h:
        for _ in range(100):
            await jobs.send("work")
        last = await jobs.send("work")
        await jobs.send("later", priority=1)
        urgent = await jobs.send("now", priority=9)
        first = await ask(app, last)
        assert first.estimate is not None
        assert (first.estimate.ahead, first.estimate.rate_per_second) == (101, None)
        assert first.estimate.limited_by == "rate_limit"
        assert first.estimate.expected_at == h.now + timedelta(seconds=50.5)
        assert "what limits it: queue jobs starts 2 messages a second" in first.details
        assert (await ask(app, urgent)).estimate.ahead == 0  # type: ignore[union-attr]
        await h.advance(seconds=30)
        rest = (await ask(app, last)).estimate
        assert rest is not None
        assert 35 <= rest.ahead <= 45
        assert rest.rate_per_second is not None
        assert 1.6 <= rest.rate_per_second <= 2.5
        assert rest.limited_by == "rate_limit"
        assert rest.expected_at is not None
        assert 15 <= (rest.expected_at - h.now).total_seconds() <= 30
        await app.queues.pause("jobs")
        paused = (await ask(app, last)).estimate
        assert paused is not None
        assert (paused.limited_by, paused.expected_at) == ("paused", None)


async def test_a_burst_in_a_queue_that_is_mostly_empty_is_not_told_to_take_long(
    database: str | None,
) -> None:
    app = Tickwork()
    jobs = app.queue("jobs", rate_per_second=1)

    @app.on("jobs")
    async def handle(message: Message[Any]) -> None: ...

    async with harness(app, database=database) as h:
        for _ in range(3):
            await jobs.send("alone")
            await h.drain()
            await h.store.stats.flush(SYSTEM)
            await h.advance(minutes=1)
        for _ in range(50):
            await jobs.send("work")
        last = await jobs.send("work")
        for seconds in (0, 12):
            await h.advance(seconds=seconds)
            found = (await ask(app, last)).estimate
            assert found is not None
            assert found.limited_by == "rate_limit"
            assert found.expected_at is not None
            left = (found.expected_at - h.now).total_seconds()
            assert 0.7 * found.ahead <= left <= 1.4 * found.ahead


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"tenant_claimed_max": 1}, "tenant_cap", "queue jobs runs 1 messages of a tenant"),
        ({"limit": "crm"}, "named_limit", "limit crm lets 1 at a time through"),
        ({}, "concurrency", "its workers are busy with 1 of its messages"),
    ],
)
async def test_a_waiting_message_names_the_limit_that_binds(
    database: str | None, settings: Any, code: str, words: str
) -> None:
    app, seen = Tickwork(), list[Wait]()
    jobs = app.queue("jobs", **settings)

    @app.on("jobs", max_concurrency=1)
    async def handle(message: Message[Any]) -> None:
        if message.body != "last":
            seen.append(await app.why(last))

    async with harness(app, database=database) as h:
        await put_limit(Context(h.store, DEFAULT), "crm", {"concurrency": 1})
        await jobs.send("first", priority=9)
        last = await jobs.send("last")
        await h.drain()
        (found,) = seen
        assert found.estimate is not None
        assert (found.estimate.limited_by, found.estimate.ahead) == (code, 0)
        assert any(words in detail for detail in found.details), found.details


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
        found = await why_entity(Context(h.store, app._engine.scope), "Brand", "llc")
        assert [(wait.kind, wait.code) for wait in found] == [
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
            await why_entity(Context(h.store, app._engine.scope), "Nothing", "llc")


SHOP = "https://shop.example.com/hook"


async def test_a_delivery_says_what_became_of_it_or_what_it_waits_for(
    database: str | None,
) -> None:
    app = Tickwork()
    async with harness(app, database=database) as h:
        made = await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[60])
        started = h.now

        async def publish() -> str:
            event = (await app.events.publish("order.paid", {})).event_id
            (found,) = [
                delivery.id
                for delivery in await app.deliveries.list()
                if delivery.event_id == event
            ]
            return found

        arrived = await publish()
        ready = await ask(app, arrived)
        assert (ready.kind, ready.id, ready.code) == ("delivery", arrived, "ready")
        subject = "The delivery of order.paid to endpoint shop"
        assert ready.answer == f"{subject} is ready and waits for a worker."
        assert ready.next.startswith("A worker with tickwork[delivery] runs it as soon as one is")
        await h.drain()
        found = await ask(app, arrived)
        assert (found.code, found.since, found.until) == ("delivered", started, None)
        assert found.answer == f"{subject} arrived at {iso(started)} (1 attempt, status 200)."
        assert found.next == f"Nothing; `tickwork deliveries resend {arrived}` sends it again."
        assert await ask(app, arrived[-12:]) == found

        h.deliveries.answer = lambda _: 503
        failed = await publish()
        await h.drain()
        found = await ask(app, failed)
        assert (found.code, found.until) == ("retrying", h.now + timedelta(seconds=60))
        assert found.answer == f"{subject} failed and waits for its next attempt."
        assert found.details == (
            "1 of 2 attempts failed",
            "the last error: the receiver answered 503",
        )
        shown = await ask(app, "shop")
        assert (shown.code, shown.answer) == ("active", "Endpoint shop takes deliveries.")
        assert shown.details == ("1 attempt in a row failed",)

        for _ in range(4):
            await publish()
        await h.drain()
        waiting, until = await publish(), h.now + timedelta(seconds=60)
        found = await ask(app, waiting)
        assert (found.code, found.since, found.until) == ("breaker_open", started, until)
        why_open = "breaker of endpoint shop is open: 5 attempts in a row failed"
        assert found.answer == f"{subject} waits: the {why_open}."
        tried = (
            f"One delivery is tried at {iso(until)}; if it arrives, the others follow when they "
            "are due; `tickwork endpoints enable shop` goes on at once."
        )
        assert found.next == tried
        assert (await ask(app, failed)).details[-1] == "the last error: the receiver answered 503"
        assert await ask(app, await message_of(app, waiting)) == found
        endpoint = str(made.id)
        shown = await ask(app, endpoint)
        assert (shown.kind, shown.id, shown.code) == ("endpoint", endpoint, "breaker_open")
        assert (shown.answer, shown.next, shown.until) == (f"The {why_open}.", tried, until)
        assert await ask(app, "shop") == shown

        await app.pause_all()
        await h.advance(seconds=60)
        shown = await ask(app, "shop")
        assert (shown.code, shown.until) == ("breaker_open", None)
        lets = "breaker of endpoint shop lets one delivery through: 5 attempts in a row failed"
        assert shown.answer == f"The {lets}."
        found = await ask(app, waiting)
        assert found.answer == f"{subject} waits: the {lets}."
        assert (
            found.next
            == "If it arrives, the others follow when they are due (everything is paused)."
        )
        await app.resume_all()

        await app.endpoints.disable("shop", "moving house")
        found = await ask(app, waiting)
        assert (found.code, found.since) == ("endpoint_disabled", h.now)
        assert found.answer == f"{subject} waits: endpoint shop is disabled (moving house)."
        enable = "`tickwork endpoints enable shop`"
        last = started + timedelta(days=14)
        assert found.next == (
            f"Deliveries go on when it is enabled: {enable}; after {iso(last)} it becomes a dead "
            "letter."
        )
        assert found.until == last
        assert (await ask(app, "shop")).code == "endpoint_disabled"

        await app.endpoints.enable("shop")
        assert (await ask(app, "shop")).details == ()
        await h.advance(hours=2)
        found = await ask(app, failed)
        assert (found.kind, found.id, found.code) == ("delivery", failed, "dead")
        assert found.answer == f"{subject} died after 2 attempts (max_retries)."
        assert found.details == ("the last error: the receiver answered 503",)
        resend = f"Nothing: `tickwork deliveries resend {failed}` sends it again"
        assert found.next == f"{resend}."
        await app.endpoints.disable("shop", "gone")
        assert (await ask(app, failed)).next == f"{resend} after {enable}."
        await app.endpoints.delete("shop")
        assert (await ask(app, failed)).next == "Nothing: there is no endpoint to send it to."
        for unknown in ("shop", endpoint, "dlv_" + 32 * "0", arrived.replace("dlv", "msg")):
            with pytest.raises(NotFound):
                await app.why(unknown)


async def test_a_delivery_that_arrived_says_that_a_later_resend_failed(
    database: str | None,
) -> None:
    app = Tickwork()
    async with harness(app, database=database) as h:
        await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[])
        await app.events.publish("order.paid", {})
        await h.drain()
        (delivery,) = await app.deliveries.list()
        h.deliveries.answer = lambda _: 500
        await app.deliveries.resend(delivery.id)
        await h.advance(minutes=1)
        found = await ask(app, delivery.id)
        assert (found.code, found.since) == ("delivered", delivery.published_at)
        assert found.answer.endswith("(2 attempts).")
        assert found.details == ("a later resend failed: the receiver answered 500",)


async def test_a_slot_counts_the_attempts_of_its_schedule(database: str | None) -> None:
    app, ids = Tickwork(), list[str]()
    app.queue("jobs", max_retries=1)

    @app.on("jobs")
    async def handle(message: Message[Any]) -> None:
        ids.append(str(message.id))
        raise ValueError("no luck")

    async with harness(app, database=database) as h:
        retry: Any = {"max_attempts": 4, "backoff": {"kind": "fixed", "seconds": 60}}
        target: Any = {"type": "queue", "queue": "jobs"}
        await app.schedules.create(once_at=h.now, target=target, retry=retry)
        await h.advance(minutes=2)
        assert "3 of 4 attempts failed" in (await ask(app, ids[0])).details


async def test_a_slot_and_a_push_say_that_their_endpoint_is_disabled(database: str | None) -> None:
    app = Tickwork()
    async with harness(app, database=database) as h:
        await app.endpoints.create("shop", url=SHOP, types=["order.*"])
        await app.endpoints.disable("shop", "moving house")
        await app.queues.put("pushed", push_to="shop")
        pushed = await ask(app, await app.queue("pushed").send(1))
        assert (pushed.kind, pushed.code, pushed.until) == ("message", "endpoint_disabled", None)
        assert pushed.answer == (
            "The message in queue pushed waits: endpoint shop is disabled (moving house)."
        )
        await app.schedules.create(once_at=h.now, target={"type": "webhook", "endpoint": "shop"})
        await h.drain()
        (delivery,) = await app.deliveries.list()
        found = await ask(app, delivery.id)
        assert (found.kind, found.code) == ("delivery", "endpoint_disabled")
        assert found.answer.startswith("The delivery of schedule.fired to endpoint shop waits: ")


async def test_a_push_says_that_its_endpoint_does_not_exist(database: str | None) -> None:
    app = Tickwork()
    async with harness(app, database=database):
        await app.queues.put("pushed", push_to="shop")
        sent = await app.queue("pushed").send(1)
        waits = await ask(app, sent)
        assert (waits.kind, waits.code) == ("message", "endpoint_missing")
        assert waits.answer == (
            "The message in queue pushed waits: its queue pushes to endpoint shop, which does not "
            "exist."
        )
        assert waits.next.startswith(
            "It is pushed when the endpoint exists: `tickwork endpoints create shop`, or `tickwork "
            "queues update pushed --push-to ENDPOINT` names another one"
        )
        await app.endpoints.create("shop", url=SHOP, types=["order.*"])
        assert (await ask(app, sent)).code == "ready"


async def message_of(app: Tickwork, delivery: str) -> Id:
    found = await app.deliveries.get(delivery)
    return found.message_id


def iso(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}Z"


async def test_secrets_that_cannot_be_read_are_named_with_what_to_do(
    database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Tickwork()
    hook: Any = {"type": "webhook", "url": "https://shop.example.com/"}
    async with harness(app, database=database) as h:
        await app.endpoints.create("shop", url="https://shop.example.com/", types=["*"])
        await app.events.publish("order.paid", 1)
        (delivery,) = await app.deliveries.list()
        named = delivery.id
        await app.webhooks.secret()
        messages = list[str]()
        for name, headers in (("plain", {}), ("sealed", {"Authorization": "Bearer k3y"})):
            target: Any = {**hook, "headers": headers}
            made = await app.schedules.create(name=name, daily_time="09:00", target=target)
            await app.schedules.trigger(name)
            (message,) = await h.store.schedules.messages(app._engine.scope, made.id.uuid, 1)
            messages.append(str(message.id))
        assert [(await ask(app, subject)).code for subject in ("shop", named, *messages)] == [
            "active", "ready", "ready", "ready",
        ]  # fmt: skip
        other = SecretBox.from_text(new_key())
        monkeypatch.setattr(engine_of(app), "secret_reader", lambda: other)
        asked = [await ask(app, subject) for subject in ("shop", named, *messages)]
        assert {wait.code for wait in asked} == {"secrets_unreadable"}
        shop, sent, plain, sealed = asked
        words = "the signing secret of endpoint end_"
        assert shop.answer.startswith(f"Deliveries to endpoint shop wait: {words}")
        assert sent.answer.startswith(f"The delivery of order.paid to endpoint shop waits: {words}")
        for wait in asked:
            assert wait.answer.endswith(" was encrypted with another key.")
            assert "; add that key to TICKWORK_SECRET_KEY, after the" in wait.next
        assert "if that key is lost, delete the endpoint and create it again" in sent.next
        assert "`tickwork webhooks secret --lost-key`" in plain.next
        assert "give the secrets of the schedule's target again" in sealed.next
        await app.endpoints.disable("shop", "too slow")
        assert (await ask(app, named)).code == "endpoint_disabled"
        await app.endpoints.enable("shop")

        monkeypatch.setattr(engine_of(app), "secret_reader", missing_key)
        unknown = await ask(app, named)
        assert unknown.code == "ready"
        assert unknown.details[-1].endswith("is unknown here: TICKWORK_SECRET_KEY: is missing")


def missing_key() -> SecretBox:
    raise InvalidInput([FieldError("TICKWORK_SECRET_KEY", "is missing")])


async def test_before_there_is_a_secret_no_key_is_missed(
    database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Tickwork()
    async with harness(app, database=database) as h:
        monkeypatch.setattr(engine_of(app), "secret_reader", missing_key)
        hook: Any = {"type": "webhook", "url": "https://shop.example.com/"}
        made = await app.schedules.create(name="plain", daily_time="09:00", target=hook)
        await app.schedules.trigger("plain")
        (message,) = await h.store.schedules.messages(app._engine.scope, made.id.uuid, 1)
        assert not any(
            "unknown here" in detail for detail in (await ask(app, str(message.id))).details
        )


async def test_the_id_of_a_webhook_finds_its_slot(database: str | None) -> None:
    app = Tickwork()
    async with harness(app, database=database) as h:
        await app.schedules.create(
            name="report",
            daily_time="09:00",
            target={"type": "webhook", "url": "https://shop.example.com/"},
            retry={"max_attempts": 2, "backoff": {"kind": "fixed", "seconds": 60}},
        )
        h.deliveries.answer = lambda _: 503
        await app.schedules.trigger("report")
        await h.drain()
        triggered = h.deliveries.webhooks[-1].headers["webhook-id"]
        waiting = await ask(app, triggered)
        assert (waiting.kind, waiting.code) == ("message", "retrying")
        await h.advance(minutes=2)
        died = await ask(app, triggered)
        assert (died.kind, died.code) == ("firing", "dead")
        h.deliveries.answer = lambda _: 200
        await h.advance(days=1)
        first = h.deliveries.webhooks[-1].headers
        assert first["webhook-id"] != triggered
        arrived = await ask(app, first["webhook-id"])
        slot = first["Tickwork-Slot"]
        assert (arrived.kind, arrived.code) == ("firing", "succeeded")
        assert arrived.answer.startswith(f"Slot {slot} of schedule report: it fired: attempt 1 su")
        assert arrived.since is not None
        other = first["webhook-id"].replace("msg_", "msg_0")[:-1]
        with pytest.raises(NotFound):
            await app.why(other)
        await app.dead_letters.replay("tickwork.deliveries")
        assert (await ask(app, triggered)).kind == "message"  # Its replay.


async def test_a_dead_letter_has_the_same_error_in_why_and_in_lists(database: str | None) -> None:
    app = Tickwork()
    jobs = app.queue("jobs", max_retries=0)

    @app.on("jobs")
    async def handle(_: Message[Any]) -> None:
        raise Permanent("the mailbox is full\nsee https://example.com/help")

    async with harness(app, database=database) as h:
        await jobs.send(1)
        await h.drain()
        (dead,) = await h.dead("jobs")
        summary = dead.letter.summary
        assert summary is not None
        assert summary.endswith("the mailbox is full")
        found = await ask(app, dead.letter.id)
        assert f"its error: {summary}" in found.details
