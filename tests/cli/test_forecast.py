"""`tickwork forecast`."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.cli.kit import Desk
from tests.kit.contexts import acting
from tickwork.cli.forecast import sparkline
from tickwork.core import when
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.ops.schedules.create import create_many
from tickwork.store.contract import Store


async def fill(store: Store) -> None:
    await store.queues.put(DEFAULT, "mail", QueueSettings())
    hour = (datetime.now(UTC).hour + 12) % 24  # Never the present minute.
    body = {"cron_expr": f"0 {hour} * * *", "target": {"type": "queue", "queue": "mail"}}
    await create_many(acting(store, DEFAULT, limits=when.Limits()), [body] * 30)


def test_a_forecast_is_shown_as_a_line_and_tables(desk: Desk) -> None:
    desk.store(fill)
    shown = desk.answer("forecast", "--window-seconds", "600")
    assert "30 firings of 30 schedules in the next 24 hours" in shown
    assert "█" in shown
    assert "queue mail" in shown
    assert "herd" in shown
    found = desk.json("forecast", "--hours", "48", "--all-tenants")
    assert (found["firings"], found["hours"], len(found["minutes"])) == (60, 48, 2_880)


def test_an_empty_forecast_is_one_line(desk: Desk) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "mail", QueueSettings()))
    assert desk.answer("forecast") == "0 firings of 0 schedules in the next 24 hours\n"


def test_wrong_options_of_a_forecast_are_named(desk: Desk) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "mail", QueueSettings()))
    for words, told in (
        (["--hours", "0"], "--hours: must be from 1 to 168, not 0"),
        (["--hours", "x"], "--hours: must be a whole number, not 'x'"),
        (["--window-seconds", "0"], "--window-seconds: must be from 1 to 86400, not 0"),
        (["--tenant", "a", "--all-tenants"], "give --tenant or --all-tenants, not both"),
    ):
        result = desk.run("forecast", *words)
        assert (result.exit_code, result.stderr) == (2, f"tickwork: {told}\n")


def test_a_sparkline_shows_the_busiest_minute_of_each_part() -> None:
    minutes = [0] * 1_440
    minutes[0], minutes[1_439] = 1, 80
    line = sparkline(minutes)
    assert (len(line), line[0], line[-1], {*line[1:-1]}) == (72, "▁", "█", {" "})
