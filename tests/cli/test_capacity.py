"""`tickwork capacity` and `tickwork what-if`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

from tests.cli.kit import Desk
from tests.kit.contexts import acting
from tickwork.cli import app
from tickwork.core import when
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.ops.schedules.create import create_many
from tickwork.store.contract import Store


def plan(*words: str) -> Result:
    return CliRunner().invoke(app, ["what-if", *words])


async def fill(store: Store) -> None:
    await store.queues.put(DEFAULT, "mail", QueueSettings(rate_per_second=0.1))
    await store.queues.put(DEFAULT, "news", QueueSettings())
    hour = (datetime.now(UTC).hour + 12) % 24  # Never the present minute.
    bodies = [
        {"cron_expr": f"0 {hour} * * *", "target": {"type": "queue", "queue": queue}}
        for queue in ["mail"] * 30 + ["news"] * 5
    ]
    await create_many(acting(store, DEFAULT, limits=when.Limits()), bodies)


def test_what_will_be_late_is_said_and_exits_with_1(desk: Desk) -> None:
    desk.store(fill)
    shown = desk.run("capacity")
    assert (shown.exit_code, shown.stderr) == (1, "")
    assert "35 slots in the next 24 hours; 0 workers run" in shown.stdout
    assert "30 slots for queue mail; its limit allows 6 a minute" in shown.stdout
    assert "5 minutes late" in shown.stdout
    assert "no measured rate for queue news: nothing ran in the last 24 hours" in shown.stdout
    assert "the workers keep up" not in shown.stdout


def test_an_empty_database_keeps_up(desk: Desk) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "mail", QueueSettings()))
    told = "0 slots in the next 24 hours; 0 workers run\nnothing is due, and nothing waits\n"
    assert desk.answer("capacity") == told
    found = desk.json("capacity", "--hours", "48")
    assert (found["ok"], found["hours"], found["lanes"]) == (True, 48, [])


def test_a_day_is_planned_without_a_database() -> None:
    words = ["--users", "10", "--seconds", "3", "--at-once", "10", "--daily-limit", "100000"]
    assert plan(*words, "--cost", "4").stdout.splitlines() == [
        "10 users one by one take 30 s; 10 at a time 3 s",
        "a day has time for 288,000 users",
        "a limit of 100,000 a day, 4 for each, is enough for 25,000 users",
        "capacity 25,000 users a day, decided by limit: 2,500 times as many",
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--users", "0", "--seconds", "3"], "--users: must be more than 0, not 0"),
        (["--users", "1", "--seconds", "-1"], "--seconds: must be more than 0, not -1"),
        (
            ["--users", "1", "--seconds", "1", "--cost", "0"],
            "--cost: must be more than 0, not 0",
        ),
    ],
)
def test_a_day_of_nothing_is_refused(words: list[str], told: str) -> None:
    refused = plan(*words)
    assert (refused.exit_code, refused.stderr) == (2, f"tickwork: {told}\n")
