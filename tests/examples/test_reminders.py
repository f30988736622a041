"""The reminders: weeks in virtual time, and a real node with real servers, on both stores."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from email import message_from_bytes
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from aiohttp import web
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from standardwebhooks import Webhook

from examples.reminders.app import BACKOFF, app, remind
from tests.channel.receiver import receiver
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import ScheduleFields
from tickwork.channel.secrets import new_key
from tickwork.core.delivery.request import EmailRequest, WebhookRequest
from tickwork.testing import harness

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2026, 3, 2, 5, tzinfo=UTC)
DAYS = 42
URL, EMAIL = "https://example.com/hook", "ann@example.com"
DAILY: ScheduleFields = {"daily_time": "08:30", "timezone": "Europe/Berlin"}
DELIVERIES = "tickwork.deliveries"
ATTEMPT_MINUTES = (0, 1, 6, 36)
"""Minutes after a slot at which it is tried: the backoff is 1, 5 and 30 minutes."""


class Day(NamedTuple):
    """How many minutes after the slot of a day each channel is down."""

    email: int
    webhook: int

    def tried(self) -> list[tuple[bool, bool]]:
        """Which channels succeed in each attempt; an attempt in which one does is the last."""
        outcomes = [(self.email <= minute, self.webhook <= minute) for minute in ATTEMPT_MINUTES]
        ended = next((at for at, outcome in enumerate(outcomes) if any(outcome)), len(outcomes))
        return outcomes[: ended + 1]

    def status(self) -> tuple[str, str | None]:
        match self.tried()[-1]:
            case (True, True):
                return "succeeded", None
            case (True, False):
                return "partial", "partial: webhook"
            case (False, True):
                return "partial", "partial: email"
            case _:
                return "dead", "email: no relay; webhook: the receiver answered 503"


def slot_of(day: date) -> datetime:
    return datetime.combine(day, time(8, 30), BERLIN).astimezone(UTC)


def drawn(seed: int) -> dict[date, Day]:
    """Outages of some weeks, which include the change to summer time."""
    draw = random.Random(seed)
    minutes = (0, 0, 1, 5, 36, 300)
    return {
        START.date() + timedelta(days=day): Day(draw.choice(minutes), draw.choice(minutes))
        for day in range(DAYS)
    }


def time_of(request: WebhookRequest | EmailRequest) -> datetime:
    if isinstance(request, EmailRequest):
        return request.sent_at
    return datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)


@pytest.fixture
def database(home: Home) -> str | None:
    """What a harness is given."""
    return None if home.kind == "sqlite" else home.url


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
async def test_each_reminder_of_six_weeks_ends_as_the_rules_say(
    database: str | None, seed: int
) -> None:
    days = drawn(seed)

    def answer(request: WebhookRequest | EmailRequest) -> int | str:
        at = time_of(request)
        minutes = (at - slot_of(at.date())) / timedelta(minutes=1)
        if isinstance(request, EmailRequest):
            return 250 if minutes >= days[at.date()].email else "no relay"
        return 200 if minutes >= days[at.date()].webhook else 503

    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = answer
        await remind("water", "Water the plants", DAILY, email=EMAIL, url=URL)
        for day, outages in days.items():
            await h.advance(days=1)
            shown = await app.schedules.get("water")
            assert (shown.last_status, shown.last_error) == outages.status(), day
            assert shown.next_fire_at == slot_of(day + timedelta(days=1))
            dead = [entry.letter.slot for entry in await h.dead(DELIVERIES)]
            assert (slot_of(day) in dead) is (shown.last_status == "dead")
        sent = [*map(time_of, h.deliveries.emails)]
        called = [*map(time_of, h.deliveries.webhooks)]
    expected = [
        slot_of(day) + timedelta(minutes=minutes)
        for day, outages in days.items()
        for minutes, _ in zip(ATTEMPT_MINUTES, outages.tried(), strict=False)
    ]
    assert sent == called == expected


async def test_what_arrived_is_not_sent_again(database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda request: 250 if isinstance(request, EmailRequest) else 500
        await remind("water", "Water the plants", DAILY, email=EMAIL, url=URL)
        await h.advance(days=1)
        shown = await app.schedules.get("water")
        counts = len(h.deliveries.emails), len(h.deliveries.webhooks)
        letters = await h.dead(DELIVERIES)
    assert (counts, letters) == ((1, 1), [])
    assert (shown.last_error, shown.error_count) == ("partial: webhook", 0)


async def test_four_failures_are_a_dead_letter_that_can_be_replayed(database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        h.deliveries.answer = lambda _: "down"
        await remind("once", "Call Bob", {"once_at": START + timedelta(hours=1)}, url=URL)
        counts = []
        for minutes in (60, 1, 5, 29):
            await h.advance(minutes=minutes)
            counts.append((await app.schedules.get("once")).error_count)
        await h.advance(minutes=1)
        parked = await app.schedules.get("once")
        (letter,) = await h.dead(DELIVERIES)
        h.deliveries.answer = lambda _: 200
        await app.dead_letters.replay(DELIVERIES)
        await h.drain()
        times = [time_of(webhook) for webhook in h.deliveries.webhooks]
    assert counts == [1, 2, 3, 3]
    assert (parked.status, letter.attempts, letter.reason) == ("parked", 4, "max_retries")
    assert [(b - a).total_seconds() for a, b in pairwise(times[:4])] == [*BACKOFF]
    assert len(times) == 5


async def test_after_an_outage_of_all_nodes_one_reminder_comes(database: str | None) -> None:
    async with harness(app, database=database, start=START) as h:
        await remind("water", "Water the plants", DAILY, email=EMAIL, url=URL)
        await h.outage(days=5)
        await h.advance(hours=1)
        (late,) = h.deliveries.webhooks
        await h.advance(days=1)
        assert len(h.deliveries.webhooks) == len(h.deliveries.emails) == 2
    assert late.headers["Tickwork-Catch-Up"] == "true"


async def test_after_an_hour_without_a_node_one_reminder_of_many_comes(
    database: str | None,
) -> None:
    async with harness(app, database=database, start=START) as h:
        await remind("tea", "Drink tea", {"cron_expr": "* * * * *"}, email=EMAIL, url=URL)
        await h.outage(minutes=59, seconds=30)
        await h.drain()
        assert len(h.deliveries.webhooks) == len(h.deliveries.emails) == 1
        await h.advance(minutes=1)
        assert len(h.deliveries.webhooks) == len(h.deliveries.emails) == 2
        timeouts = {webhook.timeout_seconds for webhook in h.deliveries.webhooks}
        timeouts |= {email.timeout_seconds for email in h.deliveries.emails}
    assert timeouts == {10.0}


class Mailbox:
    """Keeps the subjects of the emails that arrived."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def handle_DATA(self, _: SMTP, __: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        self.subjects.append(str(message_from_bytes(envelope.content)["Subject"]))
        return "250 accepted"


class Relay:
    """A real SMTP server that can be stopped and started."""

    def __init__(self) -> None:
        self.mailbox = Mailbox()
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        self._server: Controller | None = None

    def start(self) -> None:
        self._server = Controller(self.mailbox, hostname="127.0.0.1", port=self.port)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    made.start()
    yield made
    made.stop()


@pytest.mark.one_store("sqlite")
async def test_reminders_reach_real_servers(home: Home, children: Children, relay: Relay) -> None:
    environment = {
        "TICKWORK_DATABASE": home.url,
        "TICKWORK_ALLOW_TARGETS": "127.0.0.1",
        "TICKWORK_SMTP_URL": f"smtp://127.0.0.1:{relay.port}",
        "TICKWORK_EMAIL_FROM": "Reminders <reminders@example.com>",
        "TICKWORK_SECRET_KEY": new_key(),
        "REMINDERS_BACKOFF_SECONDS": "0.1,0.1,0.1",
    }

    async def ran(module: str, *words: str) -> list[str]:
        child = children.spawn(module, *words, env=environment)
        await child.succeeded()
        return child.lines()

    async def reached(name: str, text: str) -> None:
        async def is_shown() -> bool:
            shown = await ran("examples.reminders.run", "list")
            return any(line.startswith(name) and text in line for line in shown)

        await eventually(is_shown, what=f"{name}: {text}")

    async with receiver() as server:

        async def add(name: str) -> None:
            to = ("--email", EMAIL, "--url", server.url)
            at = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
            await ran("examples.reminders.run", "add", name, f"Do {name}", "--at", at, *to)

        node = children.spawn("tickwork", "run", "examples.reminders.app:app", env=environment)
        await add("first")
        await reached("first", "last succeeded")
        (secret,) = await ran("tickwork", "webhooks", "secret")
        request, body = server.requests[0]
        Webhook(secret).verify(body, {**request.headers})
        assert relay.mailbox.subjects == ["Reminder: Do first"]

        server.answer = lambda: web.Response(status=503)
        await add("second")
        await reached("second", "partial: webhook")
        assert relay.mailbox.subjects[1:] == ["Reminder: Do second"]
        assert len(server.requests) == 2

        relay.stop()
        await add("third")
        await reached("third", "parked")
        assert [
            later_request.headers["Tickwork-Attempt"] for later_request, _ in server.requests[2:]
        ] == [*"1234"]

        relay.start()
        server.answer = web.Response
        await ran("tickwork", "dead", "replay", DELIVERIES)
        await eventually(lambda: relay.mailbox.subjects[2:] == ["Reminder: Do third"])
        assert (
            len({later_request.headers["webhook-id"] for later_request, _ in server.requests[2:6]})
            == 1
        )
        node.terminate()
        await node.succeeded()
