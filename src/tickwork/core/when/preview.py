"""The coming slots of a rule, with a word wherever a clock change touches one."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice, takewhile

from msgspec import Struct

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

PREVIEW_COUNT_MAX = 1_000

_REACH = timedelta(days=1_000 * 366)
_TIMES_NAMED_MAX = 3
_SEAMS_TOLD_MAX = 20


class ClockChange(StrEnum):
    """How a clock change touches a slot."""

    GAP = "gap"
    OVERLAP = "overlap"


class UpcomingSlot(Struct, frozen=True):
    """One coming slot: the instant, the clock on the wall, and what a change did to it."""

    fire_at: datetime
    local: datetime
    dst: ClockChange | None = None
    note: str | None = None


class Preview(Struct, frozen=True):
    """The answer to *when will it fire*."""

    fires: tuple[UpcomingSlot, ...]
    description: str
    warnings: tuple[str, ...]


def preview(rule: Rule, start: datetime, count: int) -> Preview:
    """The next `count` slots strictly after `start`, but none that only a far future has."""
    last = start + _REACH if start < NEVER - _REACH else NEVER
    slots = takewhile(lambda slot: slot <= last, iterate_slots(rule, start))
    fires = [_fire(rule, slot) for slot in islice(slots, min(max(count, 0), PREVIEW_COUNT_MAX))]
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
        return UpcomingSlot(slot, local, ClockChange.GAP, f"on {_said(local)} {word} {times}")
    return _perhaps_twice(slot, local, stretch)


def _single(rule: Rule, slot: datetime, local: datetime, stretch: Stretch) -> UpcomingSlot:
    """A single instant is touched if it was given in local time; elapsed time never is."""
    wall = rule.timing.wall if isinstance(rule.timing, Once) else None
    if wall is None or rule.timing.at != slot:  # type: ignore[union-attr]
        return UpcomingSlot(slot, local)
    if local.replace(tzinfo=None) != wall:
        return UpcomingSlot(
            slot, local, ClockChange.GAP, f"on {_said(local)} instead of {wall:%H:%M}"
        )
    return _perhaps_twice(slot, local, stretch)


def _perhaps_twice(slot: datetime, local: datetime, stretch: Stretch) -> UpcomingSlot:
    turn = _turn(seconds_of(slot), stretch)
    if turn is None:
        return UpcomingSlot(slot, local)
    clock = f"{local:%H:%M} comes twice on {local:%Y-%m-%d}"
    return UpcomingSlot(slot, local, ClockChange.OVERLAP, f"{clock}; this is the {turn} time")


def _turn(instant: int, stretch: Stretch) -> str | None:
    """Whether the local time of an instant comes twice, and which of the two this is."""
    naive = instant + stretch.offset
    if naive >= stretch.end + stretch.offset_after:
        return "first"
    if naive < stretch.start + stretch.offset_before:
        return "second"
    return None


def _said(local: datetime) -> str:
    return f"{local:%Y-%m-%d} at {local:%H:%M}"


def _clocks(rule: NaiveRule, times: range) -> str:
    """The rule's matches among some naive times, in words; many are not walked one by one."""
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
                warnings.append("H is chosen per schedule; a saved one may get another place")
            if compile_cron(expr, rule.seed).days.either:
                warnings.append("both day fields are restricted: it fires when either matches")
        case Monthly(day=day, short_month=ShortMonth.SKIP) if day is not None and day > 28:
            warnings.append(f'months without a day {day} are skipped; see short_month "last_day"')
        case _:
            pass
    return [*warnings, *_skipped_gaps(rule, start, fires)]


def _skipped_gaps(rule: Rule, start: datetime, fires: list[UpcomingSlot]) -> list[str]:
    """Slots within the preview that a gap swallowed and the policy does not bring back."""
    source = source_of(rule)
    if not isinstance(source, WallClockSource) or not fires:
        return []
    told: list[str] = []
    stretch = source.line.stretch(seconds_of(start))
    last = seconds_of(fires[-1].fire_at)
    while stretch.end <= last and len(told) < _SEAMS_TOLD_MAX:
        stretch = source.line.stretch(stretch.end)
        length = stretch.offset - stretch.offset_before
        if length > 0 and (source.dst.gap is Gap.SKIP or length > GAP_SECONDS_MAX):
            lost = gap_times(stretch)
            if source.rule.count_naive(lost.start, lost.stop):
                day = instant_of(next(matches(source.rule, lost)))
                times = _clocks(source.rule, lost)
                told.append(f"on {day:%Y-%m-%d} {times} does not exist and is skipped")
    return told
