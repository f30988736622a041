"""Previews: the upcoming slots, with a note where a clock change affects one."""

from datetime import UTC, datetime

import pytest

from tests.when.work import at_most
from tickwork.core import when

NEW_YORK = "America/New_York"
BEFORE_GAP = datetime(2027, 3, 13, 12, tzinfo=UTC)
BEFORE_OVERLAP = datetime(2027, 11, 6, 12, tzinfo=UTC)


def preview(start: datetime, count: int, **fields: object) -> when.Preview:
    return when.preview(when.parse({"timezone": NEW_YORK, **fields}), start, count)


#: (cron, policy, what the fire of 14 March 2027 says: 02:00 becomes 03:00)
OVER_THE_GAP = [
    ("30 2 * * *", "run_after", "03:00", "on 2027-03-14 at 03:00 instead of 02:30"),
    ("30 2 * * *", "shift", "03:30", "on 2027-03-14 at 03:30 instead of 02:30"),
    ("0,30 2 * * *", "run_after", "03:00", "on 2027-03-14 at 03:00 instead of 02:00, 02:30"),
    ("*/10 2 * * *", "run_after", "03:00",
     "on 2027-03-14 at 03:00 instead of 02:00 to 02:50 (6 times)"),
    ("0 2,3 * * *", "run_after", "03:00", "on 2027-03-14 at 03:00 also for 02:00"),
    ("30 2,3 * * *", "shift", "03:30", "on 2027-03-14 at 03:30 also for 02:30"),
    ("30 3 * * *", "run_after", "03:30", None),
    ("0 3 * * *", "run_after", "03:00", None),
    ("0 */3 * * *", "run_after", "03:00", None),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "gap", "clock", "note"), OVER_THE_GAP)
def test_a_moved_slot_notes_its_nominal_time(
    expression: str, gap: str, clock: str, note: str | None
) -> None:
    fires = preview(BEFORE_GAP, 9, cron_expr=expression, dst={"gap": gap}).fires
    (fire,) = [fire for fire in fires if f"{fire.local:%dT%H:%M}" == f"14T{clock}"]
    assert fire.note == note
    assert fire.dst == (None if note is None else "gap")


def test_a_local_time_carries_its_offset() -> None:
    (fire,) = preview(BEFORE_GAP, 1, cron_expr="30 2 * * *").fires
    assert fire.fire_at.isoformat() == "2027-03-14T07:00:00+00:00"
    assert fire.local.isoformat() == "2027-03-14T03:00:00-04:00"


@pytest.mark.parametrize(
    ("overlap", "turns"),
    [("first", ["first"]), ("last", ["second"]), ("both", ["first", "second"])],
)
def test_a_time_that_occurs_twice_notes_which_one_it_is(overlap: str, turns: list[str]) -> None:
    shown = preview(BEFORE_OVERLAP, 3, cron_expr="30 1 * * *", dst={"overlap": overlap})
    touched = [fire for fire in shown.fires if fire.dst is not None]
    assert [fire.dst for fire in touched] == ["overlap"] * len(turns)
    assert [fire.note for fire in touched] == [
        f"01:30 occurs twice on 2027-11-07; this is the {turn} time" for turn in turns
    ]
    assert shown.warnings == ()


def test_an_hourly_rule_shows_both_occurrences() -> None:
    fires = preview(BEFORE_OVERLAP.replace(day=7, hour=4), 4, cron_expr="0 * * * *").fires
    assert [fire.note is not None for fire in fires] == [True, True, False, False]


def test_an_interval_has_no_clock_change_notes() -> None:
    shown = preview(BEFORE_GAP, 50, interval_minutes=30)
    assert all(fire.dst is None for fire in shown.fires)


def test_a_skipped_time_is_a_warning() -> None:
    shown = preview(BEFORE_GAP, 2, cron_expr="30 2 * * *", dst={"gap": "skip"})
    assert [f"{fire.local:%d}" for fire in shown.fires] == ["15", "16"]
    assert shown.warnings == ("on 2027-03-14 02:30 does not exist and is skipped",)


def test_no_warning_about_what_lies_beyond_the_preview() -> None:
    early = datetime(2027, 3, 1, tzinfo=UTC)
    assert preview(early, 2, cron_expr="30 2 * * *", dst={"gap": "skip"}).warnings == ()


def test_a_skipped_day_is_one_warning_however_many_slots_it_had() -> None:
    rule = when.parse(
        {"cron_expr": "* * * * * *", "timezone": "Pacific/Apia"},
        limits=when.Limits(min_interval_seconds=1),
    )
    with at_most(40_000):
        shown = when.preview(rule, datetime(2011, 12, 30, 9, 59, 50, tzinfo=UTC), 60)
    assert shown.warnings == (
        "on 2011-12-30 00:00 to 23:59 (86400 times) does not exist and is skipped",
    )


WARNED = [
    ({"cron_expr": "H 9 * * *"},
    ("H depends on the schedule's id; a saved schedule may fire at another time",)), ({"cron_expr":
    "0 9 * * THU"}, ()), ({"cron_expr": "0 9 13 * 5"},
     ("both day fields are restricted: it fires when either matches",)),
    ({"cron_expr": "0 9 */2 * 5"}, ()),
    ({"monthly_time": {"day": 31, "hour": 9, "minute": 0}},
     ('months without a day 31 are skipped; see short_month "last_day"',)),
    ({"monthly_time": {"day": 31, "hour": 9, "minute": 0, "short_month": "last_day"}}, ()),
    ({"monthly_time": {"day": 28, "hour": 9, "minute": 0}}, ()),
    ({"once_at": "2027-03-20T09:00:00Z"}, ()),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "warnings"), WARNED, ids=str)
def test_surprising_rules_have_a_warning(
    fields: dict[str, object], warnings: tuple[str, ...]
) -> None:
    assert when.preview(when.parse(fields), BEFORE_GAP, 3).warnings == warnings


def test_a_hashed_value_of_a_saved_schedule_has_no_warning() -> None:
    rule = when.parse({"cron_expr": "H 9 * * *"}, seed="a schedule")
    assert when.preview(rule, BEFORE_GAP, 1).warnings == ()


def test_a_single_time_in_the_past_has_no_fires_but_a_first_slot() -> None:
    rule = when.parse({"once_at": "2027-03-12T09:00:00Z"})
    assert when.preview(rule, BEFORE_GAP, 5).fires == ()
    assert when.first_slot(rule, BEFORE_GAP) == BEFORE_GAP


@pytest.mark.parametrize(("asked", "given"), [(-1, 0), (0, 0), (1, 1), (7, 7), (5_000, 1_000)])
def test_there_are_as_many_fires_as_asked_for_up_to_a_thousand(asked: int, given: int) -> None:
    rule = when.parse({"cron_expr": "* * * * *"})
    assert len(when.preview(rule, BEFORE_GAP, asked).fires) == given


@pytest.mark.parametrize(
    ("bound", "count"),
    [({"max_firings": 3}, 3), ({"end_at": "2027-03-13T12:05:00Z"}, 5), ({"max_firings": 9}, 9)],
)
def test_a_preview_ends_where_the_schedule_does(bound: dict[str, object], count: int) -> None:
    rule = when.parse({"cron_expr": "* * * * *", **bound})
    assert len(when.preview(rule, BEFORE_GAP, 50).fires) == count


def test_a_preview_describes_the_rule() -> None:
    shown = preview(BEFORE_GAP, 1, cron_expr="0 9 * * MON-FRI")
    assert shown.description == "At 09:00, Monday to Friday, New York time"
