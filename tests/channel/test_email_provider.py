"""Email over HTTP, received by a real local server: what each provider is sent, and its answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.channel.receiver import Receiver, receiver
from tests.core.messages import NOON
from tickwork.channel.channels import EmailSink
from tickwork.core.delivery.email_provider import PROVIDERS
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.delivery.request import EmailRequest
from tickwork.errors import InvalidInput
from tickwork.settings import EMAIL_PROVIDERS, Settings
from tickwork.wiring.deliveries import email_sink

KEY = "key-0123456789"
FROM = "Shop <shop@example.com>"
GENERIC: Any = {"email_provider": "http", "email_key": KEY, "email_from": FROM}
RELAY = "smtp://mail.example.com"
ID = "msg_1@example.com"
TO, SUBJECT = ["ada@example.com", "bob@example.com"], "Hello"

SENT: dict[str, dict[str, Any]] = {
    "http": {
        "from": FROM,
        "to": TO,
        "subject": SUBJECT,
        "text": "Hi",
        "html": "<b>Hi</b>",
        "message_id": f"<{ID}>",
    },
    "resend": {
        "from": FROM,
        "to": TO,
        "subject": SUBJECT,
        "text": "Hi",
        "html": "<b>Hi</b>",
        "headers": {"Message-ID": f"<{ID}>"},
    },
    "postmark": {
        "From": FROM,
        "To": "ada@example.com, bob@example.com",
        "Subject": SUBJECT,
        "TextBody": "Hi",
        "HtmlBody": "<b>Hi</b>",
        "Headers": [
            {"Name": "Message-ID", "Value": f"<{ID}>"},
            {"Name": "X-PM-KeepID", "Value": "true"},
        ],
    },
    "sendgrid": {
        "personalizations": [{"to": [{"email": address} for address in TO]}],
        "from": {"email": "shop@example.com", "name": "Shop"},
        "subject": SUBJECT,
        "content": [
            {"type": "text/plain", "value": "Hi"},
            {"type": "text/html", "value": "<b>Hi</b>"},
        ],
        "custom_args": {"message_id": f"<{ID}>"},
    },
}
KEY_HEADERS = dict.fromkeys(SENT, ("Authorization", f"Bearer {KEY}"))
KEY_HEADERS["postmark"] = ("X-Postmark-Server-Token", KEY)


def an_email(**fields: Any) -> EmailRequest:
    values = {
        "sender": FROM,
        "to": TO,
        "subject": SUBJECT,
        "text": "Hi",
        "html": "<b>Hi</b>",
        "message_id": f"<{ID}>",
        "sent_at": NOON,
        "timeout_seconds": 30.0,
    }
    return EmailRequest(**{**values, **fields})


@asynccontextmanager
async def provided(name: str = "http") -> AsyncIterator[tuple[Receiver, EmailSink]]:
    """A local server in the place of a provider. No target is allowed: its address is a setting."""
    async with receiver() as server:
        url = f"{server.url}/send"
        sink = email_sink(
            Settings(email_provider=name, email_from=FROM, email_key=KEY, email_url=url)
        )
        assert sink is not None
        yield server, sink
        await sink.close()


def test_the_setting_knows_every_provider() -> None:
    assert ("smtp", *PROVIDERS) == EMAIL_PROVIDERS
    assert SENT.keys() == PROVIDERS.keys()


@pytest.mark.parametrize("name", SENT)
async def test_a_provider_gets_an_email_in_its_own_form(name: str) -> None:
    async with provided(name) as (server, sink):
        result = await sink.deliver(an_email())
        ((request, body),) = server.requests
    assert (result.is_delivered, result.code, result.error) == (True, 200, None)
    assert (request.method, request.path) == ("POST", "/send")
    assert msgspec.json.decode(body) == SENT[name]
    header, value = KEY_HEADERS[name]
    assert request.headers[header] == value
    assert request.headers["Idempotency-Key"] == ID
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("name", SENT)
@pytest.mark.parametrize(("text", "html"), [("Hi", None), (None, "<b>Hi</b>")])
async def test_a_part_that_an_email_does_not_have_is_left_out(
    name: str, text: str | None, html: str | None
) -> None:
    async with provided(name) as (server, sink):
        await sink.deliver(an_email(text=text, html=html, sender="shop@example.com"))
        ((_, body),) = server.requests
    assert b"null" not in body
    assert (b'"Hi"' in body) == (text is not None)
    assert (b"<b>Hi</b>" in body) == (html is not None)
    if name == "sendgrid":
        assert msgspec.json.decode(body)["from"] == {"email": "shop@example.com"}


async def test_every_attempt_has_the_same_key_and_body() -> None:
    async with provided("resend") as (server, sink):
        server.answer = lambda: web.Response(status=500)
        for _ in range(2):
            assert not (await sink.deliver(an_email())).is_delivered
        (first, body), (second, again) = server.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert body == again


@pytest.mark.parametrize("status", [302, 401, 403, 404, 422, 429, 500])
async def test_everything_but_a_success_is_tried_again(status: int) -> None:
    async with provided() as (server, sink):
        headers = {"Retry-After": "7", "Location": "https://example.com"}
        text = f"no such thing as {KEY}"
        server.answer = lambda: web.Response(status=status, text=text, headers=headers)
        result = await sink.deliver(an_email())
        assert len(server.requests) == 1
    assert (result.is_delivered, result.is_permanent, result.code) == (False, False, status)
    assert result.error == f"the email provider answered {status}: no such thing as ***"
    assert result.retry_after_seconds == 7.0
    assert KEY not in str(result)


async def test_the_key_is_not_in_the_excerpt_of_a_success() -> None:
    async with provided() as (server, sink):
        server.answer = lambda: web.Response(text=f"id 1 {KEY}")
        assert (await sink.deliver(an_email())).excerpt == "id 1 ***"


async def test_a_provider_that_does_not_answer_ends_in_time() -> None:
    async with provided() as (server, _):
        url = f"{server.url}/hang"
        sink = email_sink(Settings(email_url=url, **GENERIC))
        assert sink is not None
        async with asyncio.timeout(20):
            result = await sink.deliver(an_email(timeout_seconds=0.2))
        await sink.close()
    assert (result.kind, result.is_delivered) == (ErrorKind.TIMEOUT, False)


async def test_nothing_is_sent_without_a_provider() -> None:
    assert email_sink(Settings()) is None
    async with receiver() as server:
        url = server.url
    sink = email_sink(Settings(email_url=url, **GENERIC))
    assert sink is not None
    result = await sink.deliver(an_email())
    await sink.close()
    assert (result.kind, result.is_delivered) == (ErrorKind.CONNECT, False)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"email_provider": "resend"}, "TICKWORK_EMAIL_KEY"),
        ({**GENERIC}, "TICKWORK_EMAIL_URL"),
        (
            {**GENERIC, "email_url": "ftp://a"},
            "TICKWORK_EMAIL_URL",
        ),
        (
            {**GENERIC, "email_url": "http://["},
            "TICKWORK_EMAIL_URL",
        ),
        ({"email_provider": "smtp"}, "TICKWORK_SMTP_URL"),
        ({"smtp_url": RELAY}, "TICKWORK_EMAIL_FROM"),
        ({"smtp_url": RELAY, "email_provider": "smtp"}, "TICKWORK_EMAIL_FROM"),
        ({"email_provider": "resend", "email_key": KEY}, "TICKWORK_EMAIL_FROM"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(fields: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        email_sink(Settings(**fields))
    assert [error.field for error in raised.value.errors] == [field]


def test_the_address_of_a_named_provider_is_known() -> None:
    for name in ("resend", "postmark", "sendgrid"):
        assert email_sink(Settings(email_provider=name, email_from=FROM, email_key=KEY)) is not None
