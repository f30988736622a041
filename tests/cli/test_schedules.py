"""`tickwork schedules`, `calendars` and `why`."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.kit import Desk, kill
from tickwork.core.answers.schedule import Why
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.core.schedule.firing import ChannelOutcome, FiringResult, FiringStatus
from tickwork.ops.context import Context
from tickwork.ops.schedules.why import why
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


def test_a_schedule_is_created_listed_shown_and_deleted(desk: Desk) -> None:
    schedule = made(
        desk,
        "0 9 * * MON-FRI",
        "--timezone",
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


def test_every_operation_shows_the_schedule(desk: Desk) -> None:
    made(desk, "--interval-seconds", "60", "--name", "tick")
    for operation, status in (("pause", "paused"), ("resume", "active"), ("trigger", "active")):
        answer = json.loads(desk.answer("schedules", operation, "tick", "--json"))
        assert answer["status"] == status
    answer = json.loads(
        desk.answer("schedules", "update", "tick", "--fields", '{"cron_expr": "@daily"}', "--json")
    )
    assert (answer["kind"], answer["cron_expr"]) == ("cron", "@daily")
    assert len(desk.answer("schedules", "upcoming", "tick", "--limit", "3").splitlines()) == 4


def test_a_missing_target_is_named_by_its_options(desk: Desk) -> None:
    refused = desk.run("schedules", "create", "@daily", "--name", "tick")
    says = "tickwork: a target is missing; give --queue, --target-url or --endpoint\n"
    assert (refused.exit_code, refused.stderr) == (2, says)


TIMINGS: list[tuple[list[str], dict[str, object]]] = [
    (["0 9 * * MON"], {"cron_expr": "0 9 * * MON"}),
    (["--interval-seconds", "90"], {"interval_seconds": 90}),
    (["--daily-time", "08:30"], {"daily_time": {"hour": 8, "minute": 30}}),
    (["--weekly-time", "MON,08:30"], {"weekly_time": {"day_of_week": 1, "hour": 8, "minute": 30}}),
    (["--monthly-time", "last,08:30"], {"monthly_time": {"day": "last", "hour": 8, "minute": 30}}),
    (["--once-at", "2099-01-01T09:00:00Z"], {"once_at": "2099-01-01T09:00:00Z"}),
    (
        ["--rrule", "FREQ=DAILY", "--start-at", "2027-01-01T09:00:00Z"],
        {"rrule": "FREQ=DAILY", "start_at": "2027-01-01T09:00:00Z"},
    ),
]


@pytest.mark.parametrize(("words", "fields"), TIMINGS)
def test_an_update_takes_every_timing_that_create_takes(
    desk: Desk, words: list[str], fields: dict[str, object]
) -> None:
    """The timing replaces the old one, and nothing else changes."""
    kept = ["--name", "tick", "--payload", '{"a": 1}', "--timezone", "Europe/Berlin"]
    before = made(desk, "*/5 * * * *", *kept)
    patched = json.loads(desk.answer("schedules", "update", "tick", *words, "--json"))
    created = made(desk, *words, "--timezone", "Europe/Berlin")
    timing = {"cron_expr", *(name for _, one in TIMINGS for name in one), "kind"}
    assert {name: created.get(name) for name in timing} == {
        name: patched.get(name) for name in timing
    }
    assert {**patched, **fields} == patched
    for name in ("id", "name", "payload", "timezone", "target", "created_at"):
        assert patched[name] == before[name]


def test_an_update_of_a_zone_or_a_policy_leaves_the_timing(desk: Desk) -> None:
    made(desk, "30 2 * * *", "--name", "tick", "--dst-gap", "skip")
    words = ["--timezone", "Europe/Berlin", "--dst-overlap", "both", "--queue", "emails"]
    patched = json.loads(desk.answer("schedules", "update", "tick", *words, "--json"))
    assert (patched["cron_expr"], patched["timezone"]) == ("30 2 * * *", "Europe/Berlin")
    assert patched["dst"] == {"gap": "skip", "overlap": "both"}
    assert "Europe/Berlin" in desk.answer("schedules", "update", "tick", "--message-type", "report")


def test_a_zone_option_applies_to_a_timing_in_fields(desk: Desk) -> None:
    fields = '{"daily_time": {"hour": 9, "minute": 0}}'
    schedule = made(desk, "--fields", fields, "--timezone", "Europe/Berlin")
    assert schedule["timezone"] == "Europe/Berlin"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["EXPR", "--daily-time", "08:30"], "timing: give exactly one of"),
        (["0 0 30 2 *"], "EXPR: never fires"),
        (["--interval-seconds", "often"], "--interval-seconds: must be a whole number"),
        (["--interval-seconds", "1"], "--interval-seconds: fires 1 s apart"),
        (["--timezone", "Mars/Olympus"], "--timezone: "),
        (["--daily-time", "25:00"], "--daily-time: "),
        (["--dst-gap", "jump"], "--dst-gap: "),
        (["--rrule", "FREQ=DAILY"], "--start-at: "),
        (["--queue", "nowhere"], "--queue: there is no queue 'nowhere'"),
        (["--fields", '{"cron_expr": "61 * * * *"}'], "cron_expr: "),
        (["--fields", '{"overlap": "never"}'], "overlap: "),
        (["--daily-time", "08:30", "--fields", '{"cron_expr": "@daily"}'], "cron_expr"),
    ],
)
def test_a_bad_update_names_the_option(desk: Desk, words: list[str], told: str) -> None:
    made(desk, "*/5 * * * *", "--name", "tick")
    before = desk.answer("schedules", "show", "tick")
    refused = desk.run("schedules", "update", "tick", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert told in refused.stderr
    assert desk.answer("schedules", "show", "tick") == before


def test_a_bad_backfill_range_names_its_options(desk: Desk) -> None:
    made(desk, "@daily", "--name", "daily")
    span = ["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"]
    refused = desk.run("schedules", "backfill", "daily", *span)
    assert (refused.exit_code, refused.stderr) == (2, "tickwork: --to: must not be before from\n")


def test_upcoming_lists_the_fires_of_all_schedules_in_their_zones(desk: Desk) -> None:
    assert desk.answer("upcoming") == "nothing will fire\n"
    made(
        desk,
        "--once-at",
        "2060-01-01T12:00:00Z",
        "--timezone",
        "America/New_York",
        "--name",
        "there",
    )
    made(desk, "--once-at", "2060-01-01T11:00:00Z", "--timezone", "Europe/Berlin", "--name", "here")
    lines = [line.split() for line in desk.answer("upcoming").splitlines()]
    assert lines[0] == ["fire_at", "timezone", "schedule", "name"]
    assert [*lines[1][:4], lines[1][-1]] == [
        *("2060-01-01", "12:00:00", "CET", "Europe/Berlin", "here")
    ]
    assert [*lines[2][:4], lines[2][-1]] == [
        *("2060-01-01", "07:00:00", "EST", "America/New_York", "there")
    ]
    (first,) = desk.json("upcoming", "--limit", "1")
    assert (first["name"], first["fire_at"]) == ("here", "2060-01-01T11:00:00Z")
    assert desk.json("upcoming", "--until", "2059-01-01T00:00:00Z") == []
    both = desk.run("upcoming", "--tonight", "--until", "2059-01-01T00:00:00Z")
    assert (both.exit_code, both.stdout) == (2, "")


def test_tonight_ends_in_the_morning(desk: Desk) -> None:
    made(desk, "--interval-seconds", "3600", "--name", "hourly")
    made(desk, "--once-at", "2060-01-01T11:00:00Z", "--name", "later")
    found = desk.json("upcoming", "--tonight")
    assert {fire["name"] for fire in found} <= {"hourly"}
    assert len(found) <= 24


def test_upcoming_shows_the_real_fires(desk: Desk) -> None:
    made(desk, "0 9 * * *", "--name", "daily", "--fields", '{"max_firings": 3}')
    assert len(desk.json("schedules", "upcoming", "daily")["fires"]) == 3
    assert len(desk.answer("schedules", "upcoming", "daily", "--limit", "2").splitlines()) == 3
    for count in ("0", "-1", "1001"):
        refused = desk.run("schedules", "upcoming", "daily", "--limit", count)
        told = f"tickwork: --limit: must be a whole number from 1 to 1000, not {count}\n"
        assert (refused.exit_code, refused.stderr) == (2, told)
    desk.answer("schedules", "pause", "daily")
    paused = "it is paused, and will not fire until it is resumed\n"
    assert desk.answer("schedules", "upcoming", "daily") == paused
    assert desk.json("schedules", "upcoming", "daily") == {"fires": []}
    deleted = json.loads(desk.answer("schedules", "delete", "daily", "--yes", "--json"))["id"]
    assert desk.answer("schedules", "upcoming", deleted) == "it will not fire again\n"


def test_the_advice_for_a_missing_queue_works(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    refused = desk.run("schedules", "create", "@daily", "--queue", "letters")
    assert refused.exit_code == 2
    entry = re.search(r"(\[\[queues\]\]) with (name = 'letters') in (\S+),", refused.stderr)
    assert entry is not None, refused.stderr
    (desk.folder / entry[3]).write_text(f"{entry[1]}\n{entry[2]}\n")
    assert refused.stderr.endswith("and tickwork topology apply\n")
    desk.answer("topology", "apply")
    desk.answer("schedules", "create", "@daily", "--queue", "letters")


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
def test_bad_usage_is_one_line_and_exits_with_2(desk: Desk, words: list[str], told: str) -> None:
    refused = desk.run("schedules", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unknown_schedule_is_reported(desk: Desk) -> None:
    refused = desk.run("why", "nothing")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("tickwork: there is no schedule nothing; find a deleted one")


def test_why_answers_in_a_sentence_and_as_json(desk: Desk) -> None:
    schedule = made(desk, "0 9 * * *", "--name", "report")
    asked = desk.answer("why", "report", "--at", str(schedule["next_fire_at"]), "--json")
    answer = json.loads(asked)
    assert (answer["code"], answer["is_slot"]) == ("to_come", True)


@pytest.mark.parametrize("at", [None, "2020-01-01T09:00:00Z", "2099-01-01T09:07:00Z"])
@pytest.mark.parametrize("operation", ["show", "pause", "delete"])
def test_why_answers_the_same_on_the_command_line_and_in_python(
    desk: Desk, at: str | None, operation: str
) -> None:
    schedule = made(desk, "0 9 * * *", "--name", "report")
    desk.answer("schedules", operation, "report", *(["--yes"] if operation == "delete" else []))
    named = str(schedule["id"])
    moment = None if at is None else datetime.fromisoformat(at)

    async def ask(store: Store) -> Why:
        return await why(Context(store, DEFAULT), named, moment)

    words = [] if at is None else ["--at", at]
    answer, shown = desk.store(ask), desk.json("why", named, *words)
    # Seconds pass between the questions: how long it is until then is another number.
    assert (shown["code"], _still(shown["answer"])) == (answer.code, _still(answer.answer))
    line = desk.answer("why", named, *words).splitlines()[0]
    assert _still(line.partition(": ")[2]) == _still(answer.answer)


def _still(answer: str) -> str:
    return re.sub(r", [^,]* from now", "", answer)


def test_firings_are_empty_at_first(desk: Desk) -> None:
    made(desk, "0 9 * * *", "--name", "report")
    assert desk.answer("schedules", "firings", "report") == "there are no firings\n"
    assert json.loads(desk.answer("schedules", "firings", "report", "--json")) == []


def test_firings_show_their_result_and_the_channels_that_failed(desk: Desk) -> None:
    made(desk, "0 9 * * *", "--name", "report")
    desk.answer("schedules", "trigger", "report")
    channels = (
        ChannelOutcome("email", "failed", "no such user"),
        ChannelOutcome("slack", "succeeded", "ok"),
    )
    result = FiringResult(
        status=FiringStatus.FAILED, result_code=500, excerpt="out of order", channels=channels
    )
    desk.store(lambda store: kill(store, "emails", reason="rejected", effects=(result,)))
    heading, row = desk.answer("schedules", "firings", "report").splitlines()
    assert heading.endswith("  result")
    assert row.endswith("  500 out of order; email failed: no such user")


def test_a_calendar_is_created_from_an_ics_file_or_dates(desk: Desk, tmp_path: Path) -> None:
    ics, dates = tmp_path / "days.ics", tmp_path / "days.txt"
    ics.write_text(ICS, encoding="utf-8")
    dates.write_text("2027-05-01  # a holiday\n\n2027-05-02\n", encoding="utf-8")
    answer = json.loads(desk.answer("calendars", "put", "closed", str(ics), "--json"))
    days = answer["days"]
    assert days[:3] == ["2026-12-25", "2026-12-26", "2027-01-01"]
    assert "2030-12-26" in days
    desk.answer("calendars", "put", "closed", str(dates))
    assert desk.answer("calendars", "show", "closed") == "2027-05-01\n2027-05-02\n"
    made(desk, "0 9 * * *", "--fields", '{"calendar": "closed"}', "--name", "report")
    assert desk.run("calendars", "delete", "closed").exit_code == 1
    desk.answer("schedules", "delete", "report", "--yes")
    desk.answer("calendars", "delete", "closed")
    assert desk.answer("calendars", "list") == "there are no calendars\n"


@pytest.mark.parametrize("text", [ICS, "2026-12-25\n"])
def test_a_calendar_file_may_have_a_byte_order_mark(desk: Desk, tmp_path: Path, text: str) -> None:
    file = tmp_path / "marked"
    file.write_text(text, encoding="utf-8-sig")
    assert "2026-12-25" in desk.answer("calendars", "put", "marked", str(file), "--json")


def test_the_fault_of_a_calendar_file_names_its_line(desk: Desk, tmp_path: Path) -> None:
    dates = tmp_path / "days.txt"
    dates.write_text("2027-05-01\n2027-13-01\n", encoding="utf-8")
    refused = desk.run("calendars", "put", "closed", str(dates))
    assert refused.exit_code == 2
    assert "line 2" in refused.stderr


def test_schedules_are_listed_by_owner_name_prefix_and_metadata(desk: Desk) -> None:
    made(desk, "@daily", "--name", "report:a", "--fields", '{"owner": "ada"}')
    made(desk, "@daily", "--name", "report:b", "--fields", '{"metadata": {"plan": "pro"}}')

    def names(*words: str) -> list[object]:
        listed = json.loads(desk.answer("schedules", "list", *words, "--json"))
        return [schedule["name"] for schedule in listed]

    assert names("--owner", "ada") == ["report:a"]
    assert names("--name-prefix", "report:") == ["report:a", "report:b"]
    assert names("--metadata", '{"plan": "pro"}') == ["report:b"]
