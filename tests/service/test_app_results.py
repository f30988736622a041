"""`on_success`, `on_failure`: the final result of a firing goes to a queue, an endpoint or a new
run of a workflow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tickwork import Firing, InvalidInput, Message, Permanent, Step, Tickwork
from tickwork.core.model import SYSTEM, QueueSettings
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = "2026-03-02T09:00:00Z"
HOOK = "https://example.com/hook"
DELIVERIES = "tickwork.deliveries"
TOLD: Any = {"on_success": {"queue": "good"}, "on_failure": {"queue": "bad"}}
DAILY: Any = {"daily_time": "09:00", "name": "morning", **TOLD}


@pytest.fixture
def app() -> Tickwork:
    app = Tickwork()
    app.queue("good")
    app.queue("bad")
    return app


async def test_a_success_is_told_once_with_its_answer(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.create(**DAILY, target_url=HOOK)
        answers = iter([503, 200])
        h.deliveries.answer = lambda _: next(answers)
        await h.advance(hours=1)
        (told,) = await h.sent("good")
        assert await h.sent("bad") == []
    assert (made.on_success, made.on_failure) == ({"queue": "good"}, {"queue": "bad"})
    assert told.body == {
        "schedule_id": made.id,
        "slot": NINE,
        "run": 0,
        "status": "succeeded",
        "attempts": 2,
        "reason": None,
        "error": None,
        "result_code": 200,
        "excerpt": None,
    }
    assert (told.message.type, told.message.source) == (
        "schedule.succeeded",
        made.id,
    )


async def test_a_failure_is_told_when_no_attempt_is_left(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        h.deliveries.answer = lambda _: 503
        await h.advance(minutes=40)
        assert await h.sent("bad") == []
        await h.advance(hours=1)
        (told,) = await h.sent("bad")
        assert await h.sent("good") == []
    assert told.message.type == "schedule.failed"
    assert (told.body["status"], told.body["attempts"]) == ("dead", 5)
    assert (told.body["reason"], told.body["result_code"]) == ("max_retries", 503)
    assert told.body["error"] == "the receiver answered 503"


async def test_a_partial_success_is_told_as_such(app: Tickwork, database: str | None) -> None:
    two: Any = {
        "type": "channels",
        "channels": [{"type": "webhook", "url": f"{HOOK}/{at}"} for at in (1, 2)],
    }
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=two)
        h.deliveries.answer = lambda request: 500 if str(request.url).endswith("1") else 200  # type: ignore[union-attr]
        await h.advance(hours=1)
        (told,) = await h.sent("good")
    assert (told.body["status"], told.body["error"]) == ("partial", "partial: webhook[0]")


async def test_results_of_functions_and_queues_are_told_and_handled(
    app: Tickwork, database: str | None
) -> None:
    seen: list[tuple[str, str]] = []
    app.queue("work", max_retries=0)

    @app.schedule(daily_time="09:00", **TOLD)
    async def report(_: Firing) -> None:
        raise Permanent("no paper")

    @app.on("work")
    async def work(message: Message) -> None: ...

    @app.on("good")
    async def good(message: Message) -> None:
        seen.append(("good", message.body["status"]))

    @app.on("bad")
    async def bad(message: Message) -> None:
        seen.append(("bad", message.body["error"]))

    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(
            **DAILY | {"daily_time": "09:10"}, target={"type": "queue", "queue": "work"}
        )
        await h.advance(hours=1)
        assert seen == [("bad", "no paper"), ("good", "succeeded")]
        await app.schedules.trigger("morning")
        await h.drain()
        assert seen[2:] == [("good", "succeeded")]


async def test_a_slot_that_expires_is_told(app: Tickwork, database: str | None) -> None:
    app.queue("work")
    async with harness(app, database=database, start=START) as h:
        target: Any = {"type": "queue", "queue": "work"}
        await app.schedules.create(**DAILY, target=target, expires_after_seconds=60)
        await h.advance(hours=1)
        (told,) = await h.sent("bad")
    assert (told.body["status"], told.body["reason"]) == ("expired", "expired")
    assert told.body["attempts"] == 0


async def test_a_full_queue_gets_the_result(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await h.store.queues.put(SYSTEM, "full", QueueSettings(backlog_bytes_max=128_000))
        await app.queue("full", shared=True).send("x" * 127_900)
        await app.schedules.create(**DAILY | {"on_success": {"queue": "full"}}, target_url=HOOK)
        await h.advance(hours=1)
        assert len(await h.sent("full")) == 2


async def test_a_result_whose_receiver_was_deleted_is_a_dead_letter_that_can_be_replayed(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")

    @app.on("work")
    async def work(_: Message) -> None: ...

    async with harness(app, database=database, start=START) as h:
        await h.store.queues.put(SYSTEM, "gone", QueueSettings())
        await app.endpoints.create("away", url="https://away.example.com", types=[])
        for name, receiver in (("one", {"queue": "gone"}), ("two", {"endpoint": "away"})):
            named: Any = DAILY | {"name": name, "on_success": receiver}
            await app.schedules.create(**named, target={"type": "queue", "queue": "work"})
        await h.store.queues.delete(SYSTEM, "gone")
        await app.endpoints.delete("away")
        await h.advance(hours=1)
        for name in ("one", "two"):
            assert (await app.schedules.get(name)).last_status == "succeeded"
        letters = await h.dead(DELIVERIES)
        assert sorted((letter.error or "").partition(";")[0] for letter in letters) == [
            "there is no endpoint away",
            "there is no queue gone",
        ]
        await h.store.queues.put(SYSTEM, "gone", QueueSettings())
        await app.endpoints.create("away", url="https://away.example.com", types=[])
        await app.dead_letters.replay(DELIVERIES)
        await h.drain()
        (told,) = await h.sent("gone")
        (request,) = h.deliveries.webhooks
        (delivery,) = await app.deliveries.list()
    assert (told.message.type, told.body["status"]) == ("schedule.succeeded", "succeeded")
    body = json.loads(request.body)
    assert (body["type"], body["data"]["status"]) == ("schedule.succeeded", "succeeded")
    assert (delivery.type, delivery.status) == ("schedule.succeeded", "delivered")


async def test_a_result_starts_a_run_of_a_workflow_with_the_result_as_its_params(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work", max_retries=0)
    seen: list[tuple[str, str]] = []

    @app.on("work")
    async def work(message: Message) -> None:
        if message.body == "bad":
            raise Permanent("no paper")

    @app.workflow()
    async def report(step: Step, result: Any) -> str:
        await step.sleep("a while", 60)
        seen.append((result["status"], result["slot"]))
        return str(result["status"])

    both: Any = {name: {"workflow": "report"} for name in ("on_success", "on_failure")}
    target: Any = {"type": "queue", "queue": "work"}
    async with harness(app, database=database, start=START) as h:
        fields = DAILY | both | {"target": target}
        made = await app.schedules.create(**fields)
        bad = fields | {"name": "bad", "payload": "bad", "daily_time": "09:05"}
        assert await app.schedules.create_bulk([bad]) == 1
        await h.advance(hours=1)
        runs = await app.workflows.list()
    assert made.on_success == made.on_failure == {"workflow": "report"}
    assert seen == [("succeeded", NINE), ("dead", "2026-03-02T09:05:00Z")]
    assert {run.status for run in runs} == {"completed"}
    assert len({run.id for run in runs}) == 2


async def test_a_result_whose_workflow_is_gone_is_a_dead_letter_whose_replay_reaches_its_runs(
    app: Tickwork, database: str | None
) -> None:
    runs, told = "tickwork.workflows.report", {"on_success": {"workflow": "report"}}
    async with harness(app, database=database, start=START) as h:
        await h.store.queues.put(SYSTEM, runs, QueueSettings())
        await app.schedules.create(**DAILY | told, target_url=HOOK)
        await h.store.queues.delete(SYSTEM, runs)
        await h.advance(hours=1)
        (letter,) = await h.dead(DELIVERIES)
        await h.store.queues.put(SYSTEM, runs, QueueSettings())
        await app.dead_letters.replay(DELIVERIES)
        await h.drain()
        (result,) = await h.sent(runs)
    assert (letter.error or "").startswith("there is no workflow report; declare it")
    assert (result.message.type, result.body["status"]) == ("schedule.succeeded", "succeeded")


@pytest.mark.parametrize("ordered", [False, True])
async def test_an_endpoint_gets_the_result_whatever_its_types(
    app: Tickwork, database: str | None, ordered: bool
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.endpoints.create(
            "billing", url="https://billing.example.com", types=["order.paid"], ordered=ordered
        )
        await app.endpoints.create("other", url="https://other.example.com", types=["*"])
        both: Any = {name: {"endpoint": "billing"} for name in ("on_success", "on_failure")}
        made = await app.schedules.create(**DAILY | both, target_url=HOOK)
        answers: Iterator[int] = iter([200, 200])
        h.deliveries.answer = lambda _: next(answers)
        await h.advance(hours=1)
        hook, told = h.deliveries.webhooks
        (delivery,) = await app.deliveries.list()
    body = json.loads(told.body)
    assert (hook.url, told.url) == (HOOK, "https://billing.example.com")
    assert (body["type"], body["data"]["status"]) == ("schedule.succeeded", "succeeded")
    assert body["data"]["schedule_id"] == made.id
    assert (delivery.status, delivery.type) == ("delivered", "schedule.succeeded")


async def test_an_update_replaces_and_removes_them(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        changed = await app.schedules.update(
            "morning", on_success={"queue": "bad"}, on_failure=None
        )
        assert (changed.on_success, changed.on_failure) == ({"queue": "bad"}, None)
        await h.advance(hours=1)
        assert len(await h.sent("bad")) == 1


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"queue": "godo"}, "on_success.queue"),
        ({"endpoint": "nobody"}, "on_success.endpoint"),
        ({"workflow": "content"}, "on_success.workflow"),
        ({"workflow": "x" * 101}, "on_success.workflow"),
        ({"queue": "good", "endpoint": "x"}, "on_success"),
        ({"queue": "good", "workflow": "x"}, "on_success"),
        ({"queu": "good"}, "on_success.queu"),
        ({}, "on_success"),
        ("good", "on_success"),
        ({"queue": 7}, "on_success.queue"),
    ],
)
async def test_a_receiver_that_does_not_exist_is_refused(
    app: Tickwork, database: str | None, given: Any, field: str
) -> None:
    async with harness(app, database=database, start=START):
        wrong: Any = DAILY | {"on_success": given, "target_url": HOOK}
        for call in (
            app.schedules.create(**wrong),
            app.schedules.create_many([wrong]),
            app.schedules.create_bulk([wrong]),
        ):
            with pytest.raises(InvalidInput) as refused:
                await call
            assert field in [error.field.removeprefix("[0].") for error in refused.value.errors]
        made = await app.schedules.create(**DAILY, target_url=HOOK)
        with pytest.raises(InvalidInput) as refused:
            await app.schedules.update(made.id, on_success=given)
        assert field in [error.field for error in refused.value.errors]


async def test_schedules_created_in_bulk_tell_their_results(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        bodies: Any = [DAILY | {"name": f"hook {at}", "target_url": HOOK} for at in range(3)]
        assert await app.schedules.create_bulk(bodies) == 3
        await h.advance(hours=1)
        assert len(await h.sent("good")) == 3
