"""Crontab files become schedules that fire when cron would."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from cronsim import CronSim

from tickwork.core.imports import Entry, differences
from tickwork.core.imports.crontab import read_crontab, vixie_fires
from tickwork.errors import InvalidInput

START = datetime(2026, 3, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"


def entries(text: str, *, is_system: bool = False, timezone: str = BERLIN) -> tuple[Entry, ...]:
    read = read_crontab(text, timezone=timezone, is_system=is_system, start=START)
    assert read.refused == ()
    return read.entries


@pytest.mark.parametrize(
    "line",
    [
        "0 9 * * 1-5", "*/15 2 * * *", "30 2 * * *", "0 */2 * * *", "7 3 1,15 * 5",
        "0 0 */2 * MON", "0 0 1-7 * *", "15 10-18/4 * jan-mar sun", "@daily", "@hourly",
        "@weekly", "@monthly", "@yearly", "59 23 31 12 7", "0 0 29 2 *", "*/7 * * * *",
    ],
)  # fmt: skip
@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"])
def test_the_next_hundred_fires_of_a_line_are_those_of_cron(line: str, zone: str) -> None:
    (entry,) = entries(f"{line} run", timezone=zone)
    assert differences(entry, START) is None


@pytest.mark.parametrize(
    "expr", ["0 9 * * 1-5", "7 3 1,15 * 5", "0 0 */2 * 1", "*/20 4 * 2-9/3 *", "0 0 29 2 *"]
)
def test_old_fires_agree_with_an_independent_reading_of_cron(expr: str) -> None:
    reference = (at for at in CronSim(expr, START.replace(tzinfo=None)))
    wanted = [at.replace(tzinfo=UTC) for at in islice(reference, 7)]
    assert [*vixie_fires(expr, "UTC", START, 7)] == wanted


def test_old_fires_follow_the_clock_or_run_after_a_gap_as_in_vixie_cron() -> None:
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    fixed = [*vixie_fires("30 2 * * *", BERLIN, before, 2)]
    assert fixed[0] == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # 03:00, right after the gap
    wildcard = [*vixie_fires("*/30 2 * * *", BERLIN, before, 1)]
    assert wildcard == [datetime(2026, 3, 30, 0, 0, tzinfo=UTC)]
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert len({at.date() for at in vixie_fires("30 2 * * *", BERLIN, autumn, 2)}) == 2
    twice = [*vixie_fires("*/30 2 * * *", BERLIN, autumn, 4)]
    assert {at.date() for at in twice} == {datetime(2026, 10, 25, tzinfo=UTC).date()}


def test_a_line_that_fires_twice_after_a_gap_is_reported_with_the_reason() -> None:
    (entry,) = entries("0,30 2 * * * run")
    found = differences(entry, START)
    assert found is not None
    assert found.only_old == (datetime(2026, 3, 29, 1, tzinfo=UTC),)
    assert found.reason == "the clocks of Europe/Berlin change on that day"


def test_a_line_has_its_command_user_input_and_environment() -> None:
    text = 'SHELL=/bin/sh\nPATH = "/bin:/usr/bin"\n# a comment\n\n5 4 * * * root mail a\\%b %x%y'
    (entry,) = entries(text, is_system=True)
    assert entry.payload == {
        "command": "mail a%b",
        "user": "root",
        "stdin": "x\ny",
        "environment": {"SHELL": "/bin/sh", "PATH": "/bin:/usr/bin"},
    }
    (plain,) = entries("5 4 * * * root run")
    assert plain.payload == {"command": "root run"}


def test_the_zone_of_a_crontab_is_that_of_its_last_line_before() -> None:
    found = entries("0 9 * * * a\nCRON_TZ=Asia/Kolkata\n0 9 * * * b\nCRON_TZ=\n0 9 * * * c")
    assert [entry.fields["timezone"] for entry in found] == [BERLIN, "Asia/Kolkata", BERLIN]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@reboot run", "@reboot has no time; let the service manager of the machine start it"),
        ("@every 5m run", "@every is not known"),
        ("* * * *", "needs five fields for the time, and a command"),
        ("60 * * * * run", "minute: '60' is not valid; give 0 to 59"),
        ("5/10 * * * * run", "a step needs a range"),
        ("0~30 * * * * run", "is random"),
        ("x * * * * run", "minute: 'x' is not a number"),
        ("CRON_TZ=Mars/Base", "CRON_TZ: there is no time zone 'Mars/Base'"),
    ],
)
def test_what_cannot_become_a_schedule_is_refused_with_a_sentence(line: str, reason: str) -> None:
    read = read_crontab(line, timezone="UTC", is_system=False, start=START)
    (refused,) = read.refused
    assert (refused.label, read.entries) == ("line 1", ())
    assert reason in refused.reason


def test_variables_that_are_not_honoured_are_named() -> None:
    text = "MAILTO=ops@example.com\nTZ=UTC\n0 9 * * * run"
    read = read_crontab(text, timezone="UTC", is_system=False, start=START)
    assert [note.split(" is ")[0] for note in read.notes] == ["line 1: MAILTO", "TZ"]
    with pytest.raises(InvalidInput, match="there is no time zone 'x'"):
        read_crontab("", timezone="x", is_system=False, start=START)


def test_rules_that_need_day_and_weekday_become_a_recurrence() -> None:
    (entry,) = entries("0 0 */2 * MON run")
    fields: dict[str, Any] = {**entry.fields}
    assert fields["rrule"].startswith("FREQ=DAILY;BYMONTHDAY=1,3,5")
    assert "BYDAY=MO" in fields["rrule"]
