"""Targets outside: each slot is delivered, signed, retried and recorded, on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.kit.contexts import acting
from tickwork.core.answers.ids import without_prefix
from tickwork.core.delivery.outcome import Delivery, ErrorKind, answered, failed
from tickwork.core.delivery.pace import Limit
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.core.delivery.signature import is_signed, secret_key
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, Scope, Tenant
from tickwork.errors import FieldError, InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.ops.webhook_secret import rotate_signing_secret, signing_secrets
from tickwork.store.ids import new_id
from tickwork.testing import deliveries, harness
from tickwork.testing.deliveries import PlainBox

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
QUEUE = "tickwork.deliveries"
HOOK = "https://example.com/hook"
EMAIL = {
    "type": "email",
    "to": "ann@example.com",
    "subject": "Hello {{ payload.name }}",
    "text": "It is {{ slot }}, says {{ schedule.name }}.",
    "html": "<b>{{ payload.name }}</b>",
}
SLACK = {"type": "slack", "url": "https://10.0.0.1", "text": "x"}
CHANNELS: Any = {"type": "channels", "channels": [EMAIL, {"type": "webhook", "url": HOOK}]}
DAILY: Any = {"daily_time": "09:00", "payload": {"name": "<Ann>"}, "name": "morning"}


async def test_a_slot_becomes_a_signed_request_with_the_payload_as_its_body(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.create(**DAILY, target_url=HOOK)
        await h.advance(hours=1)
        (request,) = h.deliveries.webhooks
        keys = [
            secret_key(secret)
            for secret in await signing_secrets(acting(h.store, DEFAULT, box=PlainBox()))
        ]
        (record,) = [
            firing for firing in await app.schedules.firings("morning") if firing.finished_at
        ]
    assert (made.target, made.payload) == ({"type": "webhook", "url": HOOK}, {"name": "<Ann>"})
    assert (request.url, request.method, request.body) == (HOOK, "POST", b'{"name":"<Ann>"}')
    assert is_signed(keys, request.headers, request.body, NINE)
    shown = {name: request.headers[name] for name in request.headers if name[0] in "IT"}
    assert shown == {
        "Idempotency-Key": f"{without_prefix(made.id)}:2026-03-02T09:00:00Z",
        "Tickwork-Attempt": "1",
        "Tickwork-Fence": "1",
        "Tickwork-Schedule": made.id,
        "Tickwork-Slot": "2026-03-02T09:00:00Z",
    }
    assert (record.status, record.result_code, record.slot) == ("succeeded", 200, NINE)


async def test_a_failed_delivery_is_retried_with_the_same_ids_until_its_attempts_are_used_up(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        h.deliveries.answer = lambda _: 503
        await h.advance(hours=2)
        requests = h.deliveries.webhooks
        records = await app.schedules.firings("morning")
        shown = await app.schedules.get("morning")
        (dead,) = await app.dead_letters.list("tickwork.deliveries")
    assert len(requests) == 5
    assert len({request.headers["webhook-id"] for request in requests}) == 1
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1
    attempts = [request.headers["Tickwork-Attempt"] for request in requests]
    assert attempts == ["1", "2", "3", "4", "5"]
    timestamps = [int(request.headers["webhook-timestamp"]) for request in requests]
    waits = [after - before for before, after in pairwise(timestamps)]
    assert waits == [60, 180, 480, 1_080]
    finished = [record for record in records if record.finished_at is not None]
    assert [firing.status for firing in finished] == [
        "dead",
        "failed",
        "failed",
        "failed",
        "failed",
    ]
    assert (shown.last_status, shown.last_error) == ("dead", "the receiver answered 503")
    assert (dead.reason, dead.attempts) == ("max_retries", 5)


NOT_SUCCEEDED: dict[str, Delivery] = {
    **{
        str(status): answered(status, {}, "", START)
        for status in (301, 302, 307, 308, 400, 401, 404, 410, 422, 429, 500, 503)
    },
    **{
        str(kind): failed(kind, "no")
        for kind in (
            ErrorKind.CONNECT, ErrorKind.DNS, ErrorKind.REFUSED, ErrorKind.TIMEOUT, ErrorKind.TLS,
        )
    },
}  # fmt: skip
"""Answers after which a delivery of a schedule is tried again."""


async def test_only_a_2xx_is_a_success_and_everything_else_is_retried(
    app: Tickwork, database: str | None
) -> None:
    successes = [str(status) for status in (200, 201, 202, 204, 299)]

    def answer(request: WebhookRequest | EmailRequest) -> Delivery | int:
        assert isinstance(request, WebhookRequest)
        name = request.url.rpartition("/")[2]
        if name in successes:
            return int(name)
        return NOT_SUCCEEDED[name] if request.headers["Tickwork-Attempt"] == "1" else 200

    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = answer
        for name in (*successes, *NOT_SUCCEEDED):
            await app.schedules.create(
                name=name, once_at=NINE, target_url=f"https://{name}.example.com/{name}"
            )
        await h.advance(hours=1)
        times: dict[str, tuple[int, ...]] = {}
        for webhook in h.deliveries.webhooks:
            sent_at = int(webhook.headers["webhook-timestamp"]) - int(NINE.timestamp())
            name = webhook.url.rpartition("/")[2]
            times[name] = (*times.get(name, ()), sent_at)
        assert times == dict.fromkeys(successes, (0,)) | dict.fromkeys(NOT_SUCCEEDED, (0, 60))
        assert {schedule.last_status for schedule in await app.schedules.list()} == {"succeeded"}
        assert await app.dead_letters.list(QUEUE) == ()


async def test_every_retry_and_every_replay_of_a_slot_has_the_same_ids(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        made = await app.schedules.create(**DAILY, target=CHANNELS)
        h.deliveries.answer = lambda _: 503
        await h.advance(hours=2)
        for _ in range(2):
            await app.dead_letters.replay("tickwork.deliveries")
            await h.advance(hours=2)
        hooks, emails = [*h.deliveries.webhooks], [*h.deliveries.emails]
        await app.schedules.trigger(made.id)
        await h.drain()
        other = h.deliveries.webhooks[-1]
    assert (len(hooks), len(emails)) == (15, 15)
    for name in ("webhook-id", "Idempotency-Key"):
        (shown,) = {hook.headers[name] for hook in hooks}
        assert other.headers[name] != shown
    assert len({email.message_id for email in emails}) == 1


async def test_partial_success_advances_and_sends_nothing_again(
    app: Tickwork, database: str | None
) -> None:
    def answer(request: WebhookRequest | EmailRequest) -> int:
        return 500 if isinstance(request, WebhookRequest) else 250

    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=CHANNELS)
        h.deliveries.answer = answer
        await h.advance(hours=20)
        sent = len(h.deliveries.emails), len(h.deliveries.webhooks)
        shown = await app.schedules.get("morning")
        (record,) = [
            firing for firing in await app.schedules.firings("morning") if firing.finished_at
        ]
        email = h.deliveries.emails[0]
    assert sent == (1, 1)
    assert (shown.last_status, shown.last_error) == ("partial", "partial: webhook")
    assert shown.error_count == 0
    assert shown.next_fire_at == NINE + timedelta(days=1)
    outcomes = [(channel.channel, channel.status, channel.detail) for channel in record.channels]
    assert outcomes == [
        ("email", "succeeded", None),
        ("webhook", "failed", "the receiver answered 500"),
    ]
    assert (email.subject, email.html) == ("Hello <Ann>", "<b>&lt;Ann&gt;</b>")
    assert email.text == "It is 2026-03-02T09:00:00Z, says morning."


async def test_all_channels_failed_is_a_failure_and_retries_all(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=CHANNELS)
        answers: Iterator[int | str] = iter(["no route", "no route", 250, 200])
        h.deliveries.answer = lambda _: next(answers)
        await h.advance(hours=1)
        sent = len(h.deliveries.emails), len(h.deliveries.webhooks)
        shown = await app.schedules.get("morning")
    assert sent == (2, 2)
    assert (shown.last_status, shown.last_error, shown.error_count) == ("succeeded", None, 0)


async def test_a_receivers_wish_delays_the_retry_and_a_permanent_failure_ends_it(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        answers = iter(
            [
                Delivery(is_delivered=False, error="busy", retry_after_seconds=1_000.0),
                Delivery(is_delivered=False, error="it is wrong", is_permanent=True),
            ]
        )
        h.deliveries.answer = lambda _: next(answers)
        await h.advance(hours=2)
        first, second = h.deliveries.webhooks
        (dead,) = await app.dead_letters.list("tickwork.deliveries")
    at = [int(request.headers["webhook-timestamp"]) for request in (first, second)]
    assert at[1] - at[0] == 1_000
    assert (dead.reason, dead.error) == ("permanent", "it is wrong")


async def test_a_wish_that_is_shorter_than_the_backoff_does_not_shorten_it(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        h.deliveries.answer = lambda _: Delivery(
            is_delivered=False, error="busy", retry_after_seconds=1.0
        )
        await h.advance(hours=2)
        at = [int(webhook.headers["webhook-timestamp"]) for webhook in h.deliveries.webhooks]
    assert [after - before for before, after in pairwise(at)] == [60, 180, 480, 1_080]


async def test_a_text_without_its_value_is_permanent(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**(DAILY | {"payload": {}}), target=cast(Any, EMAIL))
        await h.advance(hours=1)
        assert h.deliveries.emails == []
        (dead,) = await app.dead_letters.list("tickwork.deliveries")
    assert dead.error == "there is no value for {{ payload.name }}"


async def test_a_dead_delivery_can_be_replayed(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK, retry={"max_attempts": 1})
        h.deliveries.answer = lambda _: 500
        await h.advance(hours=1)
        h.deliveries.answer = lambda _: 200
        await app.dead_letters.replay("tickwork.deliveries")
        await h.drain()
        first, second = h.deliveries.webhooks
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert (first.url, first.body) == (second.url, second.body)


async def test_a_slot_over_the_limit_of_its_host_waits_and_keeps_its_attempt(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "Limit", lambda: Limit(1.0, None))
    async with harness(app, database=database, start=START) as h:
        for number in range(3):
            await app.schedules.create(
                name=f"hook {number}", daily_time="09:00", target_url=f"{HOOK}/{number}"
            )
        await app.schedules.create(
            name="other", daily_time="09:00", target_url="https://other.example.com"
        )
        await h.advance(hours=1)
        sent = h.deliveries.webhooks
        records = await app.schedules.firings("hook 0", limit=100)
    assert len(sent) == 4
    assert {request.headers["Tickwork-Attempt"] for request in sent} == {"1"}
    nine = int(NINE.timestamp())
    at = [
        int(request.headers["webhook-timestamp"]) - nine for request in sent if HOOK in request.url
    ]
    assert at == [0, 1, 2]
    assert [record.status for record in records if record.finished_at] == ["succeeded"]
    (other,) = [request for request in sent if "other" in request.url]
    assert int(other.headers["webhook-timestamp"]) == nine


async def test_both_signatures_are_sent_while_a_secret_rotates(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        (old,) = await signing_secrets(acting(h.store, DEFAULT, box=PlainBox()))
        new = await rotate_signing_secret(acting(h.store, DEFAULT, box=PlainBox()))
        await app.schedules.create(**DAILY, target_url=HOOK)
        await h.advance(hours=1)
        (request,) = h.deliveries.webhooks
        assert [*await signing_secrets(acting(h.store, DEFAULT, box=PlainBox()))] == [new, old]
        await h.advance(days=1)
        assert [*await signing_secrets(acting(h.store, DEFAULT, box=PlainBox()))] == [new]
    for secret in (old, new):
        assert is_signed([secret_key(secret)], request.headers, request.body, NINE)


async def test_a_new_target_replaces_the_old_one_and_the_payload_stays(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=CHANNELS)
        changed = await app.schedules.update("morning", target_url="https://example.com/other")
        assert changed.target == {"type": "webhook", "url": "https://example.com/other"}
        assert changed.payload == {"name": "<Ann>"}
        await h.advance(hours=1)
        assert [webhook.url for webhook in h.deliveries.webhooks] == ["https://example.com/other"]


async def test_the_hidden_queue_is_not_listed(app: Tickwork, database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target_url=HOOK)
        assert "tickwork.deliveries" not in [queue.name for queue in await app.queues.list()]
        assert (await h.store.queues.get(SYSTEM, "tickwork.deliveries")).tenant is None


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"type": "webhook", "url": "http://example.com"}, "target.url"),
        ({"type": "webhook", "url": "https://127.0.0.1/"}, "target.url"),
        ({"type": "webhook", "url": HOOK, "headers": {"Host": "x"}}, "target.headers.Host"),
        ({"type": "email", "to": "ann", "subject": "x", "text": "x"}, "target.to[0]"),
        ({"type": "slack", "url": HOOK, "text": "{{ foo }}"}, "target.text"),
        ({"type": "telegram", "url": HOOK, "text": "x"}, "target.chat_id"),
        ({"type": "channels", "channels": []}, "target.channels"),
        ({"type": "channels", "channels": [SLACK]}, "target.channels[0].url"),
        ({"type": "workflow", "workflow": "content"}, "target.workflow"),
    ],
)  # fmt: skip
async def test_a_target_that_can_never_be_reached_is_refused(
    app: Tickwork, database: str | None, target: Any, field: str
) -> None:
    async with harness(app, database=database, start=START):
        with pytest.raises(InvalidInput) as refused:
            await app.schedules.create(**DAILY, target=target)
    assert field in [error.field for error in refused.value.errors]


class NoBox(PlainBox):
    """The box of a node without a key."""

    is_missing = True

    def __init__(self) -> None:
        if self.is_missing:
            raise InvalidInput([FieldError("TICKWORK_SECRET_KEY", "is missing")])


@pytest.mark.one_store("sqlite")
async def test_without_a_key_webhooks_wait_and_email_is_sent(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "PlainBox", NoBox)
    async with harness(app, database=database, start=START) as h:
        await app.schedules.create(**DAILY, target=cast("Any", EMAIL))
        await app.schedules.create(**{**DAILY, "name": "hook"}, target_url=HOOK)
        await h.advance(hours=2)
        assert (len(h.deliveries.emails), h.deliveries.webhooks) == (1, [])
        monkeypatch.setattr(NoBox, "is_missing", False)
        await h.advance(minutes=2)
        (request,) = h.deliveries.webhooks
    assert request.headers["Tickwork-Attempt"] == "1"


@pytest.mark.parametrize("target", [EMAIL, CHANNELS])
async def test_email_is_off_for_every_tenant_but_the_default_one(
    database: str | None, target: Any
) -> None:
    app, several = Tickwork(tenant="acme"), cast("Any", [{**DAILY, "target": target}])
    async with harness(app, database=database, start=START) as h:
        for call in (
            app.schedules.create(**DAILY, target=target),
            app.schedules.create_many(several),
            app.alerts.set(email="ops@example.com"),
        ):
            with pytest.raises(
                InvalidInput,
                match="email is off for the tenant acme, because it has no daily quota",
            ):
                await call
        made = await app.schedules.create(**DAILY, target_url=HOOK)
        with pytest.raises(InvalidInput, match="email is off"):
            await app.schedules.update(made.id, target=target)
        await h.advance(hours=1)
        assert len(h.deliveries.webhooks) == 1


async def test_an_email_beyond_the_daily_quota_is_sent_on_the_next_day(
    database: str | None,
) -> None:
    app = Tickwork(tenant="acme")
    async with harness(app, database=database, start=START) as h:
        await h.store.tenants.put(SYSTEM, Tenant(id="acme", emails_per_day=3))
        to_two: Any = {**EMAIL, "to": ["ann@example.com", "bob@example.com"]}
        for name in ("first", "second"):
            await app.schedules.create(
                once_at="2026-03-02T09:00:00Z", payload={"name": "Ann"}, name=name, target=to_two
            )
        await h.advance(hours=1)
        (sent,) = h.deliveries.emails
        errors = [(await app.schedules.get(name)).last_error for name in ("first", "second")]
        (error,) = [error for error in errors if error is not None]
        assert error.startswith("quota: the tenant acme may send 3 emails a day")
        await h.advance(hours=14)  # It is 23:30.
        assert h.deliveries.emails == [sent]
        await h.advance(minutes=31)
        _, late = h.deliveries.emails
        after = [(await app.schedules.get(name)).status for name in ("first", "second")]
    assert late.to == sent.to
    assert after == ["completed", "completed"]


async def test_an_email_that_was_not_sent_does_not_count(database: str | None) -> None:
    app = Tickwork(tenant="acme")
    async with harness(app, database=database, start=START) as h:
        await h.store.tenants.put(SYSTEM, Tenant(id="acme", emails_per_day=1))
        h.deliveries.answer = lambda _: "the relay refused the connection"
        await app.schedules.create(**DAILY, target=cast("Any", EMAIL))
        await h.advance(minutes=31)
        h.deliveries.answer = lambda _: 200
        await h.advance(minutes=5)
        assert (await app.schedules.get("morning")).last_status == "succeeded"
        assert await h.store.tenants.take_emails(Scope("acme"), 1) is None


async def test_an_email_of_another_tenant_that_is_stored_is_not_sent(
    app: Tickwork, database: str | None
) -> None:
    async with harness(app, database=database, start=START) as h:
        await h.store.tenants.put(SYSTEM, Tenant(id="acme"))
        body = b'{"target":{"type":"email","to":["a@b.c"],"subject":"s","text":"t"}}'
        scope = Scope("acme")
        await h.store.messages.send(scope, QUEUE, NewMessage(id=new_id(), body=body))
        await h.drain()
        (dead,) = (await h.store.dead_letters.list(scope, QUEUE, Selection(limit=10))).letters
        assert h.deliveries.emails == []
    assert (dead.reason, dead.attempts) == ("permanent", 1)
    assert (dead.error or "").startswith("email is off for the tenant acme")
