"""Completion by callback: a 202 leaves a firing running until its receiver completes it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork import Conflict, FiringRecord, InvalidInput, Tickwork
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.testing import harness
from tickwork.testing.harness import Harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
HOOK = "https://example.com/hook"
CALLBACK: Any = {
    "type": "webhook",
    "url": HOOK,
    "completion": "callback",
    "complete_within_seconds": 600,
}
DAILY: Any = {"daily_time": "09:00", "name": "morning", "target": CALLBACK}
ACCEPTED = 202


@pytest.fixture
def app() -> Tickwork:
    return Tickwork()


def token_of(h: Harness, number: int = -1) -> str:
    return h.deliveries.webhooks[number].headers["Tickwork-Complete-Token"]


async def started(app: Tickwork, h: Harness, **fields: Any) -> str:
    """The token of a firing that its receiver accepted."""
    h.deliveries.answer = lambda _: ACCEPTED
    await app.schedules.create(**(DAILY | fields))
    await h.advance(minutes=31)
    return token_of(h)


async def records(app: Tickwork) -> list[FiringRecord]:
    return [firing for firing in await app.schedules.firings("morning") if firing.finished_at]


async def test_a_202_leaves_the_firing_running_until_it_is_completed(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h)
        (running,) = await app.schedules.firings("morning")
        why = await app.schedules.why("morning", NINE)
        await h.advance(minutes=2)
        done = await app.firings.complete(token)
        await h.advance(hours=1)
        (record,) = await records(app)
        shown = await app.schedules.get("morning")
        requests = h.deliveries.webhooks
    assert (running.status, running.attempt, running.started_at) == ("running", 1, NINE)
    assert (why.code, why.fired) == ("running", True)
    assert "its receiver has until 2026-03-02T09:10:00Z to complete it" in why.answer
    url = requests[0].headers["Tickwork-Complete-Url"]
    assert url == f"https://tickwork.example/v1/firings/fir_{running.id.hex}/complete"
    assert (done.status, done.id, done.slot) == ("succeeded", running.id, NINE)
    assert (record.status, record.result_code, record.catch_up) == ("succeeded", 202, False)
    assert (record.started_at, record.finished_at) == (NINE, NINE + timedelta(minutes=3))
    assert (shown.last_status, shown.error_count, len(requests)) == ("succeeded", 0, 1)


async def test_a_second_call_is_refused(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h)
        await app.firings.complete(token)
        with pytest.raises(Conflict, match="the token is stale"):
            await app.firings.complete(token)
        assert len(await records(app)) == 1


async def test_an_answer_other_than_202_ends_the_attempt(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        answers = iter([503, 200])
        h.deliveries.answer = lambda _: next(answers)
        await app.schedules.create(**DAILY)
        await h.advance(hours=1)
        assert [record.status for record in await records(app)] == ["succeeded", "failed"]
        for number in (0, 1):
            with pytest.raises(Conflict):
                await app.firings.complete(token_of(h, number))


async def test_the_time_limit_fails_the_attempt_and_the_next_has_a_new_token(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        first = await started(app, h)
        await h.advance(minutes=9)
        (record,) = await records(app)
        with pytest.raises(Conflict):
            await app.firings.complete(first)
        await h.advance(minutes=1)
        second = token_of(h)
        (running,) = await app.schedules.firings("morning", status="running")
        with pytest.raises(Conflict):
            await app.firings.complete(first)
        done = await app.firings.complete(second)
        attempts = [webhook.headers["Tickwork-Attempt"] for webhook in h.deliveries.webhooks]
        statuses = [firing.status for firing in await records(app)]
    assert (record.status, record.reason, record.catch_up) == ("failed", "callback_timeout", False)
    assert record.excerpt == "callback_timeout: not completed within 600 seconds"
    assert (record.started_at, record.finished_at) == (NINE, NINE + timedelta(minutes=10))
    assert (running.attempt, done.attempt, attempts) == (2, 2, ["1", "2"])
    assert statuses == ["succeeded", "failed"]


async def test_a_receiver_that_never_completes_uses_up_the_attempts(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await started(app, h)
        await h.advance(hours=5)
        (dead,) = await app.dead_letters.list("tickwork.deliveries")
        assert (dead.reason, dead.attempts) == ("max_retries", 5)
        assert len({token_of(h, number) for number in range(5)}) == 5
        assert (await app.schedules.get("morning")).last_status == "dead"


async def test_a_reported_failure_is_a_failed_attempt(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h)
        done = await app.firings.complete(token, failed=True, error="disk full")
        shown = await app.schedules.get("morning")
        await h.advance(minutes=1)
        await app.firings.complete(token_of(h), failed=True)
        (second, first) = await records(app)
    assert (done.status, shown.error_count, shown.last_error) == ("failed", 1, "disk full")
    assert (first.status, first.excerpt) == ("failed", "disk full")
    assert (second.status, second.excerpt) == ("failed", "the receiver reported a failure")


async def test_a_receiver_may_be_done_before_it_has_answered(
    app: Tickwork, database: str | None
) -> None:
    done: list[asyncio.Task[Any]] = []

    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY)
        deliver = h.deliveries.deliver

        async def complete_first(request: WebhookRequest | EmailRequest) -> Any:
            assert isinstance(request, WebhookRequest)
            token = request.headers["Tickwork-Complete-Token"]
            done.append(asyncio.create_task(app.firings.complete(token)))
            await done[-1]
            return await deliver(request)

        h.deliveries.answer = lambda _: ACCEPTED
        h.deliveries.deliver = complete_first  # type: ignore[method-assign]
        await h.advance(hours=2)
        assert [record.status for record in await records(app)] == ["succeeded"]
        assert len(done) == 1


async def test_a_waiting_firing_counts_as_unfinished_and_keeps_the_order(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: ACCEPTED
        await app.schedules.create(
            name="often", interval_minutes=5, overlap="buffer_one", target=CALLBACK
        )
        await h.advance(minutes=12)
        assert len(h.deliveries.webhooks) == 1
        await app.firings.complete(token_of(h))
        await h.drain()
        assert len(h.deliveries.webhooks) == 2


@pytest.mark.parametrize("policy", ["skip", "fire_most_recent", "fire_late"])
async def test_a_wait_beyond_the_grace_makes_no_missed_slot(
    app: Tickwork, database: str | None, policy: Any
) -> None:
    async with harness(app, database=database, start=START) as h:
        await started(app, h, missed={"policy": policy, "grace_seconds": 60})
        await h.advance(minutes=11)
        await app.firings.complete(token_of(h))
        found = await records(app)
        assert [(firing.status, firing.catch_up) for firing in found] == [
            ("succeeded", False),
            ("failed", False),
        ]


async def test_an_expiry_does_not_end_an_attempt_that_waits(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h, expires_after_seconds=120)
        await h.advance(minutes=5)
        assert (await app.firings.complete(token)).status == "succeeded"
        await h.advance(days=1)
        await h.advance(hours=1)
        (expired, _) = await records(app)
        assert (expired.status, len(h.deliveries.webhooks)) == ("expired", 2)


async def test_a_slot_that_fired_late_waits_too(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: ACCEPTED
        await app.schedules.create(**(DAILY | {"missed": {"policy": "fire_most_recent"}}))
        await h.advance(minutes=29, seconds=50)
        await h.outage(minutes=30)
        await h.advance(minutes=1)
        await h.advance(minutes=12)
        assert len(h.deliveries.webhooks) == 2
        await app.firings.complete(token_of(h))
        assert [record.status for record in await records(app)] == ["succeeded", "failed"]


async def test_a_worker_that_dies_after_the_202_sends_a_new_token(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY)
        settle, died = h.store.messages.settle, list[Any]()

        async def die_once(scope: Any, settlement: Any) -> Any:
            if not died:
                died.append(settlement)
                await h.store.nodes.leave(SYSTEM, settlement.endings[0].claim.holder)
                await h.join()
            return await settle(scope, settlement)

        h.deliveries.answer = lambda _: ACCEPTED
        h.store.messages.settle = die_once  # type: ignore[method-assign]
        await h.advance(minutes=32)
        first, second = (token_of(h, number) for number in (0, 1))
        with pytest.raises(Conflict):
            await app.firings.complete(first)
        done = await app.firings.complete(second)
        assert (done.attempt, done.status) == (1, "succeeded")


async def test_of_a_completion_and_the_time_limit_exactly_one_wins(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h)
        await h.advance(minutes=8, seconds=59)
        results = await asyncio.gather(
            app.firings.complete(token), h.advance(minutes=1), return_exceptions=True
        )
        is_completed = not isinstance(results[0], Exception)
        (record,) = await records(app)
        assert (record.status == "succeeded") is is_completed


async def test_the_token_is_stored_as_a_hash(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        token = await started(app, h)
        (message,) = await h.store.schedules.messages(
            DEFAULT, (await app.schedules.get("morning")).id.uuid, 10
        )
        rows = await h.store.progress.get(DEFAULT, message.work_key)
    assert len(rows) == 1
    assert token not in str(rows)
    assert token not in str(message)


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("token", ["", "tct_", "tct_AAAA", "abc", "tct_é", "tct_" + "A" * 2_000])
async def test_what_is_not_a_token_is_refused(
    app: Tickwork, database: str | None, token: str
) -> None:
    async with harness(app, database=database, start=START):
        with pytest.raises(InvalidInput, match="token: is not a token"):
            await app.firings.complete(token)
        with pytest.raises(Conflict):
            await app.firings.complete("tct_" + "A" * 64 + "ZGVmYXVsdA")


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("target", "field"),
    [
        (CALLBACK | {"completion": "later"}, "target.completion"),
        (CALLBACK | {"complete_within_seconds": 0}, "target.complete_within_seconds"),
        (CALLBACK | {"completion": "answer"}, "target.complete_within_seconds"),
        ({"type": "channels", "channels": [CALLBACK]}, "target.channels[0].completion"),
    ],
)
async def test_a_callback_that_cannot_be_is_refused(
    app: Tickwork, database: str | None, target: Any, field: str
) -> None:
    async with harness(app, database=database, start=START):
        with pytest.raises(InvalidInput) as refused:
            await app.schedules.create(daily_time="09:00", target=target)
    assert field in [error.field for error in refused.value.errors]


async def test_without_a_public_url_the_error_names_the_setting(tmp_path: Any) -> None:
    app = Tickwork(f"sqlite:///{tmp_path / 'tickwork.db'}")
    try:
        with pytest.raises(InvalidInput, match=r"target.completion: .*TICKWORK_PUBLIC_URL"):
            await app.schedules.create(**DAILY)
    finally:
        await app.close()
