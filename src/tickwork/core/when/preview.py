"""The upcoming slots of a rule, with notes where a clock change affects one."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice, takewhile
from typing import Annotated

from msgspec import Meta, Struct

from tickwork.core.when.cron import compile_cron, uses_hash
from tickwork.core.when.describe import describe
from tickwork.core.when.interval import NEVER
from tickwork.core.when.model import Cron, Gap, Monthly, Once, Rule, ShortMonth
from tickwork.core.when.slot_sources import WallClockSource, source_of
from tickwork.core.when.slots import iterate_slots
from tickwork.core.when.wall_clock import (
    GAP_SECONDS_MAX,
    NaiveRule,
    gap_times,
    matches,
    moved_gap_times,
)
from tickwork.core.when.zone import Stretch, instant_of, seconds_of, timeline

PREVIEW_LIMIT_MAX = 1_000
"""Maximum number of slots in a preview."""

_REACH = timedelta(days=1_000 * 366)
_TIMES_NAMED_MAX = 3
_GAP_WARNINGS_MAX = 20


class ClockChange(StrEnum):
    """How a clock change affects a slot."""

    GAP = "gap"
    OVERLAP = "overlap"


class UpcomingSlot(Struct, frozen=True):
    """One upcoming slot: its instant, its local time, and the effect of a clock change."""

    fire_at: Annotated[datetime, Meta(description="The slot in UTC.")]
    local: Annotated[datetime, Meta(description="The slot in local time of the zone.")]
    dst: Annotated[
        ClockChange | None, Meta(description="How a clock change affects it, if one does.")
    ]
    note: Annotated[str | None, Meta(description="The effect of the clock change in words.")]


class Preview(Struct, frozen=True):
    """Upcoming slots of a rule, its description and warnings."""

    fires: tuple[UpcomingSlot, ...]
    description: Annotated[str, Meta(examples=["At 09:00, Monday to Friday, Berlin time"])]
    warnings: tuple[str, ...]


def preview(rule: Rule, start: datetime, count: int) -> Preview:
    """The next `count` slots strictly after `start`, within the next thousand years."""
    last = start + _REACH if start < NEVER - _REACH else NEVER
    slots = takewhile(lambda slot: slot <= last, iterate_slots(rule, start))
    fires = [_fire(rule, slot) for slot in islice(slots, min(max(count, 0), PREVIEW_LIMIT_MAX))]
    return Preview(tuple(fires), describe(rule), tuple(_warnings(rule, start, fires)))


def _fire(rule: Rule, slot: datetime) -> UpcomingSlot:
    local = slot.astimezone(timeline(rule.timezone).zone)
    source = source_of(rule)
    instant = seconds_of(slot)
    stretch = timeline(rule.timezone).stretch(instant)
    if not isinstance(source, WallClockSource):
        return _single(rule, slot, local, stretch)
    nominal = moved_gap_times(source.rule, stretch, instant, source.dst.gap)
    if nominal:
        natural = instant + stretch.offset
        word = "also for" if source.rule.count_naive(natural, natural + 1) else "instead of"
        times = _clocks(source.rule, nominal)
        return UpcomingSlot(
            slot, local, ClockChange.GAP, f"on {_date_and_time(local)} {word} {times}"
        )
    return _with_overlap_note(slot, local, stretch)


def _single(rule: Rule, slot: datetime, local: datetime, stretch: Stretch) -> UpcomingSlot:
    """A clock change affects a single instant given in local time, but never elapsed time."""
    wall = rule.timing.wall if isinstance(rule.timing, Once) else None
    if wall is None or rule.timing.at != slot:  # type: ignore[union-attr]
        return UpcomingSlot(slot, local, None, None)
    if local.replace(tzinfo=None) != wall:
        return UpcomingSlot(
            slot, local, ClockChange.GAP, f"on {_date_and_time(local)} instead of {wall:%H:%M}"
        )
    return _with_overlap_note(slot, local, stretch)


def _with_overlap_note(slot: datetime, local: datetime, stretch: Stretch) -> UpcomingSlot:
    occurrence = _occurrence(seconds_of(slot), stretch)
    if occurrence is None:
        return UpcomingSlot(slot, local, None, None)
    clock = f"{local:%H:%M} occurs twice on {local:%Y-%m-%d}"
    return UpcomingSlot(slot, local, ClockChange.OVERLAP, f"{clock}; this is the {occurrence} time")


def _occurrence(instant: int, stretch: Stretch) -> str | None:
    """Which occurrence this is, if the local time of an instant occurs twice."""
    naive = instant + stretch.offset
    if naive >= stretch.end + stretch.offset_after:
        return "first"
    if naive < stretch.start + stretch.offset_before:
        return "second"
    return None


def _date_and_time(local: datetime) -> str:
    return f"{local:%Y-%m-%d} at {local:%H:%M}"


def _clocks(rule: NaiveRule, times: range) -> str:
    """The rule's matches in a range of naive times, in words. Many are counted, not listed."""
    count = rule.count_naive(times.start, times.stop)
    if count <= _TIMES_NAMED_MAX:
        return ", ".join(map(_clock, matches(rule, times)))
    first = next(matches(rule, times))
    last, beyond = first, times.stop
    while beyond - last > 1:
        middle = (last + beyond) // 2
        if rule.count_naive(middle, times.stop):
            last = middle
        else:
            beyond = middle
    return f"{_clock(first)} to {_clock(last)} ({count} times)"


def _clock(naive: int) -> str:
    return f"{instant_of(naive):%H:%M}"


def _warnings(rule: Rule, start: datetime, fires: list[UpcomingSlot]) -> list[str]:
    warnings: list[str] = []
    match rule.timing:
        case Cron(expr=expr):
            if uses_hash(expr) and not rule.seed:
                warnings.append(
                    "H depends on the schedule's id; a saved schedule may fire at another time"
                )
            if compile_cron(expr, rule.seed).days.either:
                warnings.append("both day fields are restricted: it fires when either matches")
        case Monthly(day=day, short_month=ShortMonth.SKIP) if day is not None and day > 28:
            warnings.append(f'months without a day {day} are skipped; see short_month "last_day"')
        case _:
            pass
    return [*warnings, *_skipped_gaps(rule, start, fires)]


def _skipped_gaps(rule: Rule, start: datetime, fires: list[UpcomingSlot]) -> list[str]:
    """Warnings for slots within the preview that are skipped because of a gap."""
    source = source_of(rule)
    if not isinstance(source, WallClockSource) or not fires:
        return []
    warnings: list[str] = []
    stretch = source.line.stretch(seconds_of(start))
    last = seconds_of(fires[-1].fire_at)
    while stretch.end <= last and len(warnings) < _GAP_WARNINGS_MAX:
        stretch = source.line.stretch(stretch.end)
        length = stretch.offset - stretch.offset_before
        if length > 0 and (source.dst.gap is Gap.SKIP or length > GAP_SECONDS_MAX):
            gap = gap_times(stretch)
            if source.rule.count_naive(gap.start, gap.stop):
                day = instant_of(next(matches(source.rule, gap)))
                times = _clocks(source.rule, gap)
                warnings.append(f"on {day:%Y-%m-%d} {times} does not exist and is skipped")
    return warnings
