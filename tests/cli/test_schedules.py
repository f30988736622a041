"""`tickwork schedules`, `calendars` and `why`: made, changed and asked about from a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.store.contract import Store

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20261225
DTEND;VALUE=DATE:20261227
SUMMARY:Christmas
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART;VALUE=DATE:20270101
SUMMARY:New Year
END:VEVENT
END:VCALENDAR
"""


async def put(store: Store) -> None:
    await store.queues.put(DEFAULT, "emails", QueueSettings())


@pytest.fixture(autouse=True)
def queue(desk: Desk) -> None:
    desk.store(put)


def made(desk: Desk, *words: str) -> dict[str, object]:
    answer: dict[str, object] = json.loads(
        desk.answer("schedules", "create", *words, "--queue", "emails", "--json")
    )
    return answer


def test_a_schedule_is_made_listed_shown_and_deleted(desk: Desk) -> None:
    schedule = made(
        desk,
        "0 9 * * MON-FRI",
        "--tz",
        "Europe/Berlin",
        "--name",
        "report",
        "--payload",
        '{"a": 1}',
    )
    assert (schedule["kind"], schedule["payload"]) == ("cron", {"a": 1})
    (listed,) = json.loads(desk.answer("schedules", "list", "--json"))
    assert listed["id"] == schedule["id"]
    assert "report" in desk.answer("schedules", "list")
    assert "0 9 * * MON-FRI" in desk.answer("schedules", "show", "report")
    desk.answer("schedules", "delete", "report", "--yes")
    assert desk.answer("schedules", "list") == "there are no schedules\n"


def test_every_operation_answers_with_the_schedule(desk: Desk) -> None:
    made(desk, "--interval-seconds", "60", "--name", "tick")
    for operation, status in (("pause", "paused"), ("resume", "active"), ("trigger", "active")):
        answer = json.loads(desk.answer("schedules", operation, "tick", "--json"))
        assert answer["status"] == status
    answer = json.loads(
        desk.answer("schedules", "update", "tick", "--fields", '{"cron_expr": "@daily"}', "--json")
    )
    assert (answer["kind"], answer["cron_expr"]) == ("cron", "@daily")
    assert len(desk.answer("schedules", "upcoming", "tick", "--count", "3").splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["create", "--queue", "emails"], "timing"),
        (["create", "* * * * *", "--queue", "nowhere"], "nowhere"),
        (["create", "* * * * *", "--queue", "emails", "--payload", "{"], "--payload"),
        (["create", "* * * * *", "--queue", "emails", "--fields", "[]"], "--fields"),
        (["create", "0 0 30 2 *", "--queue", "emails"], "never fires"),
        (["update", "tick"], "nothing to change"),
        (["list", "--status", "sleepy"], "--status"),
        (["backfill", "tick", "--from", "2026-01-01T00:00:00Z"], "--to"),
        (["show"], "SCHEDULE"),
    ],
)
def test_bad_usage_is_one_sentence_and_exit_2(desk: Desk, words: list[str], told: str) -> None:
    refused = desk.run("schedules", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_what_is_not_there_is_told(desk: Desk) -> None:
    refused = desk.run("why", "nothing")
    assert (refused.exit_code, refused.stderr) == (1, "tickwork: there is no schedule nothing\n")


def test_why_says_it_in_a_sentence_and_as_json(desk: Desk) -> None:
    schedule = made(desk, "0 9 * * *", "--name", "report")
    words = desk.answer("why", "report", "--at", "2020-01-01T09:00:00Z")
    assert "the schedule was made later" in words
    asked = desk.answer("why", "report", "--at", str(schedule["next_fire_at"]), "--json")
    answer = json.loads(asked)
    assert (answer["code"], answer["is_slot"]) == ("to_come", True)


def test_firings_are_empty_at_first(desk: Desk) -> None:
    made(desk, "0 9 * * *", "--name", "report")
    assert desk.answer("schedules", "firings", "report") == "there is no record yet\n"
    assert json.loads(desk.answer("schedules", "firings", "report", "--json")) == []


def test_a_calendar_comes_from_an_ics_file_or_from_dates(desk: Desk, tmp_path: Path) -> None:
    ics, dates = tmp_path / "days.ics", tmp_path / "days.txt"
    ics.write_text(ICS, encoding="utf-8")
    dates.write_text("2027-05-01  # a holiday\n\n2027-05-02\n", encoding="utf-8")
    answer = json.loads(desk.answer("calendars", "put", "closed", str(ics), "--json"))
    days = answer["calendar"]["days"]
    assert days[:3] == ["2026-12-25", "2026-12-26", "2027-01-01"]
    assert "2030-12-26" in days
    desk.answer("calendars", "put", "closed", str(dates))
    assert desk.answer("calendars", "show", "closed") == "2027-05-01\n2027-05-02\n"
    made(desk, "0 9 * * *", "--fields", '{"calendar": "closed"}', "--name", "report")
    assert desk.run("calendars", "delete", "closed").exit_code == 1
    desk.answer("schedules", "delete", "report", "--yes")
    desk.answer("calendars", "delete", "closed")
    assert desk.answer("calendars", "list") == "there are no calendars\n"


def test_a_bad_calendar_is_told_by_line(desk: Desk, tmp_path: Path) -> None:
    dates = tmp_path / "days.txt"
    dates.write_text("2027-05-01\n2027-13-01\n", encoding="utf-8")
    refused = desk.run("calendars", "put", "closed", str(dates))
    assert refused.exit_code == 2
    assert "line 2" in refused.stderr
