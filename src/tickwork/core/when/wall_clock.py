"""Wall-clock rules in a zone: turns local times into instants.

A wall-clock rule works on naive local times. This module maps it to a zone's timeline, stretch by
stretch, and applies the DST policy where two stretches meet:

```
 gap at `start` (clocks jump ahead)          overlap at `start` (clocks fall back)
 before ────────┤                            before ─────────────┤ both passes
                ├──────── after                           ├──────────── after
 naive times between the two do not exist:   naive times in common occur twice:
 run_after → `start` itself, as one slot     first → only before · last → only after
 shift     → with the offset before          both  → on both sides
 skip      → nowhere
```

A rule that runs around the clock uses the policy `skip` and `both`: it is matched against local
time as it elapses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tickwork.core.when.model import Dst, Gap, Overlap
from tickwork.core.when.zone import Stretch, Timeline

AROUND_THE_CLOCK_DST = Dst(gap=Gap.SKIP, overlap=Overlap.BOTH)

GAP_SECONDS_MAX = 3 * 3600
"""Maximum seconds of a DST gap.

A longer one is a day that a zone skipped; its times are skipped.
"""

_OFFSET_CHANGES_MAX = 1_000
_OFFSET_REACH_SECONDS = 2 * 86_400


class NaiveRule(Protocol):
    """A rule on a clock without a zone, in naive seconds."""

    def next_naive(self, after: int) -> int | None:
        """The first match strictly after, or None if there is none within the search limit."""

    def count_naive(self, start: int, end: int) -> int:
        """Number of matches in `[start, end)`."""


class SingleTimeRule:
    """A rule with a single naive time."""

    __slots__ = ("naive",)

    def __init__(self, naive: int) -> None:
        self.naive = naive

    def next_naive(self, after: int) -> int | None:
        return self.naive if self.naive > after else None

    def count_naive(self, start: int, end: int) -> int:
        return int(start <= self.naive < end)


def resolve(naive: int, line: Timeline, dst: Dst) -> int | None:
    """The instant of one local time under the policy; None if the policy skips it."""
    return next_after(SingleTimeRule(naive), line, dst, naive - _OFFSET_REACH_SECONDS)


def next_after(rule: NaiveRule, line: Timeline, dst: Dst, after: int) -> int | None:
    """The first instant strictly after `after` at which the rule fires."""
    earliest = after + 1
    for _ in range(_OFFSET_CHANGES_MAX):
        stretch = line.stretch(earliest)
        low, high = _allowed_times(stretch, dst)
        begin = max(earliest + stretch.offset, low)
        naive = rule.next_naive(begin - 1)
        found = naive - stretch.offset if naive is not None and naive < high else None
        if _has_gap(stretch) and dst.gap is not Gap.SKIP:
            moved = _first_moved(rule, stretch, dst.gap, earliest)
            if moved is not None and (found is None or moved < found):
                found = moved
        if found is not None:
            return found
        if begin > stretch.end + stretch.offset_after:
            # The clock goes back before `begin`, so earlier naive times occur again.
            earliest = stretch.end
        elif naive is None:
            return None
        else:
            # Nothing matches between `begin` and `naive`: skip the offset changes up to there.
            earliest = max(stretch.end, naive - stretch.offset - _OFFSET_REACH_SECONDS)
    return None


def count_between(rule: NaiveRule, line: Timeline, dst: Dst, after: int, until: int) -> int:
    """Number of instants in `(after, until]` at which the rule fires, without iterating them."""
    total, earliest = 0, after + 1
    while earliest <= until:
        stretch = line.stretch(earliest)
        low, high = _allowed_times(stretch, dst)
        start = max(earliest + stretch.offset, low)
        end = min(until + 1 + stretch.offset, high)
        if start < end:
            total += rule.count_naive(start, end)
        if _has_gap(stretch) and dst.gap is not Gap.SKIP:
            total += _count_moved(rule, stretch, dst.gap, earliest, until)
        earliest = stretch.end
    return total


def moved_gap_times(rule: NaiveRule, stretch: Stretch, instant: int, gap: Gap) -> range:
    """The naive times in the gap before `stretch` that fire at `instant` instead."""
    if not _has_gap(stretch) or gap is Gap.SKIP:
        return range(0)
    times = gap_times(stretch)
    if gap is Gap.SHIFT:
        naive = instant + stretch.offset_before
        times = range(naive, naive + 1) if naive in times else range(0)
    elif instant != stretch.start:
        times = range(0)
    return times if rule.count_naive(times.start, times.stop) else range(0)


def gap_times(stretch: Stretch) -> range:
    """The naive times that do not exist because of a gap at the start of `stretch`."""
    return range(stretch.start + stretch.offset_before, stretch.start + stretch.offset)


def matches(rule: NaiveRule, times: range) -> Iterator[int]:
    """The rule's matches in a range of naive times."""
    naive = rule.next_naive(times.start - 1)
    while naive is not None and naive < times.stop:
        yield naive
        naive = rule.next_naive(naive)


def _allowed_times(stretch: Stretch, dst: Dst) -> tuple[int, int]:
    """The naive times `[low, high)` that may fire in this stretch under the overlap policy."""
    low, high = stretch.start + stretch.offset, stretch.end + stretch.offset
    if dst.overlap is Overlap.FIRST:
        low = max(low, stretch.start + stretch.offset_before)
    elif dst.overlap is Overlap.LAST:
        high = min(high, stretch.end + stretch.offset_after)
    return low, high


def _has_gap(stretch: Stretch) -> bool:
    return 0 < stretch.offset - stretch.offset_before <= GAP_SECONDS_MAX


def _first_moved(rule: NaiveRule, stretch: Stretch, gap: Gap, earliest: int) -> int | None:
    if gap is Gap.RUN_AFTER and earliest > stretch.start:
        return None
    from_instant = max(earliest, stretch.start)
    naive = rule.next_naive(from_instant + stretch.offset_before - 1)
    if naive is None or naive >= stretch.start + stretch.offset:
        return None
    moved = stretch.start if gap is Gap.RUN_AFTER else naive - stretch.offset_before
    return moved if moved < stretch.end else None


def _count_moved(rule: NaiveRule, stretch: Stretch, gap: Gap, earliest: int, until: int) -> int:
    """Number of slots that a gap moved to a time that the rule does not match anyway."""
    lost = gap_times(stretch)
    if gap is Gap.RUN_AFTER:
        here = earliest <= stretch.start <= until and rule.count_naive(lost.start, lost.stop) > 0
        return int(here and not rule.count_naive(lost.stop, lost.stop + 1))
    first = earliest + stretch.offset_before
    last = min(until, stretch.end - 1) + stretch.offset_before
    return sum(
        1
        for naive in matches(rule, lost)
        if first <= naive <= last and not rule.count_naive(naive + len(lost), naive + len(lost) + 1)
    )
