"""The forecast agrees with what then happens, in virtual time on both stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tickwork import Firing, Message, Tickwork
from tickwork.core.schedule.forecast import Forecast
from tickwork.ops import forecast as ops_forecast
from tickwork.testing import Harness, harness

START = datetime(2026, 10, 24, 16, 7, 20, tzinfo=UTC)
"""The clocks of Europe go back in the night that follows."""

MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")


def bodies(number: int) -> Iterator[dict[str, Any]]:
    """Schedules of every kind."""
    daily = {"hour": 9, "minute": 0}
    for index in range(number):
        hour, minute = index * 7 % 24, index * 13 % 60
        kinds: list[dict[str, Any]] = [
            {"daily_time": daily},
            {"cron_expr": f"{minute} */3 * * *"},
            {"cron_expr": f"H {hour} * * *"},
            {"daily_time": daily, "fire_window_seconds": 1_800},
            {"daily_time": {"hour": hour, "minute": minute}, "jitter_seconds": 600},
            {"interval_minutes": 30 + index % 200},
            {"interval_minutes": 45, "interval_mode": "fixed_delay"},
            {"weekly_time": {"day_of_week": [0, 6], "hour": hour, "minute": 30}},
            {"monthly_time": {"day": 25, "hour": 12, "minute": 0}},
            {"once_at": (START + timedelta(minutes=17 * index)).isoformat()},
            {"rrule": "FREQ=HOURLY;INTERVAL=5", "start_at": "2026-10-20T07:30:00Z"},
            {"cron_expr": "*/10 * * * *", "max_firings": 1 + index % 50},
            {"cron_expr": "0 * * * *", "exclude": ["2026-10-25"]},
            {"cron_expr": "30 * * * *", "end_at": "2026-10-25T03:00:00Z", "overlap": "skip"},
        ]
        yield {"timezone": ZONES[index % len(ZONES)], **kinds[index % len(kinds)]}


async def compared(
    database: str | None, number: int, *, hours: int = 24, widened_seconds: int = 0
) -> tuple[Forecast, Counter[datetime]]:
    """A forecast after two hours of life, and the minutes of what was then due."""
    app = Tickwork(database, name="forecast")
    app.queue("work", max_batch_size=100)
    fired: Counter[datetime] = Counter()
    clock: list[Harness] = []

    @app.on("work")
    async def handle(_message: Message) -> None:
        fired[clock[0].now.replace(second=0, microsecond=0)] += 1

    async with harness(app, database=database, start=START) as h:
        clock.append(h)
        target: Any = {"type": "queue", "queue": "work"}
        for body in bodies(number):
            await app.schedules.create(target=target, **body)
        await app.widen_windows(widened_seconds)
        await h.advance(hours=2)
        forecast = await app.schedules.forecast(hours=hours, window_seconds=120)
        fired.clear()
        end = forecast.start + timedelta(hours=hours)
        await h.advance(seconds=(end - h.now).total_seconds() - 0.001)
    return forecast, fired


def check_close(forecast: Forecast, due: Counter[datetime], *, fired: int) -> None:
    told = {
        forecast.start + index * MINUTE: number
        for index, number in enumerate(forecast.minutes)
        if number
    }
    happened = {minute: number for minute, number in due.items() if number}
    wrong = sum(abs(told.get(at, 0) - happened.get(at, 0)) for at in {*told, *happened})
    assert sum(happened.values()) > fired
    assert abs(forecast.firings - sum(happened.values())) <= forecast.firings / 100
    assert wrong <= forecast.firings / 100, [
        (at, told.get(at), happened.get(at))
        for at in sorted({*told, *happened})
        if told.get(at) != happened.get(at)
    ][:20]


@pytest.mark.one_store("sqlite")
async def test_a_forecast_of_all_kinds_of_schedules_is_what_then_happens(
    database: str | None,
) -> None:
    check_close(*await compared(database, 42, hours=6), fired=60)


@pytest.mark.soak
async def test_a_day_of_many_schedules_is_what_their_forecast_says(database: str | None) -> None:
    check_close(*await compared(database, 700), fired=2_000)


async def test_a_forecast_names_the_herds_and_what_a_window_makes_of_them(
    database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Tickwork(database, name="herds")
    app.queue("mail")

    @app.schedule(interval_minutes=1, name="pulse")
    async def pulse(firing: Firing) -> None: ...

    async with harness(app, database=database, start=START):
        mail: Any = {"type": "queue", "queue": "mail"}
        every_morning: Any = {"daily_time": {"hour": 9, "minute": 0}, "target": mail}
        await app.schedules.create_many([every_morning] * 240)
        hook: Any = {"cron_expr": "0 12 * * *", "target_url": "https://hooks.example.com/a?b=1"}
        await app.schedules.create(**hook)
        found = await app.schedules.forecast(window_seconds=600)
        monkeypatch.setattr(ops_forecast, "PAGE_SCHEDULES", 7)
        assert (await app.schedules.forecast(window_seconds=600)).minutes == found.minutes
    nine = datetime(2026, 10, 25, 9, tzinfo=UTC)
    assert (found.peak_at, found.peak_firings, found.median) == (nine, 241, 1)
    (herd,) = found.herds
    assert (herd.at, herd.firings) == (nine, 241)
    assert (herd.causes[0].schedules, herd.causes[0].firings) == (240, 240)
    assert (herd.causes[0].kind, herd.causes[0].target) == ("queue", "mail")
    peaks = {window.fire_window_seconds: window.peak_firings for window in found.windows}
    assert (peaks[60], peaks[600], peaks[3_600]) == (241, 25, 5)
    targets = {(target.kind, target.name): target.firings for target in found.targets}
    assert targets["queue", "mail"] == 240
    assert targets["host", "hooks.example.com"] == 1
    assert [tenant.tenant for tenant in found.tenants] == ["default"]
    assert found.schedules == 242


@pytest.mark.one_store("sqlite")
async def test_a_forecast_knows_the_windows_that_the_operator_widened(
    database: str | None,
) -> None:
    check_close(*await compared(database, 42, hours=6, widened_seconds=1_200), fired=60)


async def test_a_herd_is_flat_while_windows_are_widened(database: str | None) -> None:
    app = Tickwork(database, name="flat")
    app.queue("mail")
    async with harness(app, database=database, start=START):
        mail: Any = {"type": "queue", "queue": "mail"}
        every_morning: Any = {"daily_time": {"hour": 9, "minute": 0}, "target": mail}
        exact: Any = {**every_morning, "fire_window_seconds": 0}
        await app.schedules.create_many([every_morning] * 240 + [exact] * 7)
        herd = await app.schedules.forecast()
        await app.widen_windows(3_600)
        flat = await app.schedules.forecast()
    assert (herd.peak_firings, herd.firings, herd.widened_seconds) == (247, 247, 0)
    # Four a minute for an hour, and those that keep their minute.
    assert (flat.peak_firings, flat.firings, flat.widened_seconds) == (11, 247, 3_600)
    assert sorted({*flat.minutes}) == [0, 4, 11]
