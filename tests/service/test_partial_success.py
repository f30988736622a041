"""Partial success: what arrived is not sent again, at most once is never repeated, and the error
count follows the table of the design. On both stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.service.claims_made import ClaimsMade
from tickwork.core.answers.ids import without_prefix
from tickwork.core.delivery.outcome import Delivery, answered
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.core.message.backoff import Fixed, Listed
from tickwork.core.model import DEFAULT, SYSTEM, Fate
from tickwork.errors import InvalidInput, StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
A, B = "https://example.com/a", "https://example.com/b"
QUEUE = "tickwork.deliveries"
DAILY: Any = {"daily_time": "09:00", "payload": {"name": "Ann"}, "name": "morning"}
HOOK: Any = {"type": "webhook", "url": A}
ONCE: Any = {"target": HOOK, "delivery": "at_most_once"}
OK, DOWN = answered(200, {}, "", START), answered(503, {}, "", START)

Request = WebhookRequest | EmailRequest
Deliver = Callable[[WebhookRequest], Awaitable[Delivery]]


def both(**fields: Any) -> Any:
    hooks = [{"type": "webhook", "url": url} for url in (A, B)]
    return {"type": "channels", "channels": hooks, **fields}


def deliver_by(h: Harness, deliver: Deliver) -> list[WebhookRequest]:
    """Delivers with a function of the test; returns the list of requests."""
    sent: list[WebhookRequest] = []

    async def recorded(request: Request) -> Delivery:
        assert isinstance(request, WebhookRequest)
        sent.append(request)
        return await deliver(request)

    h.deliveries.deliver = recorded  # type: ignore[method-assign]
    return sent


async def wait_for_rows(h: Harness, request: WebhookRequest, status: str) -> None:
    """Waits until another channel of the request's message is recorded."""
    work = request.headers["Idempotency-Key"].replace("%3A", ":")
    for _ in range(1_000):
        if any(status in row for row in (await h.store.progress.get(DEFAULT, work)).values()):
            return
    raise AssertionError(f"nothing {status} was recorded for {work}")


def dies_once(h: Harness, fate: Fate) -> Deliver:
    """A receiver that succeeds; the first time, the worker dies when only A is recorded."""
    died: list[str] = []
    claims = ClaimsMade(h)

    async def deliver(request: WebhookRequest) -> Delivery:
        if request.url == B and not died:
            died.append(request.url)
            await wait_for_rows(h, request, "succeeded")
            assert await claims.end(request, fate)
        return OK

    return deliver


async def finished(app: Tickwork) -> list[Any]:
    return [firing for firing in await app.schedules.firings("morning") if firing.finished_at]


async def test_a_recorded_channel_is_not_sent_again_when_its_worker_died(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        sent = deliver_by(h, dies_once(h, Fate.RELEASE))
        await app.schedules.create(**DAILY, target=both())
        await h.advance(hours=1)
        (record,) = await finished(app)
    assert [request.url for request in sent] == [A, B, B]
    assert sent[1].headers["webhook-id"] == sent[2].headers["webhook-id"]
    assert record.status == "succeeded"
    assert [channel.status for channel in record.channels] == ["succeeded", "succeeded"]


async def test_a_recorded_channel_is_not_sent_again_by_a_replay(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        sent = deliver_by(h, dies_once(h, Fate.DEAD))
        await app.schedules.create(**DAILY, target=both())
        await h.advance(hours=1)
        await app.dead_letters.replay(QUEUE)
        await h.drain()
    assert [request.url for request in sent] == [A, B, B]
    for name in ("webhook-id", "Idempotency-Key"):
        assert sent[1].headers[name] == sent[2].headers[name]


async def test_an_unknown_outcome_is_sent_again_once_the_dead_letter_allows_it(
    app: Tickwork, database: str | None
) -> None:
    async def deliver(request: WebhookRequest) -> Delivery:
        if len(sent) == 1:
            await wait_for_rows(h, request, "sending")
            assert await claims.end(request, Fate.RELEASE)
        return OK

    async with harness(app, database=database, start=START) as h:
        sent, claims = deliver_by(h, deliver), ClaimsMade(h)
        await app.schedules.create(**DAILY, **ONCE)
        await h.advance(hours=1)
        (dead,) = await app.dead_letters.list(QUEUE)
        body = dead.body
        del body["delivery"]
        await app.dead_letters.edit(dead.id, body)
        await app.dead_letters.replay(QUEUE)
        await h.drain()
        assert await app.dead_letters.list(QUEUE) == ()
    first, again = sent
    assert first.headers["webhook-id"] == again.headers["webhook-id"]


@pytest.mark.parametrize("is_several", [False, True])
async def test_at_most_once_does_not_repeat_an_unknown_outcome(
    app: Tickwork, database: str | None, is_several: bool
) -> None:
    target: Any = both() if is_several else {"type": "webhook", "url": B}

    async def deliver(request: WebhookRequest) -> Delivery:
        if request.url == B:
            await wait_for_rows(h, request, "succeeded" if is_several else "sending")
            assert await claims.end(request, Fate.RELEASE)
        return OK

    async with harness(app, database=database, start=START) as h:
        sent, claims = deliver_by(h, deliver), ClaimsMade(h)
        await app.schedules.create(**DAILY, target=target, delivery="at_most_once")
        await h.advance(hours=1)
        (dead,) = await app.dead_letters.list(QUEUE)
        (record,) = await finished(app)
        await app.dead_letters.replay(QUEUE)
        await h.advance(hours=5)
        (again,) = await app.dead_letters.list(QUEUE)
    assert [request.url for request in sent] == ([A, B] if is_several else [B])
    assert (dead.reason, again.reason) == ("outcome_unknown", "outcome_unknown")
    assert "its outcome is unknown" in (dead.error or "")
    assert (record.status, record.reason) == ("dead", "outcome_unknown")
    statuses = [channel.status for channel in record.channels]
    assert statuses == (["succeeded", "unknown"] if is_several else [])


async def test_at_most_once_has_one_attempt_and_a_replay_sends_nothing(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: 503
        made = await app.schedules.create(**DAILY, **ONCE)
        await h.advance(hours=5)
        (dead,) = await app.dead_letters.list(QUEUE)
        await app.dead_letters.replay(QUEUE)
        await h.advance(hours=5)
        (again,) = await app.dead_letters.list(QUEUE)
        assert len(h.deliveries.webhooks) == 1
    assert (made.target, made.delivery) == (HOOK, "at_most_once")
    assert (dead.reason, dead.error) == ("max_retries", "the receiver answered 503")
    assert (again.reason, again.error) == ("max_retries", "the receiver answered 503")


async def test_at_most_once_is_sent_after_the_database_was_away(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: Any = {
        "type": "slack", "url": "https://example.com/a", "text": "{{ schedule.name }}",
    }  # fmt: skip
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=named, delivery="at_most_once")
        read, failed = h.store.schedules.get, list[object]()

        async def away_once(*asked: Any) -> Any:
            if not failed:
                failed.append(asked)
                raise StoreUnavailable("the database restarts")
            return await read(*asked)

        monkeypatch.setattr(h.store.schedules, "get", away_once)
        await h.advance(hours=1)
        assert len(failed) == 1
        (request,) = h.deliveries.webhooks
        assert msgspec.json.decode(request.body) == {"text": "morning"}
        assert await app.dead_letters.list(QUEUE) == ()


async def test_at_most_once_with_some_failed_channels_is_partial(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: 503 if getattr(request, "url", "") == B else 200
        await app.schedules.create(**DAILY, target=both(), delivery="at_most_once")
        await h.advance(hours=5)
        assert [webhook.url for webhook in h.deliveries.webhooks] == [A, B]
        assert (await app.schedules.get("morning")).last_error == "partial: webhook[1]"


async def test_only_the_failed_channels_are_retried_as_messages_of_their_own(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        answers = {A: iter([200]), B: iter([503, 503, 200])}
        h.deliveries.answer = lambda request: next(answers[request.url])  # type: ignore[union-attr]
        target = both(retry_failed_channels=True)
        made = await app.schedules.create(**DAILY, target=target)
        await h.advance(hours=5)
        requests = h.deliveries.webhooks
        shown = await app.schedules.get("morning")
        (record,) = await finished(app)
        assert await app.dead_letters.list(QUEUE) == ()
    assert made.target == target
    assert [request.url for request in requests] == [A, B, B, B]
    retried = requests[1:]
    for name in ("webhook-id", "Idempotency-Key", "Tickwork-Schedule", "Tickwork-Slot"):
        assert len({request.headers[name] for request in retried}) == 1, name
    assert [request.headers["Tickwork-Attempt"] for request in retried] == ["1", "2", "3"]
    assert [int(request.headers["Tickwork-Fence"]) for request in retried] == [1, 2, 3]
    at = [int(request.headers["webhook-timestamp"]) for request in retried]
    assert [after - before for before, after in pairwise(at)] == [60, 180]
    assert (shown.last_status, shown.last_error) == ("partial", "partial: webhook[1]")
    assert (shown.error_count, shown.next_fire_at) == (0, NINE + timedelta(days=1))
    statuses = [(channel.channel, channel.status) for channel in record.channels]
    assert statuses == [("webhook[0]", "succeeded"), ("webhook[1]", "retrying")]


@pytest.mark.parametrize(
    ("retry", "attempts", "waits"),
    [
        (None, 5, [60, 180, 480, 1_080]),
        ({"max_attempts": 7, "backoff": {"kind": "fixed", "seconds": 10}}, 7, [10] * 6),
        ({"max_attempts": 1}, 1, []),
    ],
)
async def test_a_failed_channel_has_the_attempts_of_its_schedule(
    app: Tickwork, database: str | None, retry: Any, attempts: int, waits: list[int]
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: 503 if getattr(request, "url", "") == B else 200
        target = both(retry_failed_channels=True)
        made = await app.schedules.create(**DAILY, target=target, retry=retry)
        await h.advance(hours=5)
        tried = [webhook for webhook in h.deliveries.webhooks if webhook.url == B]
        letters = await app.dead_letters.list(QUEUE)
        shown = await app.schedules.get("morning")
        await app.dead_letters.replay(QUEUE)
        await h.advance(hours=5)
        again = [webhook for webhook in h.deliveries.webhooks if webhook.url == B][len(tried) :]
        assert len([webhook for webhook in h.deliveries.webhooks if webhook.url == A]) == 1
    at = [int(request.headers["webhook-timestamp"]) for request in tried]
    assert [after - before for before, after in pairwise(at)] == waits
    assert len(tried) == attempts
    assert (shown.last_status, shown.error_count) == ("partial", 0)
    if attempts > 1:
        (letter,) = letters
        assert (letter.reason, letter.source) == (
            "max_retries",
            made.id,
        )
        assert letter.idempotency_key == f"{without_prefix(made.id)}:2026-03-02T09:00:00Z"
        assert {request.headers["webhook-id"] for request in again} == {
            tried[0].headers["webhook-id"]
        }
    else:
        assert letters == ()


async def test_a_channel_that_can_never_succeed_is_not_retried(
    app: Tickwork, database: str | None
) -> None:
    never = Delivery(is_delivered=False, error="wrong", is_permanent=True)
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: never if getattr(request, "url", "") == B else 200
        await app.schedules.create(**DAILY, target=both(retry_failed_channels=True))
        await h.advance(hours=5)
        assert [webhook.url for webhook in h.deliveries.webhooks] == [A, B]


LARGEST_RETRY: Any = {"max_attempts": 3, "backoff": Listed((31_535_999.123456789,) * 100)}


async def test_the_largest_payload_with_the_largest_terms_is_still_retried(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: 503 if getattr(request, "url", "") == B else 200
        key, target = "\N{CAT FACE}" * 120, both(retry_failed_channels=True)
        fields = {**DAILY, "target": target, "retry": LARGEST_RETRY, "idempotency_key": key}
        with pytest.raises(InvalidInput, match="at most 123904: send a reference"):
            await app.schedules.create(**fields | {"payload": "x" * 123_904})
        await app.schedules.create(**fields | {"payload": "x" * (123_904 - 200)})
        await h.advance(hours=1)
        (record,) = await finished(app)
        await app.schedules.pause("morning")
        waits_until = await h.store.messages.next_visible_at(SYSTEM, QUEUE)
    assert [channel.status for channel in record.channels] == ["succeeded", "retrying"]
    assert waits_until is not None


async def test_a_channel_whose_retry_would_be_too_large_is_failed_and_says_why(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: 503
        await app.schedules.create(**DAILY, target=both(retry_failed_channels=True))
        await h.advance(hours=5)
        (letter,) = await app.dead_letters.list(QUEUE)
        body = letter.body
        body["payload"] = "x" * (128_000 - len(msgspec.json.encode(body)))
        await app.dead_letters.edit(letter.id, body)
        h.deliveries.answer = lambda request: 503 if getattr(request, "url", "") == B else 200
        await app.dead_letters.replay(QUEUE)
        await h.advance(hours=5)
        record = (await finished(app))[0]
    assert [channel.status for channel in record.channels] == ["succeeded", "failed"]
    shown = record.channels[1].detail
    assert shown.startswith("the receiver answered 503; not retried: its message has 128")


SUCCESS, PARTIAL, FAILURE = [200, 200], [200, 503], [503, 503]
DOWN_TEXT = "webhook[0]: the receiver answered 503; webhook[1]: the receiver answered 503"
PARTIAL_TEXT = "partial: webhook[1]"

TABLE: list[tuple[list[int], tuple[int, str | None, str]]] = [
    (SUCCESS, (0, None, "succeeded")),
    (PARTIAL, (0, PARTIAL_TEXT, "partial")),
    (FAILURE, (1, DOWN_TEXT, "failed")),
    (PARTIAL, (1, PARTIAL_TEXT, "partial")),
    (FAILURE, (2, DOWN_TEXT, "failed")),
    (SUCCESS, (0, None, "succeeded")),
    (FAILURE, (1, DOWN_TEXT, "failed")),
    (FAILURE, (1, DOWN_TEXT, "dead")),
    (FAILURE, (1, DOWN_TEXT, "failed")),
    (FAILURE, (1, DOWN_TEXT, "dead")),
    (PARTIAL, (0, PARTIAL_TEXT, "partial")),
    (FAILURE, (1, DOWN_TEXT, "failed")),
    (FAILURE, (1, DOWN_TEXT, "dead")),
    (SUCCESS, (0, None, "succeeded")),
]
"""Attempts at slots that have two attempts each, and what the schedule shows after each."""


@pytest.mark.one_store("sqlite")
async def test_the_error_count_follows_the_table(app: Tickwork, database: str | None) -> None:
    answers: list[int] = []
    shown = []
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: answers.pop(0)
        every: Any = {"name": "morning", "cron_expr": "* * * * *", "target": both()}
        await app.schedules.create(**every, retry={"max_attempts": 2, "backoff": Fixed(30)})
        for attempt, _ in TABLE:
            answers += attempt
            while answers:
                await h.advance(seconds=30)
            found = await app.schedules.get("morning")
            shown.append((found.error_count, found.last_error, found.last_status))
    assert shown == [after for _, after in TABLE]


@pytest.mark.parametrize(
    ("answers", "status", "last"),
    [
        (SUCCESS, "completed", "succeeded"),
        (PARTIAL, "completed", "partial"),
        (FAILURE, "parked", "dead"),
    ],
)
async def test_a_partial_slot_completes_a_one_shot_and_a_dead_one_parks_it(
    app: Tickwork, database: str | None, answers: list[int], status: str, last: str
) -> None:
    left = [*answers]
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: left.pop(0)
        once: Any = {"name": "morning", "once_at": NINE, "target": both()}
        await app.schedules.create(**once, retry={"max_attempts": 1})
        await h.advance(hours=1)
        found = await app.schedules.get("morning")
    assert (found.status, found.last_status) == (status, last)


async def test_channels_of_which_none_can_succeed_are_dead_at_once(
    app: Tickwork, database: str | None
) -> None:
    never = Delivery(is_delivered=False, error="wrong", is_permanent=True)
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: never
        await app.schedules.create(**DAILY, target=both())
        await h.advance(hours=5)
        (dead,) = await app.dead_letters.list(QUEUE)
        found = await app.schedules.get("morning")
        assert [webhook.url for webhook in h.deliveries.webhooks] == [A, B]
    assert (dead.reason, dead.attempts) == ("permanent", 1)
    assert (found.last_status, found.status) == ("dead", "active")
    assert found.next_fire_at == NINE + timedelta(days=1)


async def test_a_dead_slot_pauses_its_schedule_if_that_is_wanted_and_its_owner_is_told(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: 250 if isinstance(request, EmailRequest) else 503
        await app.alerts.set(email="ops@example.com")
        every: Any = {"target": both(), "retry": {"max_attempts": 1}}
        await app.schedules.create(**DAILY, **every, on_dead="pause")
        await h.advance(hours=1)
        found = await app.schedules.get("morning")
        (email,) = h.deliveries.emails
        await h.advance(days=2)
        assert len(h.deliveries.webhooks) == 2
    assert (found.status, found.last_status, found.error_count) == ("paused", "dead", 0)
    told = email.subject.removeprefix("Tickwork: ").split(", ")
    assert sorted(told) == ["1 dead letter", "1 paused schedule"]
    assert f"queue {QUEUE}: max_retries at attempt 1: {DOWN_TEXT}" in str(email.text)


async def test_settings_that_contradict_each_other_are_refused(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    once: Any = "at_most_once"
    cases: list[tuple[Any, Any, str]] = [
        (both(retry_failed_channels=True), once, "delivery"),
        (HOOK | {"completion": "callback"}, once, "delivery"),
        ({"type": "queue", "queue": "work"}, once, "delivery"),
        ({"type": "workflow", "workflow": "order"}, once, "delivery"),
        ({"type": "entity", "entity": "Cart", "key": "a", "method": "b"}, once, "delivery"),
        (both(), "exactly_once", "delivery"),
        (both(), 1, "delivery"),
        (both(retry_failed_channels="yes"), None, "target.retry_failed_channels"),
        (HOOK | {"retry_failed_channels": True}, None, "target.retry_failed_channels"),
        (HOOK | {"delivery": once}, None, "target.delivery"),
        (
            {"type": "channels", "channels": [HOOK | {"delivery": once}]},
            None,
            "target.channels[0].delivery",
        ),
    ]
    async with harness(app, database=database, start=START):
        for target, delivery, field in cases:
            with pytest.raises(InvalidInput) as refused:
                await app.schedules.create(**DAILY, target=target, delivery=delivery)
            assert field in [error.field for error in refused.value.errors], target
        with pytest.raises(InvalidInput, match="a field of the schedule, beside target"):
            await app.schedules.create(**DAILY, target=HOOK | {"delivery": once})
        with pytest.raises(InvalidInput, match="retry: cannot be combined with delivery at_most"):
            await app.schedules.create(**DAILY, **ONCE, retry={"max_attempts": 3})
        await app.schedules.create(**DAILY, target=HOOK, retry={"max_attempts": 3})
        with pytest.raises(InvalidInput, match="retry: cannot be combined with delivery at_most"):
            await app.schedules.update("morning", delivery=once)
        changed = await app.schedules.update("morning", delivery=once, retry=None)
        assert (changed.delivery, changed.retry) == (once, None)


async def test_a_schedule_shows_its_delivery_and_an_update_changes_it(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    async with harness(app, database=database, start=START):
        made = await app.schedules.create(**DAILY, **ONCE)
        kept = await app.schedules.update("morning", payload=7)
        assert (made.delivery, kept.delivery) == ("at_most_once", "at_most_once")
        with pytest.raises(InvalidInput, match="delivery: at_most_once is only for"):
            await app.schedules.update("morning", target={"type": "queue", "queue": "work"})
        plain = await app.schedules.update("morning", delivery=None)
        again = await app.schedules.update("morning", delivery="at_most_once")
        assert (plain.delivery, again.delivery) == ("at_least_once", "at_most_once")
        moved = await app.schedules.update(
            "morning", target={"type": "queue", "queue": "work"}, delivery="at_least_once"
        )
        assert (moved.delivery, moved.target["queue"]) == ("at_least_once", "work")
        bulk: Any = DAILY | ONCE | {"name": "bulk"}
        await app.schedules.create_bulk([bulk])
        assert (await app.schedules.get("bulk")).delivery == "at_most_once"
