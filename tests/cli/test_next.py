"""`tickwork next` and `tickwork explain`: every timing option and every failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.kit.api import Client, api_client
from tickwork import __version__
from tickwork.cli import app

NOTE = "on 2027-03-14 at 03:00 instead of 02:30"
FROM = ("--from", "2027-03-13T12:00:00Z")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with api_client(tmp_path_factory.mktemp("next")) as started:
        yield started


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def fires(*words: str) -> list[dict[str, Any]]:
    result = run("next", *words, "--json")
    assert result.exit_code == 0, result.stderr
    answer: list[dict[str, Any]] = json.loads(result.stdout)
    return answer


def first(*words: str) -> str:
    return str(fires(*words, *FROM, "--limit", "1")[0]["fire_at"])


def complaint(*words: str, code: int = 2) -> str:
    """Returns the one line that a failing command prints, without its prefix."""
    result = run(*words)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("tickwork: ")
    return lines[0].removeprefix("tickwork: ")


def test_json_is_a_list_of_fires() -> None:
    assert fires("30 2 * * *", "--timezone", "America/New_York", *FROM, "--limit", "2") == [
        {
            "fire_at": "2027-03-14T07:00:00Z",
            "local": "2027-03-14T03:00:00-04:00",
            "dst": "gap",
            "note": NOTE,
        },
        {
            "fire_at": "2027-03-15T06:30:00Z",
            "local": "2027-03-15T02:30:00-04:00",
            "dst": None,
            "note": None,
        },
    ]


def test_the_default_output_is_a_table() -> None:
    result = run("next", "30 2 * * *", "--timezone", "America/New_York", *FROM, "--limit", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "At 02:30, every day, New York time",
        "",
        "local                        UTC                   note",
        f"Sun 2027-03-14 03:00 -04:00  2027-03-14T07:00:00Z  {NOTE}",
        "Mon 2027-03-15 02:30 -04:00  2027-03-15T06:30:00Z",
    ]


def test_seconds_are_shown_if_a_fire_has_any() -> None:
    result = run("next", "--interval-seconds", "1", *FROM, "--limit", "1")
    assert "Sat 2027-03-13 12:00:01 +00:00" in result.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["@hourly"], "2027-03-13T13:00:00Z"),
        (["*/10 * * * * *"], "2027-03-13T12:00:10Z"),
        (["--interval-seconds", "90"], "2027-03-13T12:01:30Z"),
        (["--interval-seconds", "7", "--start-at", "2027-03-13T12:00:05Z"], "2027-03-13T12:00:05Z"),
        (["--daily-time", "09:30"], "2027-03-14T09:30:00Z"),
        (["--daily-time", "9:30", "--timezone", "Asia/Tokyo"], "2027-03-14T00:30:00Z"),
        (["--weekly-time", "0,09:00"], "2027-03-14T09:00:00Z"),
        (["--weekly-time", "MON,09:00"], "2027-03-15T09:00:00Z"),
        (["--weekly-time", "tuesday,09:00"], "2027-03-16T09:00:00Z"),
        (["--weekly-time", "Thu+wed,09:00"], "2027-03-17T09:00:00Z"),
        (["--monthly-time", "15,09:00"], "2027-03-15T09:00:00Z"),
        (["--monthly-time", "last,09:00"], "2027-03-31T09:00:00Z"),
        (
            ["--once-at", "2027-04-01T09:00:00", "--timezone", "Europe/Berlin"],
            "2027-04-01T07:00:00Z",
        ),
        (["--rrule", "FREQ=DAILY", "--start-at", "2020-01-01T09:00:00Z"], "2027-03-14T09:00:00Z"),
    ],
)
def test_every_timing_has_its_option(words: list[str], expected: str) -> None:
    assert first(*words) == expected


def test_the_dst_policies_have_options() -> None:
    rule = ("30 2 * * *", "--timezone", "America/New_York")
    assert first(*rule, "--dst-gap", "shift") == "2027-03-14T07:30:00Z"
    assert first(*rule, "--dst-gap", "skip") == "2027-03-15T06:30:00Z"
    night = ("30 1 * * *", "--timezone", "America/New_York", "--from", "2027-11-07T04:00:00Z")
    assert fires(*night, "--dst-overlap", "last")[0]["fire_at"] == "2027-11-07T06:30:00Z"
    assert [fire["dst"] for fire in fires(*night, "--dst-overlap", "both")[:3]] == [
        "overlap",
        "overlap",
        None,
    ]


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (["0 9 * * 1-5"], {"cron_expr": "0 9 * * 1-5"}),
        (["--interval-seconds", "90"], {"interval_seconds": 90}),
        (
            ["--weekly-time", "1+3,01:30"],
            {"weekly_time": {"day_of_week": [1, 3], "hour": 1, "minute": 30}},
        ),
        (
            ["--monthly-time", "last,02:30"],
            {"monthly_time": {"day": "last", "hour": 2, "minute": 30}},
        ),
        (
            ["--rrule", "FREQ=HOURLY;INTERVAL=5", "--start-at", "2027-01-01T00:00:00"],
            {"rrule": "FREQ=HOURLY;INTERVAL=5", "start_at": "2027-01-01T00:00:00"},
        ),
        (
            ["30 2 * * *", "--dst-gap", "shift"],
            {"cron_expr": "30 2 * * *", "dst": {"gap": "shift"}},
        ),
    ],
)
def test_command_and_server_return_the_same_preview(
    words: list[str], body: dict[str, Any], client: Client
) -> None:
    zone, begin = "America/New_York", "2027-03-12T00:00:00"
    asked = {**body, "timezone": zone, "from": begin, "limit": 40}
    answer = client.post("/v1/schedules/preview", json=asked).json()
    assert fires(*words, "--timezone", zone, "--from", begin, "--limit", "40") == answer["fires"]


@pytest.mark.parametrize(
    ("words", "name", "says"),
    [
        ([], "timing", "none is given"),
        (["@daily", "--daily-time", "09:00"], "timing", "EXPR and --daily-time are given"),
        (["0", "9", "*", "*", "*"], "EXPR", "in quotes"),
        (["61 * * * *"], "EXPR", "minute"),
        (["0 0 30 2 *"], "EXPR", "never fires"),
        (["every day"], "EXPR", "fields"),
        ([""], "EXPR", "is empty"),
        (["\x00 * * * *"], "EXPR", "not valid"),
        (["@daily", "--timezone", "Mars"], "--timezone", "IANA"),
        (["@daily", "--from", "now"], "--from", "ISO 8601"),
        (["@daily", "--from", "2027-02-30T00:00:00"], "--from", "exists"),
        (["@daily", "--limit", "0"], "--limit", "1 to 1000"),
        (["@daily", "--limit", "ten"], "--limit", "whole number"),
        (["@daily", "--dst-gap", "jump"], "--dst-gap", "run_after"),
        (["@daily", "--dst-overlap", "jump"], "--dst-overlap", "first"),
        (["--interval-seconds", "0"], "--interval-seconds", "from 1"),
        (["--interval-seconds", "1.5"], "--interval-seconds", "whole number"),
        (["--daily-time", "24:00"], "--daily-time", "08:30"),
        (["--daily-time", "nine"], "--daily-time", "08:30"),
        (["--weekly-time", "09:00"], "--weekly-time", "MON 08:30"),
        (["--weekly-time", "7,09:00"], "--weekly-time", "0 is Sunday"),
        (["--weekly-time", "MON,9"], "--weekly-time", "08:30"),
        (["--monthly-time", "first,09:00"], "--monthly-time", "1-31"),
        (["--monthly-time", "32,09:00"], "--monthly-time", "1 to 31"),
        (["--once-at", "soon"], "--once-at", "ISO 8601"),
        (["--rrule", "FREQ=DAILY"], "--start-at", "missing"),
        (["--rrule", "FREQ=OFTEN", "--start-at", "2027-01-01T00:00:00Z"], "--rrule", "FREQ"),
    ],
)
@pytest.mark.parametrize("command", ["next", "explain"])
def test_bad_input_is_one_line_with_its_option(
    command: str, words: list[str], name: str, says: str
) -> None:
    if command == "explain" and "--limit" in words:
        says, name = "--limit", "No such option"
    sentence = complaint(command, *words)
    assert sentence.startswith(name)
    assert says in sentence


def test_each_fault_is_one_line() -> None:
    result = run("next", "61 * * * *", "--limit", "0")
    assert result.exit_code == 2
    assert [line.split()[1] for line in result.stderr.splitlines()] == ["--limit:", "EXPR:"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["next", "--nonsense"], "--nonsense"),
        (["next", "@daily", "--timezone"], "--timezone"),
        (["nonsense"], "nonsense"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], says: str) -> None:
    assert says in complaint(*words)


def test_a_rule_without_future_fires_fails() -> None:
    past = ("next", "--once-at", "2020-01-01T00:00:00Z")
    result = run(*past)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "will not fire again" in result.stderr
    as_json = run(*past, "--json")
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (1, [])


def test_warnings_go_to_stderr() -> None:
    result = run("next", "--monthly-time", "31,09:00", "--json")
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == 5
    assert "months without a day 31 are skipped" in result.stderr


def test_explain_lists_the_next_clock_changes() -> None:
    result = run("explain", "30 2 * * *", "--timezone", "America/New_York", *FROM)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "At 02:30, every day, New York time",
        "",
        "Clock changes that affect it:",
        f"  {NOTE}",
        "  on 2028-03-12 at 03:00 instead of 02:30",
        "  on 2029-03-11 at 03:00 instead of 02:30",
    ]


def test_explain_reports_that_no_clock_change_affects_a_rule() -> None:
    result = run("explain", "0 9 * * 1-5", "--timezone", "America/New_York", *FROM)
    assert result.stdout.splitlines() == [
        "At 09:00, Monday to Friday, New York time",
        "No clock change affects it in the next two years.",
    ]


def test_explain_shortens_a_long_list_of_affected_fires() -> None:
    result = run("explain", "* * * * *", "--timezone", "Europe/Berlin", *FROM)
    assert result.stdout.splitlines()[-1] == "  and 230 more"


def test_explain_lists_every_affected_fire_as_json() -> None:
    result = run("explain", "* * * * *", "--timezone", "Europe/Berlin", *FROM, "--json")
    answer = json.loads(result.stdout)
    assert answer.keys() == {"description", "warnings", "touched"}
    assert len(answer["touched"]) == 240


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"tickwork {__version__}\n")


def test_without_a_command_the_help_is_printed_and_it_fails() -> None:
    result = run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


@pytest.mark.parametrize("command", ["next", "explain", "up"])
def test_every_command_has_help(command: str) -> None:
    result = run(command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"Usage: tickwork {command}" in result.stdout
