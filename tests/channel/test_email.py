"""Email through a real SMTP server: what arrives, and relays that refuse or hang."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from email.message import EmailMessage
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult

from tests.channel.mail_server import Mailbox, mail_server
from tests.channel.receiver import certificate_context
from tests.core.messages import NOON
from tickwork.channel.email import EmailChannel
from tickwork.channel.relay import Relay
from tickwork.core.delivery.outcome import Delivery, ErrorKind
from tickwork.core.delivery.pace import EMAIL_CONCURRENCY
from tickwork.core.delivery.request import EmailRequest
from tickwork.errors import InvalidInput

SHORT, GENEROUS = 0.3, 30.0
"""Seconds of a timeout that a test waits for, and of one that it never reaches."""

MESSAGE_ID = "<msg_1@example.com>"


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def channel(mailbox: Mailbox) -> Iterator[EmailChannel]:
    """A channel whose relay is a real server in a thread."""
    with mail_server(mailbox) as port:
        yield EmailChannel(Relay("127.0.0.1", port))


def an_email(**fields: Any) -> EmailRequest:
    values = {
        "sender": "Tickwork <t@example.com>",
        "to": ["ada@example.com"],
        "subject": "Hello",
        "text": "Good morning",
        "message_id": MESSAGE_ID,
        "sent_at": NOON,
        "timeout_seconds": GENEROUS,
    }
    return EmailRequest(**{**values, **fields})


async def bounded(channel: EmailChannel, request: EmailRequest) -> Delivery:
    """Sends an email, and leaves no connection."""
    async with asyncio.timeout(GENEROUS):
        result = await channel.deliver(request)
        await channel.close()
    return result


@asynccontextmanager
async def hanging(*answers: bytes) -> AsyncIterator[EmailChannel]:
    """A channel whose relay gives these answers, one for each line, and then none."""
    writers: list[asyncio.StreamWriter] = []

    async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        for answer in answers:
            writer.write(answer)
            await reader.readline()
        await reader.read()

    server = await asyncio.start_server(called, "127.0.0.1", 0)
    try:
        yield EmailChannel(Relay("127.0.0.1", server.sockets[0].getsockname()[1]))
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


def parts_of(email: EmailMessage) -> dict[str, str]:
    return {
        node.get_content_type(): node.get_content().replace("\r\n", "\n").strip()
        for node in email.walk()
        if not node.is_multipart()
    }


async def test_an_email_arrives_with_text_and_html(channel: EmailChannel, mailbox: Mailbox) -> None:
    to = ["ada@example.com", "bob@example.com"]
    result = await bounded(channel, an_email(to=to, html="<p>Grüße</p>", text="Grüße\n.\nEnde"))
    assert (result.is_delivered, result.code, result.excerpt) == (True, 250, "accepted as 17")
    (email,), (envelope,) = mailbox.emails, mailbox.envelopes
    assert (envelope.mail_from, envelope.rcpt_tos) == ("t@example.com", to)
    assert parts_of(email) == {"text/plain": "Grüße\n.\nEnde", "text/html": "<p>Grüße</p>"}
    assert email["From"] == "Tickwork <t@example.com>"
    assert email["To"] == ", ".join(to)
    assert email["Date"].datetime == NOON


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        ({"text": "a"}, {"text/plain": "a"}),
        ({"text": None, "html": "<p>"}, {"text/html": "<p>"}),
        ({"text": None}, {"text/plain": ""}),
    ],
)
async def test_an_email_has_the_parts_that_were_given(
    channel: EmailChannel, mailbox: Mailbox, texts: dict[str, str], parts: dict[str, str]
) -> None:
    assert (await bounded(channel, an_email(**texts))).is_delivered
    assert parts_of(mailbox.emails[0]) == parts


async def test_a_repeated_email_has_the_same_id(channel: EmailChannel, mailbox: Mailbox) -> None:
    for _ in range(2):
        await bounded(channel, an_email())
    assert [email["Message-ID"] for email in mailbox.emails] == [MESSAGE_ID] * 2


@pytest.mark.parametrize("subject", ["Grüße 日本 🎉", "x" * 998, "word " * 99 + "end", "ä" * 500])
async def test_any_subject_arrives_as_it_was_given(
    channel: EmailChannel, mailbox: Mailbox, subject: str
) -> None:
    assert (await bounded(channel, an_email(subject=subject))).is_delivered
    assert mailbox.emails[0]["Subject"] == subject


async def test_an_address_beyond_ascii_arrives(channel: EmailChannel, mailbox: Mailbox) -> None:
    assert (await bounded(channel, an_email(to=["jürgen@example.com"]))).is_delivered
    assert mailbox.envelopes[0].rcpt_tos == ["jürgen@example.com"]


@pytest.mark.parametrize(
    ("command", "answer", "is_permanent"),
    [
        ("ada@example.com", "550 5.1.1 no such user", True),
        ("ada@example.com", "451 4.7.1 greylisted", False),
        ("MAIL", "553 not from you", True),
        ("MAIL", "421 too busy", False),
        ("DATA", "554 spam", True),
        ("DATA", "452 no space, password=abc", False),
    ],
)
async def test_a_refusal_with_5xx_is_permanent_and_one_with_4xx_is_not(
    channel: EmailChannel, mailbox: Mailbox, command: str, answer: str, is_permanent: bool
) -> None:
    mailbox.answers[command] = answer
    result = await bounded(channel, an_email())
    assert (result.is_delivered, result.kind) == (False, ErrorKind.SMTP)
    assert (result.code, result.is_permanent) == (int(answer[:3]), is_permanent)
    assert answer[4:12] in str(result.error)
    assert "abc" not in str(result.error)
    assert mailbox.envelopes == []


async def test_an_email_that_some_recipients_got_is_delivered(
    channel: EmailChannel, mailbox: Mailbox
) -> None:
    mailbox.answers["bob@example.com"] = "550 no such user"
    result = await bounded(channel, an_email(to=["ada@example.com", "bob@example.com"]))
    assert result.is_delivered
    assert result.excerpt == "accepted as 17; refused: bob@example.com: no such user"
    assert mailbox.envelopes[0].rcpt_tos == ["ada@example.com"]


@pytest.mark.parametrize("late", ["ada@example.com", "bob@example.com"])
async def test_a_refusal_of_all_is_permanent_only_if_each_one_is(
    channel: EmailChannel, mailbox: Mailbox, late: str
) -> None:
    to = ["ada@example.com", "bob@example.com"]
    mailbox.answers = {**dict.fromkeys(to, "550 no such user"), late: "451 later"}
    result = await bounded(channel, an_email(to=to))
    assert (result.is_delivered, result.is_permanent, result.code) == (False, False, 451)


class _Logins:
    """Accepts every login of a relay, and keeps it."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes]] = []

    def __call__(self, *given: Any) -> AuthResult:
        _, _, _, _, data = given
        self.seen.append((data.login, data.password))
        return AuthResult(success=True)


LOGIN = ("ada", "open sesame")
OWN_ADDRESS = "0.0.0.0"  # noqa: S104
"""Reaches this machine, and is no loopback address."""


@pytest.mark.parametrize(
    ("host", "is_sent"), [(OWN_ADDRESS, False), ("127.0.0.1", True), ("localhost", True)]
)
async def test_a_password_is_sent_in_clear_text_only_to_this_machine(
    mailbox: Mailbox, host: str, is_sent: bool
) -> None:
    logins = _Logins()
    with mail_server(mailbox, authenticator=logins, auth_require_tls=False) as port:
        result = await bounded(EmailChannel(Relay(host, port, *LOGIN)), an_email())
    assert (result.is_delivered, len(mailbox.envelopes), len(logins.seen)) == (is_sent,) * 3
    if not is_sent:
        assert (result.kind, result.is_permanent) == (ErrorKind.TLS, False)
        assert str(result.error).startswith("the relay offers no STARTTLS, so the password was not")


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_a_password_is_sent_over_starttls_if_the_certificate_is_valid(
    mailbox: Mailbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    context, pem = certificate_context(tmp_path, host=OWN_ADDRESS)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    logins = _Logins()
    with mail_server(mailbox, authenticator=logins, tls_context=context) as port:
        result = await bounded(EmailChannel(Relay(OWN_ADDRESS, port, *LOGIN)), an_email())
    assert (result.is_delivered, len(mailbox.envelopes)) == (is_trusted, is_trusted)
    assert logins.seen == [tuple(credential.encode() for credential in LOGIN)] * is_trusted
    assert result.kind == (None if is_trusted else ErrorKind.TLS)


async def test_a_relay_that_is_down_is_a_failed_connection() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    result = await bounded(EmailChannel(Relay("127.0.0.1", port)), an_email())
    assert (result.is_delivered, result.kind) == (False, ErrorKind.CONNECT)
    assert not result.is_permanent


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (b"220 hi\r\n",),
        (b"220 hi\r\n", b"250 hi\r\n", b"250 OK\r\n"),
        (b"220 hi\r\n", b"250 hi\r\n", b"250 OK\r\n", b"250 OK\r\n"),
    ],
)
async def test_a_relay_that_stops_answering_times_out(answers: tuple[bytes, ...]) -> None:
    async with hanging(*answers) as channel:
        result = await bounded(channel, an_email(timeout_seconds=SHORT))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.TIMEOUT)
    assert result.error == "not sent within 0.3 s"


@pytest.mark.parametrize(
    "answers", [(b"554 go away\r\n",), (b"220 hi\r\n", b"550 no\r\n", b"550 no\r\n")]
)
async def test_a_relay_that_refuses_us_and_not_the_email_is_no_permanent_failure(
    answers: tuple[bytes, ...],
) -> None:
    async with hanging(*answers) as channel:
        result = await bounded(channel, an_email())
    assert (result.is_delivered, result.is_permanent) == (False, False)


@pytest.mark.parametrize(
    "noise", [b"\0\xff\r\n", b"HTTP/1.1 400 Bad\r\n", b"x" * 100_000 + b"\r\n"]
)
async def test_what_does_not_speak_smtp_is_a_failure_that_is_retried(noise: bytes) -> None:
    async with hanging(noise) as channel:
        result = await bounded(channel, an_email(timeout_seconds=SHORT))
    assert (result.is_delivered, result.is_permanent) == (False, False)
    assert result.error
    assert "\0" not in result.error


async def test_an_email_that_the_relay_accepted_is_delivered_even_if_it_does_not_say_goodbye(
    channel: EmailChannel, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(SMTP, "smtp_QUIT", silent)
    result = await bounded(channel, an_email(timeout_seconds=GENEROUS))
    assert result.is_delivered
    assert len(mailbox.envelopes) == 1


async def test_the_timeout_of_an_email_begins_when_a_connection_is_free() -> None:
    number = 25
    async with hanging() as channel:
        requests = [channel.deliver(an_email(timeout_seconds=SHORT)) for _ in range(number)]
        started_at = monotonic()
        async with asyncio.timeout(GENEROUS):
            results = await asyncio.gather(*requests)
    assert {result.kind for result in results} == {ErrorKind.TIMEOUT}
    assert monotonic() - started_at >= SHORT * ceil(number / EMAIL_CONCURRENCY)
    assert max(result.took_seconds for result in results) < GENEROUS / 3


class _Connections:
    """Counts the connections to a relay, and the emails over each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.emails: list[int] = []
        own_made, own_mail = SMTP.connection_made, SMTP.smtp_MAIL

        def made(server: SMTP, transport: Any) -> None:
            vars(server)["number"] = len(self.emails)
            self.emails.append(0)
            own_made(server, transport)

        async def mail(server: SMTP, argument: str) -> None:
            self.emails[vars(server)["number"]] += 1
            await own_mail(server, argument)

        monkeypatch.setattr(SMTP, "connection_made", made)
        monkeypatch.setattr(SMTP, "smtp_MAIL", mail)


@pytest.fixture
def connections(channel: EmailChannel, monkeypatch: pytest.MonkeyPatch) -> _Connections:
    """Those of the channel; the server has had one of its own before."""
    assert isinstance(channel, EmailChannel)
    return _Connections(monkeypatch)


async def send(channel: EmailChannel, number: int, **fields: Any) -> list[bool]:
    """Sends emails one after the other."""
    return [(await channel.deliver(an_email(**fields))).is_delivered for _ in range(number)]


async def test_emails_share_a_connection(
    channel: EmailChannel, connections: _Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.channel.email.EMAILS_PER_CONNECTION_MAX", 3)
    assert await send(channel, 7) == [True] * 7
    await channel.close()
    assert connections.emails == [3, 3, 1]


async def test_a_connection_without_emails_is_closed(
    channel: EmailChannel, connections: _Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = asyncio.Event()
    goodbye = SMTP.smtp_QUIT
    loop = asyncio.get_running_loop()

    async def told(server: SMTP, argument: str) -> None:
        await goodbye(server, argument)
        loop.call_soon_threadsafe(left.set)

    monkeypatch.setattr(SMTP, "smtp_QUIT", told)
    monkeypatch.setattr("tickwork.channel.email.IDLE_SECONDS", 0.05)
    await send(channel, 1)
    async with asyncio.timeout(GENEROUS):
        await left.wait()
    await send(channel, 1)
    await channel.close()
    assert connections.emails == [1, 1]


@pytest.mark.parametrize("command", ["smtp_RSET", "smtp_MAIL"])
async def test_a_relay_that_ends_a_kept_connection_costs_no_attempt(
    channel: EmailChannel,
    connections: _Connections,
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    own = getattr(SMTP, command)

    async def answer(server: SMTP, argument: str) -> None:
        if vars(server)["number"] == 0 and mailbox.envelopes:
            await server.push("421 too many emails")
            assert server.transport is not None
            server.transport.close()
        else:
            await own(server, argument)

    monkeypatch.setattr(SMTP, command, answer)
    assert await send(channel, 2) == [True, True]
    await channel.close()
    assert (len(connections.emails), len(mailbox.emails)) == (2, 2)


async def test_an_email_that_is_refused_leaves_nothing_for_the_next(
    channel: EmailChannel, mailbox: Mailbox
) -> None:
    mailbox.answers["bob@example.com"] = "451 later"
    to = [["ada@example.com"], ["bob@example.com"], ["cy@example.com"]]
    sent = [await send(channel, 1, to=recipients) for recipients in to]
    await channel.close()
    assert sent == [[True], [False], [True]]
    assert [envelope.rcpt_tos for envelope in mailbox.envelopes] == [to[0], to[2]]


@pytest.mark.parametrize(
    "fields",
    [
        {"subject": "Hi\r\nBcc: evil@example.com"},
        {"subject": "Hi\nX: y"},
        {"subject": "Hi\rX"},
        {"to": ["a@example.com\r\nBcc: evil@example.com"]},
        {"sender": "t@example.com\nBcc: evil@example.com"},
        {"message_id": "<a@b>\r\nBcc: evil@example.com"},
        {"text": "\ud800"},
        {"html": "\ud800"},
        {"subject": "\ud800"},
        {"to": ["\ud800@example.com"]},
        {"sender": ""},
    ],
)
async def test_an_email_that_cannot_be_built_is_a_permanent_failure(
    channel: EmailChannel, mailbox: Mailbox, fields: dict[str, Any]
) -> None:
    result = await bounded(channel, an_email(**fields))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.PAYLOAD)
    assert result.is_permanent
    assert mailbox.envelopes == []


@pytest.mark.parametrize(
    ("url", "relay"),
    [
        ("smtp://mail.example", Relay("mail.example", 587)),
        ("smtps://mail.example", Relay("mail.example", 465, is_tls=True)),
        ("smtp://u%40x:p%2Fw@mail.example:25", Relay("mail.example", 25, "u@x", "p/w")),
        ("smtp://[::1]:2525/", Relay("::1", 2525)),
    ],
)
def test_a_relay_is_read_from_its_url(url: str, relay: Relay) -> None:
    assert Relay.from_url(url) == relay


@pytest.mark.parametrize(
    "url",
    ["", "mail.example:25", "http://x", "smtp://", "smtp://x:y", "smtp://x:99999", "smtp://["],
)
def test_a_url_that_is_no_relay_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="smtp_url: "):
        Relay.from_url(url)
