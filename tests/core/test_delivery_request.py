"""Requests of deliveries, and what follows from the results of all channels."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.core.messages import NOON, claimed_message
from tickwork.core.delivery.channels import outcome_of
from tickwork.core.delivery.outcome import Delivery, ErrorKind, failed
from tickwork.core.delivery.request import (
    SentSlot,
    chat_request,
    delivery_id,
    email_request,
    read_delivery_id,
    sent_slot,
    values_of,
    webhook_request,
)
from tickwork.core.delivery.target import (
    CHAT_UNITS_MAX,
    CHATS,
    ChatTarget,
    EmailTarget,
    WebhookTarget,
)
from tickwork.core.delivery.templates import NotFilled
from tickwork.core.message.outcome import Delivered, Failed, Permanent, Succeeded
from tickwork.core.model import Message
from tickwork.core.schedule.firing import ChannelOutcome

SENT = Delivery(is_delivered=True, code=200, excerpt="ok")
DOWN = Delivery(
    is_delivered=False, kind=ErrorKind.HTTP, error="answered 503", code=503, excerpt="busy"
)
SLOW = structs.replace(DOWN, retry_after_seconds=60.0)
SLOWER = structs.replace(DOWN, retry_after_seconds=600.0)
NEVER = failed(ErrorKind.PAYLOAD, "no value", is_permanent=True)
KEY = b"k" * 32


def slot_message(**fields: Any) -> Message:
    return claimed_message(schedule_id=UUID(int=7), slot=NOON, **fields)


def hook(message: Message, channel: str = "webhook", **fields: Any) -> Any:
    return webhook_request(
        WebhookTarget("https://example.com", **fields),
        {"a": 1},
        message,
        channel,
        keys=[KEY],
        sent_at=NOON,
        timeout_seconds=5.0,
    )


def test_one_channel_that_was_delivered_succeeds() -> None:
    assert outcome_of({"webhook": SENT}) == Delivered(Succeeded(), 200, "ok")


def test_one_channel_that_failed_is_retried() -> None:
    assert outcome_of({"webhook": DOWN}) == Delivered(Failed("answered 503"), 503, "busy")


def test_all_channels_delivered_succeed() -> None:
    channels = (ChannelOutcome("a", "succeeded", "ok"), ChannelOutcome("b", "succeeded", "ok"))
    assert outcome_of({"a": SENT, "b": SENT}) == Delivered(Succeeded(), channels=channels)


def test_some_channels_that_failed_are_named_and_the_message_is_done() -> None:
    result = outcome_of({"a": SENT, "b": SLOW, "c": NEVER})
    assert (result.outcome, result.failed) == (Succeeded(), ("b", "c"))
    assert [channel.status for channel in result.channels] == ["succeeded", "failed", "failed"]
    assert [channel.detail for channel in result.channels] == ["ok", "answered 503", "no value"]


def test_all_channels_that_failed_are_retried_with_all_errors() -> None:
    result = outcome_of({"a": DOWN, "b": NEVER})
    assert result.outcome == Failed("a: answered 503; b: no value")
    assert result.failed == ()
    assert len(result.channels) == 2


def test_a_failure_is_permanent_only_if_every_channel_is() -> None:
    assert outcome_of({"a": NEVER}).outcome == Permanent("no value")
    assert isinstance(outcome_of({"a": NEVER, "b": NEVER}).outcome, Permanent)
    assert isinstance(outcome_of({"a": NEVER, "b": DOWN}).outcome, Failed)


def test_the_longest_retry_after_counts() -> None:
    result = outcome_of({"a": SLOW, "b": SLOWER, "c": DOWN, "d": NEVER}).outcome
    assert isinstance(result, Failed)
    assert result.at_least_seconds == 600.0


@given(st.lists(st.sampled_from([SENT, DOWN, SLOW, SLOWER, NEVER]), min_size=1, max_size=5))
def test_a_message_is_retried_only_if_nothing_was_delivered(results: list[Delivery]) -> None:
    named = {f"c{at}": delivery for at, delivery in enumerate(results)}
    result = outcome_of(named)
    is_done = any(delivery.is_delivered for delivery in results)
    assert isinstance(result.outcome, Succeeded) == is_done
    missed = tuple(name for name, value in named.items() if not value.is_delivered)
    assert result.failed == (missed if is_done else ())
    assert [channel.channel for channel in result.channels] == ([*named] if len(named) > 1 else [])


def test_the_id_and_the_key_are_the_same_for_every_attempt() -> None:
    first, third = hook(slot_message()), hook(slot_message(attempts=2, claim=5))
    for name in ("webhook-id", "Idempotency-Key", "Tickwork-Slot", "Tickwork-Schedule"):
        assert first.headers[name] == third.headers[name]
    assert [request.headers["Tickwork-Attempt"] for request in (first, third)] == ["1", "3"]
    assert [request.headers["Tickwork-Fence"] for request in (first, third)] == ["1", "5"]
    assert first.headers["Tickwork-Slot"] == "2026-01-05T12:00:00Z"


@given(
    st.uuids(version=4),
    st.datetimes(datetime(1970, 1, 1), datetime(8999, 12, 31)),  # noqa: DTZ001
    st.integers(0, 9),
    st.none() | st.text(max_size=9),
    st.sampled_from(["webhook", "webhook[1]", "email"]),
)
def test_the_id_names_its_slot_also_that_of_a_replay(
    schedule_id: UUID, slot: datetime, run: int, base: str | None, channel: str
) -> None:
    slot = slot.replace(tzinfo=UTC)
    named = {"schedule_id": schedule_id, "slot": slot}
    first = claimed_message(**named, run=run, idempotency_base=base)
    given = delivery_id(first, channel)
    assert read_delivery_id(given) == SentSlot(schedule_id, slot, run) == sent_slot(first)
    assert read_delivery_id(f"<{given}@example.com>") == sent_slot(first)
    replay = claimed_message(**named, run=run + 1, idempotency_base=first.idempotency_key)
    assert delivery_id(replay, channel) == given


@pytest.mark.parametrize("text", ["msg_1", f"msg_{'0' * 32}", f"msg_{'0' * 32}{'f' * 16}", "x"])
def test_another_id_names_no_slot(text: str) -> None:
    assert read_delivery_id(text) is None
    assert read_delivery_id(delivery_id(claimed_message(), "webhook")) is None


def test_a_catch_up_says_so() -> None:
    assert "Tickwork-Catch-Up" not in hook(slot_message()).headers
    assert hook(slot_message(catch_up=True)).headers["Tickwork-Catch-Up"] == "true"


def test_a_key_that_no_header_can_hold_is_percent_encoded() -> None:
    headers = hook(slot_message(idempotency_base="Größe\r\nX: y")).headers
    assert headers["Idempotency-Key"].startswith("Gr%C3%B6%C3%9Fe%0D%0AX:%20y:")


def test_a_message_without_a_schedule_has_its_id_as_key() -> None:
    headers = hook(claimed_message()).headers
    assert headers["Idempotency-Key"] == str(UUID(int=1))
    assert not {"Tickwork-Slot", "Tickwork-Schedule"} & {*headers}


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
def test_a_content_type_of_the_user_replaces_ours_in_any_case(name: str) -> None:
    headers = hook(slot_message(), headers={name: "text/x"}).headers
    assert [header for header in headers if header.lower() == "content-type"] == [name]
    assert headers[name] == "text/x"


def test_a_get_has_no_body() -> None:
    assert hook(slot_message(), method="GET").body == b""
    assert hook(slot_message(), method="PUT").body == b'{"a":1}'


def test_channels_of_one_type_have_ids_of_their_own_in_plain_ascii() -> None:
    ids = {delivery_id(slot_message(), name) for name in ("webhook", "webhook[0]", "webhook[1]")}
    assert len(ids) == 3
    assert all(id_.isascii() and "[" not in id_ for id_ in ids)


@pytest.mark.parametrize(
    ("service", "body"),
    [
        ("slack", {"text": "Hi Ada"}),
        ("discord", {"content": "Hi Ada"}),
        ("telegram", {"chat_id": "7", "text": "Hi Ada"}),
    ],
)
def test_a_chat_message_has_the_form_of_its_service(service: str, body: dict[str, str]) -> None:
    target = ChatTarget(service, "https://example.com", "Hi {{ payload.name }}", "7")
    values = values_of({"name": "Ada"}, slot_message(), None)
    request = chat_request(target, values, timeout_seconds=3.0)
    assert msgspec.json.decode(request.body) == body
    assert "webhook-signature" not in request.headers


@pytest.mark.parametrize("service", CHATS)
@pytest.mark.parametrize("letter", ["x", "é", "🎉"])
def test_a_chat_message_has_at_most_the_length_that_its_service_takes(
    service: str, letter: str
) -> None:
    most = CHAT_UNITS_MAX[service]
    target = ChatTarget(service, "https://example.com", "{{ payload }}", "7")
    for text in (letter * most, "x" + letter * most):
        request = chat_request(target, {"payload": text}, timeout_seconds=3.0)
        body = msgspec.json.decode(request.body)
        sent = body["content" if service == "discord" else "text"]
        units = len(sent.encode("utf-16-le")) // 2
        if len(text.encode("utf-16-le")) // 2 <= most:
            assert sent == text
        else:
            assert most - 1 <= units <= most
            assert sent.endswith("…")
            assert text.startswith(sent[:-1])


def mail(target: EmailTarget, payload: Any, sender: str = "Tickwork <t@example.com>") -> Any:
    message = slot_message()
    return email_request(
        target,
        values_of(payload, message, "daily"),
        message,
        "email",
        sender=sender,
        sent_at=NOON,
        timeout_seconds=3.0,
    )


def test_the_subject_of_an_email_is_one_line_whatever_the_payload_is() -> None:
    target = EmailTarget(("a@b.c",), "Hi {{ payload.name }}", "{{ slot }} {{ schedule.name }}")
    request = mail(target, {"name": "Ada\r\nBcc: evil@example.com\u2028x"})
    assert request.subject == "Hi Ada Bcc: evil@example.com x"
    assert request.text == "2026-01-05T12:00:00Z daily"


def test_values_are_escaped_in_the_html_of_an_email_only() -> None:
    target = EmailTarget(("a@b.c",), "s", "{{ payload }}", "<b>{{ payload }}</b>")
    request = mail(target, "<i>")
    assert (request.text, request.html) == ("<i>", "<b>&lt;i&gt;</b>")


def test_an_email_whose_value_is_missing_is_not_built() -> None:
    with pytest.raises(NotFilled):
        mail(EmailTarget(("a@b.c",), "{{ payload.x }}", "text"), {})


@pytest.mark.parametrize(
    ("sender", "domain"), [("Tickwork <t@x.example>", "x.example"), ("t@x.example", "x.example")]
)
def test_the_id_of_an_email_has_the_domain_of_its_sender(sender: str, domain: str) -> None:
    target = EmailTarget(("a@b.c",), "s", "t")
    first, second = mail(target, 1, sender), mail(target, 1, sender)
    expected = f"<{delivery_id(slot_message(), 'email')}@{domain}>"
    assert first.message_id == second.message_id == expected


def test_the_subject_of_an_email_has_a_limit_with_its_values() -> None:
    target = EmailTarget(("a@b.c",), "{{ payload.name }}", "text")
    with pytest.raises(NotFilled, match="more than 998 characters"):
        email_request(
            target, values_of({"name": "x" * 999}, slot_message(), None), slot_message(), "email",
            sender="shop@example.com", sent_at=NOON, timeout_seconds=5.0,
        )  # fmt: skip


def test_a_request_knows_the_secrets_that_its_receiver_may_repeat() -> None:
    own = {"Authorization": "Basic c2VjcmV0", "Accept": "text/html"}
    assert hook(slot_message(), headers=own).secrets == {"c2VjcmV0", "secret"}
    asked = webhook_request(
        WebhookTarget("https://example.com/in?a=abcd&b=e%2Ffg"), None, slot_message(), "webhook",
        keys=[KEY], sent_at=NOON, timeout_seconds=5.0,
    )  # fmt: skip
    assert asked.secrets == {"abcd", "e%2Ffg", "e/fg"}
    slack = ChatTarget("slack", "https://hooks.slack.com/services/T0AB/B0CD/secret", "hi")
    assert chat_request(slack, {}, timeout_seconds=5.0).secrets == {"T0AB", "B0CD", "secret"}
