"""Deliveries of schedules in real time, to servers that refuse, hang or misbehave: each of them
ends in time and says why."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.channel.mail_server import Mailbox
from tests.channel.receiver import (
    allow_local_deliveries,
    answer_a_byte_a_minute,
    answer_without_end,
    certificate_context,
    never_answer,
    receiver,
    wire,
)
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import FiringRecord
from tickwork.core.delivery.pace import EMAIL_CONCURRENCY
from tickwork.facade.app import Tickwork

PAST = "2026-01-01T00:00:00Z"
OPEN, PRIVATE = "93.184.216.34", "10.0.0.7"
NAMES = {"mixed.example": [OPEN, PRIVATE], "private.example": [PRIVATE], "nowhere.example": []}
QUEUE = "tickwork.deliveries"
ENDED_SECONDS_MAX = 30.0
"""Seconds within which all of them have ended; each has one second."""

pytestmark = pytest.mark.one_store("sqlite")


@pytest.fixture
async def app(
    home: Home, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Tickwork]:
    """An app that may deliver to this machine, and whose worker runs."""
    assert mailbox.emails == []
    allow_local_deliveries(monkeypatch)
    app = Tickwork(home.url)
    async with app.running(drain_seconds=0.0):
        yield app


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that knows `NAMES`, and no others."""
    system = socket.getaddrinfo

    def lookup(host: Any, port: Any, *more: Any, **options: Any) -> list[tuple[Any, ...]]:
        if host not in NAMES:
            return [*system(host, port, *more, **options)]
        if not NAMES[host]:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            address for one in NAMES[host] for address in system(one, port, type=socket.SOCK_STREAM)
        ]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


async def ended(app: Tickwork, name: str) -> FiringRecord:
    async def found() -> list[FiringRecord]:
        return [firing for firing in await app.schedules.firings(name) if firing.finished_at]

    return (await eventually(found, what=f"the end of {name}"))[0]


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    writer.transport.abort()


WIRES = {
    "never answers": never_answer,
    "one byte a minute": answer_a_byte_a_minute,
    "endless body": answer_without_end,
    "reset in mid-answer": reset,
}
OUTCOMES = {
    "never answers": ("dead", None, "no answer began within 1 s"),
    "one byte a minute": ("dead", None, "the answer was not complete within 1 s"),
    "endless body": ("succeeded", 200, "xxx"),
    "reset in mid-answer": ("dead", None, "the connection broke"),
    "compressed bomb": ("succeeded", 200, ""),
    "redirect": ("dead", 301, "the receiver answered 301"),
    "expired certificate": ("dead", None, "certificate has expired"),
    "dns fails": ("dead", None, "the name of the host was not resolved"),
    "dns is private": ("dead", None, "private.example resolves to an address that is not public"),
    "dns is mixed": ("dead", None, "mixed.example resolves to an address that is not public"),
}


@pytest.mark.usefixtures("names")
async def test_every_bad_target_ends_in_time_with_a_clear_outcome(
    app: Tickwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncExitStack() as servers:
        urls = {
            name: await servers.enter_async_context(wire(answer)) for name, answer in WIRES.items()
        }
        bomb, redirect = [await servers.enter_async_context(receiver()) for _ in range(2)]
        packed = gzip.compress(bytes(10_000_000))
        bomb.answer = lambda: web.Response(body=packed, headers={"Content-Encoding": "gzip"})
        elsewhere = {"Location": "http://169.254.169.254/latest"}
        redirect.answer = lambda: web.Response(status=301, headers=elsewhere)
        context, pem = certificate_context(tmp_path, days=-1)
        trusting = ssl.create_default_context(cafile=pem)  # So that only its time is wrong.
        monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
        expired = await servers.enter_async_context(receiver(context))
        urls |= {
            "compressed bomb": bomb.url,
            "redirect": redirect.url,
            "expired certificate": expired.url,
            "dns fails": "https://nowhere.example/",
            "dns is private": "https://private.example/",
            "dns is mixed": "https://mixed.example/",
        }
        for name, url in urls.items():
            await app.schedules.create(
                name=name,
                once_at=PAST,
                target={"type": "webhook", "url": url, "timeout_seconds": 1},
                retry={"max_attempts": 1},
            )
        async with asyncio.timeout(ENDED_SECONDS_MAX):
            records = {name: await ended(app, name) for name in urls}
    assert {*records} == {*OUTCOMES}
    for name, (status, code, text) in OUTCOMES.items():
        record = records[name]
        assert (name, record.status, record.result_code) == (name, status, code)
        assert text in (record.excerpt or ""), (name, record.excerpt)


@pytest.mark.parametrize(
    ("answer", "status", "number"),
    [("550 no such user", "dead", 1), ("450 try again", "failed", 0)],
)
async def test_an_email_that_the_relay_refuses_for_good_is_a_dead_letter_at_once(
    app: Tickwork, mailbox: Mailbox, answer: str, status: str, number: int
) -> None:
    mailbox.answers["ann@example.com"] = answer
    email: Any = {"type": "email", "to": "ann@example.com", "subject": "Hello", "text": "Hello"}
    await app.schedules.create(name="hello", once_at=PAST, target=email)
    record = await ended(app, "hello")
    letters = await app.dead_letters.list(QUEUE)
    assert (record.status, record.attempt) == (status, 1)
    assert [letter.reason for letter in letters] == ["permanent"] * number
    assert answer.partition(" ")[2] in str(record.excerpt)


async def test_emails_that_exceed_the_connections_of_a_relay_wait_and_lose_no_attempt(
    app: Tickwork, mailbox: Mailbox
) -> None:
    number = EMAIL_CONCURRENCY + 5
    mailbox.open.clear()
    email: Any = {"type": "email", "to": "ann@example.com", "subject": "Hello", "text": "Hello"}
    names = [f"hello {index}" for index in range(number)]
    for name in names:
        await app.schedules.create(name=name, once_at=PAST, target=email)

    async def others_wait() -> bool:
        counts = (await app.queues.stats(QUEUE)).counts
        waiting = counts.ready + counts.delayed
        return (mailbox.offered, waiting) == (EMAIL_CONCURRENCY, number - EMAIL_CONCURRENCY)

    await eventually(others_wait, what="emails that wait in the queue")
    mailbox.open.set()
    records = [await ended(app, name) for name in names]
    assert {(record.status, record.attempt) for record in records} == {("succeeded", 1)}
    assert len(mailbox.emails) == number


async def test_a_firing_names_the_recipients_that_the_relay_refused(
    app: Tickwork, mailbox: Mailbox
) -> None:
    mailbox.answers["bob@example.com"] = "550 no such user"
    to = ["ann@example.com", "bob@example.com"]
    email: Any = {"type": "email", "to": to, "subject": "Hello", "text": "Hello"}
    await app.schedules.create(name="hello", once_at=PAST, target=email)
    record = await ended(app, "hello")
    assert record.status == "succeeded"
    assert record.excerpt == "accepted as 17; refused: bob@example.com: no such user"
