"""The HR app over HTTP, in virtual time, in both of its shapes and on both stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import ModuleType
from typing import Any, NamedTuple

import httpx
import pytest

from examples.hr_notifications import entities, rows
from examples.hr_notifications.api import lifespan, new_api
from examples.hr_notifications.app import app
from examples.hr_notifications.consumers import down, outbox
from examples.hr_notifications.users import USERS, token_of
from tests.stores.home import Home
from tickwork.testing import Harness, harness

START = datetime(2026, 3, 7, 15, tzinfo=UTC)
"""10:00 in New York, on the day before summer time begins there."""

DAILY = {"dailyTime": {"hour": 14, "minute": 0}, "timezone": "America/New_York"}


class Client:
    """Calls the API as one user."""

    def __init__(self, http: httpx.AsyncClient, user: str) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {token_of(USERS[user])}"}

    async def call(self, method: str, path: str = "", body: Any = None, status: int = 200) -> Any:
        path = path if path.startswith("/") else f"/notifications/schedules/{path}".rstrip("/")
        answer = await self._http.request(method, path, json=body, headers=self._headers)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def create(self, type_: str, **timing: Any) -> str:
        made = await self.call("POST", "", {"type": type_, **timing}, 201)
        return str(made["id"])

    async def next_runs(self) -> dict[str, str | None]:
        return {schedule["type"]: schedule["nextRun"] for schedule in await self.call("GET")}


class Story(NamedTuple):
    """What a test needs."""

    h: Harness
    http: httpx.AsyncClient
    alice: Client
    bob: Client
    admin: Client


def sent(since: datetime = START) -> list[str]:
    """What was sent: when, to the minute, and what."""
    return [f"{email.at:%m-%d %H:%M} {email.text}" for email in outbox if email.at >= since]


@pytest.fixture(params=[rows, entities], ids=["rows", "entities"])
def shape(request: pytest.FixtureRequest) -> ModuleType:
    made: ModuleType = request.param
    return made


@asynccontextmanager
async def told(shape: ModuleType, database: str | None = None) -> AsyncIterator[Story]:
    outbox.clear()
    down.clear()
    api = new_api(shape)
    asgi: Any = api
    transport = httpx.ASGITransport(asgi)
    async with (
        harness(app, database=database, start=START) as h,
        lifespan(api),
        httpx.AsyncClient(transport=transport, base_url="http://hr.test") as http,
    ):
        yield Story(h, http, *(Client(http, user) for user in ("alice", "bob", "carol")))


@pytest.fixture
async def story(home: Home, shape: ModuleType) -> AsyncIterator[Story]:
    async with told(shape, None if home.kind == "sqlite" else home.url) as made:
        yield made


@pytest.fixture
async def local(shape: ModuleType) -> AsyncIterator[Story]:
    async with told(shape) as made:
        yield made


@pytest.mark.one_store("postgres")
async def test_the_whole_story_over_http(story: Story) -> None:
    h, _, alice, bob, admin = story
    stock = "Scheduled stock_price for alice@company.com"
    # The day before summer time, 14:00 in New York is 19:00 in UTC; from the next day on 18:00.
    daily = await alice.create("stock_price", **DAILY)
    assert await alice.next_runs() == {"stock_price": "2026-03-07T19:00:00Z"}
    await h.advance(days=2)
    assert sent() == [f"03-07 19:00 {stock}", f"03-08 18:00 {stock}"]

    # Each kind of timing, of two users, on two queues.
    week = await bob.create("weekly_report", weeklyTime={"dayOfWeek": 1, "hour": 12, "minute": 0})
    month = {"dayOfMonth": 15, "hour": 14, "minute": 30}
    await bob.create("password_change", monthlyTime=month)
    await bob.create("tax_deadline", onceAt="2026-03-15T14:00:00Z")
    sync = await bob.create("payslip_sync", intervalMinutes=30)
    assert await bob.next_runs() == {
        "weekly_report": "2026-03-16T12:00:00Z",
        "password_change": "2026-03-15T14:30:00Z",
        "tax_deadline": "2026-03-15T14:00:00Z",
        "payslip_sync": "2026-03-09T15:30:00Z",
    }
    await h.drain()
    coming = await admin.call("GET", "/admin/upcoming?count=5")
    assert [(run["at"], run["userId"], run["type"]) for run in coming[:2]] == [
        ("2026-03-09T15:30:00Z", "bob", "payslip_sync"),
        ("2026-03-09T16:00:00Z", "bob", "payslip_sync"),
    ]
    assert {run["userId"] for run in await admin.call("GET", "/admin/upcoming?count=9")} == {
        "alice",
        "bob",
    }

    # A schedule is paused, goes on, and is deleted.
    await h.advance(minutes=31)
    assert sent(h.now.replace(minute=0)) == ["03-09 15:30 No new payslip in payroll"]
    assert (await bob.call("POST", f"{sync}/pause"))["isActive"] is False
    assert (await bob.next_runs())["payslip_sync"] is None
    await h.advance(hours=2)
    assert len([line for line in sent() if "payslip" in line]) == 1
    resumed = await bob.call("POST", f"{sync}/resume")
    assert (resumed["isActive"], resumed["nextRun"] > h.now.isoformat()) == (True, True)
    await h.advance(minutes=31)
    assert len([line for line in sent() if "payslip" in line]) == 2
    await bob.call("DELETE", sync, status=204)

    # From daily at 14:00 to Mondays at 9:00, in the same zone.
    monday = {"weeklyTime": {"dayOfWeek": 1, "hour": 9, "minute": 0}}
    changed = await alice.call("PUT", daily, monday)
    assert (changed["cronExpression"], changed["timezone"]) == ("0 9 * * 1", "America/New_York")
    assert changed["nextRun"] == "2026-03-16T13:00:00Z"
    now = h.now
    await h.advance(days=8)
    assert sent(now) == [
        "03-15 14:00 Scheduled tax_deadline for bob@company.com",
        "03-15 14:30 Please change your password",
        "03-16 12:00 Your report of the week",
        f"03-16 13:00 {stock}",
    ]
    once = next(
        schedule for schedule in await bob.call("GET") if schedule["type"] == "tax_deadline"
    )
    assert (once["isActive"], once["nextRun"]) == (False, None)
    assert once["lastRun"].startswith("2026-03-15T14:00")
    await bob.call("DELETE", week, status=204)
    await alice.call("DELETE", daily, status=204)
    await h.drain()
    coming = await admin.call("GET", "/admin/upcoming")
    assert {run["type"] for run in coming} == {"password_change"}


async def test_a_wrong_request_is_refused_and_nothing_is_stored(local: Story) -> None:
    for body, named in (
        ({"type": "stock_price"}, "exactly one"),
        ({"type": "stock_price", "intervalMinutes": 5, **DAILY}, "exactly one"),
        ({"type": "poem", **DAILY}, "type"),
        ({"type": "stock_price", **DAILY, "timezone": "Mars/Base"}, "timezone"),
        ({"type": "stock_price", "dailyTime": {"hour": 24, "minute": 0}}, "hour"),
        ({"type": "stock_price", "daily": 1}, "daily"),
    ):
        assert named in str(await local.alice.call("POST", "", body, 400))
    assert await local.alice.call("GET") == []


async def test_users_reach_only_their_own_schedules(local: Story) -> None:
    daily = await local.alice.create("stock_price", **DAILY)
    for method, path, body in (
        ("PUT", daily, {"intervalMinutes": 5}),
        ("POST", f"{daily}/pause", None),
        ("POST", f"{daily}/resume", None),
        ("DELETE", daily, None),
        ("DELETE", "sched-unknown", None),
    ):
        await local.bob.call(method, path, body, 404)
    assert await local.bob.call("GET") == []
    assert [schedule["isActive"] for schedule in await local.alice.call("GET")] == [True]
    await local.alice.call("GET", "/admin/upcoming", status=403)
    for header in ("", "Basic abc", "Bearer no.such.token"):
        path = "/notifications/schedules"
        answer = await local.http.get(path, headers={"Authorization": header})
        assert answer.status_code == 401


async def test_a_job_that_fails_is_tried_four_times_and_then_waits_for_someone(
    local: Story, shape: ModuleType
) -> None:
    """A schedule per row is paused then. An entity has sent its job, and goes on."""
    await local.alice.create("stock_price", **DAILY)
    down.add("alice@company.com")
    await local.h.advance(hours=5)
    (dead,) = await local.h.dead("notification-queue")
    assert (dead.reason, dead.attempts) == ("max_retries", 4)
    (row,) = await local.alice.call("GET")
    assert row["isActive"] is (shape is entities)
    down.clear()
    await app.dead_letters.replay("notification-queue")
    await local.h.drain()
    assert len(outbox) == 1
