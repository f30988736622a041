"""A zone's timeline agrees with zoneinfo at every instant."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from tests.when.work import at_most
from tests.when.zones import DAY_SECONDS, offset_seconds, transitions
from tickwork.core import when
from tickwork.core.when.wall_clock import NaiveRule
from tickwork.core.when.wall_clock import next_after as wall_next
from tickwork.core.when.zone import Stretch, Timeline, timeline

ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Europe/Dublin", "Australia/Lord_Howe",
         "Africa/Casablanca", "Africa/Monrovia", "Antarctica/Troll", "Pacific/Apia", "Asia/Tehran",
         "America/St_Johns", "Asia/Kathmandu")  # fmt: skip
FIRST, LAST = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2500))
CYCLE_SECONDS = 146_097 * DAY_SECONDS


def instants(zone: str, rng: Random) -> list[int]:
    """Anywhere in six centuries, and beside every change of 2020-2037."""
    found = [rng.randrange(FIRST, LAST) for _ in range(25)]
    for change in transitions(zone)[:10]:
        found += [change.at + beside for beside in (-86_400, -1, 0, 1, 3_599, 3_600)]
    rng.shuffle(found)
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_the_stretch_of_an_instant_has_its_offset(zone: str) -> None:
    info, line = ZoneInfo(zone), Timeline(ZoneInfo(zone))
    for instant in instants(zone, Random(zone)):
        stretch = line.stretch(instant)
        assert stretch.start <= instant < stretch.end
        assert stretch.offset == offset_seconds(info, instant)
        assert stretch.offset_before == offset_seconds(info, stretch.start - 1)
        assert stretch.offset_after == offset_seconds(info, stretch.end)
        assert offset_seconds(info, stretch.end - 1) == stretch.offset


@pytest.mark.parametrize("zone", ZONES)
def test_consecutive_stretches_cover_every_change_without_holes(zone: str) -> None:
    line = Timeline(ZoneInfo(zone))
    start, end = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2020, 2038))
    changes, instant = [], start
    while instant < end:
        stretch = line.stretch(instant)
        if stretch.offset_after != stretch.offset and stretch.end < end:
            changes.append((stretch.end, stretch.offset, stretch.offset_after))
        instant = stretch.end
    expected = [
        (transition.at, transition.before_seconds, transition.after_seconds)
        for transition in transitions(zone)
    ]
    assert changes == expected


@pytest.mark.parametrize("zone", ZONES)
def test_the_order_of_questions_does_not_matter(zone: str) -> None:
    asked = instants(zone, Random(zone))
    forward, backward = Timeline(ZoneInfo(zone)), Timeline(ZoneInfo(zone))
    ahead = {instant: forward.stretch(instant) for instant in sorted(asked)}
    back = {instant: backward.stretch(instant) for instant in sorted(asked, reverse=True)}
    assert ahead == back


@pytest.mark.parametrize("zone", ZONES)
def test_a_stretch_does_not_end_shortly_before_a_change(zone: str) -> None:
    """Otherwise an overlap across its end would be missed."""
    info, line = ZoneInfo(zone), Timeline(ZoneInfo(zone))
    instant = FIRST
    while instant < FIRST + 150 * 366 * DAY_SECONDS:
        stretch = line.stretch(instant)
        if stretch.offset_after == stretch.offset:
            near = range(stretch.end, stretch.end + DAY_SECONDS, 1_800)
            assert {offset_seconds(info, second) for second in near} == {stretch.offset}
        instant = stretch.end


SEAMS: list[dict[str, object]] = [
    {"cron_expr": "*/20 * * * *"}, {"cron_expr": "*/20 0-4 * * *"}, {"interval_minutes": 30},
    {"cron_expr": "*/20 0-4 * * *", "dst": {"gap": "shift"}},
    {"cron_expr": "10,50 0-4 * * *", "dst": {"gap": "shift", "overlap": "last"}},
    {"cron_expr": "10,50 0-4 * * *", "dst": {"gap": "shift", "overlap": "both"}},
    {"cron_expr": "10,50 0-4 * * *", "dst": {"gap": "skip", "overlap": "first"}},
]  # fmt: skip


@pytest.mark.parametrize("fields", SEAMS, ids=str)
@pytest.mark.parametrize("seconds", [1_500, 18_000, 172_800])
def test_chunk_boundaries_do_not_affect_slots(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, object], seconds: int
) -> None:
    for zone in ("Europe/Berlin", "Antarctica/Troll", "America/Nuuk", "Australia/Lord_Howe"):
        for change in transitions(zone)[:4]:
            day = min(change.wall_before, change.wall_after).date().isoformat()
            whole = {**fields, "timezone": zone, "exclude": [day] if seconds == 172_800 else []}
            start = change.instant - timedelta(hours=20)
            end = change.instant + timedelta(hours=30)
            usual = slots_and_count(whole, start, end)
            with monkeypatch.context() as patch:
                patch.setattr("tickwork.core.when.zone._CHUNK_SECONDS", seconds)
                patch.setattr("tickwork.core.when.slot_sources.timeline", fresh_timeline)
                cut = slots_and_count({**whole, "max_firings": 10**9 - seconds}, start, end)
            assert cut == usual
            assert len(usual[0]) == usual[1]


def test_a_moved_slot_beyond_a_chunk_boundary_keeps_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In Lord Howe 02:10 moves to 02:40, past 02:35; the chunk boundary lies between."""
    monkeypatch.setattr("tickwork.core.when.zone._CHUNK_SECONDS", 300)
    monkeypatch.setattr("tickwork.core.when.slot_sources.timeline", fresh_timeline)
    zone = "Australia/Lord_Howe"
    (gap,) = [
        transition
        for transition in transitions(zone)[:2]
        if transition.after_seconds > transition.before_seconds
    ]
    fields = {"cron_expr": "10,35 2 * * *", "timezone": zone, "dst": {"gap": "shift"}}
    start, end = gap.instant - timedelta(hours=1), gap.instant + timedelta(hours=1)
    slots, count = slots_and_count({**fields, "max_firings": 999}, start, end)
    assert [slot - gap.instant for slot in slots] == [timedelta(minutes=5), timedelta(minutes=10)]
    assert count == 2


def slots_and_count(
    fields: dict[str, object], start: datetime, end: datetime
) -> tuple[list[datetime], int]:
    rule = when.parse(fields, created_at=start)
    return when.slots_between(rule, start, end), when.count_between(rule, start, end)


def fresh_timeline(name: str) -> Timeline:
    return Timeline(ZoneInfo(name))


@pytest.mark.parametrize("zone", ZONES)
def test_a_zone_repeats_every_400_years(zone: str) -> None:
    info, line, rng = ZoneInfo(zone), Timeline(ZoneInfo(zone)), Random(zone)
    for _ in range(40):
        instant = rng.randrange(LAST - CYCLE_SECONDS, LAST)
        for cycles in (1, 5, 18):
            later = instant + cycles * CYCLE_SECONDS
            stretch = line.stretch(later)
            assert stretch.start <= later < stretch.end
            assert stretch.offset == offset_seconds(info, later)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_instants_before_1900_have_the_offset_of_1900(zone: str) -> None:
    line = Timeline(ZoneInfo(zone))
    assert line.stretch(-60_000_000_000) == line.stretch(FIRST)


def test_far_instants_cost_no_more_than_near_ones() -> None:
    line = timeline("Europe/Vienna")
    line.stretch(FIRST + 3_000_000_000)
    for instant in (-62_000_000_000, LAST + 5, 253_000_000_000):
        with at_most(8_000):
            line.stretch(instant)


def test_threads_see_one_timeline() -> None:
    line, asked = Timeline(ZoneInfo("Europe/Berlin")), instants("Europe/Berlin", Random(1))

    def ask(seed: int) -> list[Stretch]:
        shuffled = Random(seed).sample(asked, len(asked))
        found = {instant: line.stretch(instant) for instant in shuffled}
        return [found[instant] for instant in asked]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(16)))
    assert all(answer == answers[0] for answer in answers)


class EveryHalfHour:
    """The plainest naive rule."""

    def next_naive(self, after: int) -> int | None:
        return after // 1_800 * 1_800 + 1_800

    def count_naive(self, start: int, end: int) -> int:
        return max(-(-end // 1_800) - -(-start // 1_800), 0)


def fresh_answers(zone: str, first: int, dst: when.Dst) -> Iterator[int | None]:
    """Each answer from a timeline that has been asked nothing else."""
    rule: NaiveRule = EveryHalfHour()
    for instant in range(first, first + 7_200, 900):
        yield wall_next(rule, Timeline(ZoneInfo(zone)), dst, instant)


@pytest.mark.parametrize("overlap", list(when.Overlap))
def test_an_answer_does_not_depend_on_what_was_asked_before(overlap: when.Overlap) -> None:
    dst, zone = when.Dst(overlap=overlap), "Antarctica/Troll"
    line = Timeline(ZoneInfo(zone))
    for change in transitions(zone)[:12]:
        first = change.at - 7_500
        known = [
            wall_next(EveryHalfHour(), line, dst, at) for at in range(first, first + 7_200, 900)
        ]
        assert known == list(fresh_answers(zone, first, dst))


def test_local_times_of_long_ago_have_odd_seconds() -> None:
    """Until 1972 Monrovia was 44 minutes and 30 seconds behind."""
    rule = when.parse({"cron_expr": "0 0 * * *", "timezone": "Africa/Monrovia"})
    after = datetime(1972, 1, 6, tzinfo=UTC)
    slots = when.slots_between(rule, after, after + timedelta(days=3))
    assert [f"{slot:%dT%H:%M:%S}" for slot in slots] == [
        "06T00:44:30", "07T00:44:30", "08T00:00:00", "09T00:00:00",
    ]  # fmt: skip
