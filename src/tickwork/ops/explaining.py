"""Explain: a schedule in words, and the clock changes that touch it.

A preview shows the changes among its fires; for a rule that fires every minute the next one
is half a year of fires away. So this looks at the hours around each coming change instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from tickwork.core import when
from tickwork.core.when.zone import timeline
from tickwork.ops.previewing import COUNT_MAX, past_warning, read_question

HORIZON = timedelta(days=2 * 366)
CHANGES_MAX = 12

# The longest gap that is mended is three hours; what it moves lands within as many.
_AROUND = timedelta(hours=4)


class Explanation(Struct, frozen=True):
    """A rule in plain English; `touched` are the fires that a clock change moves or doubles."""

    description: str
    warnings: tuple[str, ...]
    touched: tuple[when.Fire, ...]


def explain_schedule(
    body: Mapping[str, object], *, now: datetime, limits: when.Limits
) -> Explanation:
    """What the body of a preview means, from its `from` on."""
    question = read_question(body, now=now, limits=limits)
    shown = when.preview(question.rule, question.start, question.count)
    warnings = [*past_warning(question.rule, now), *shown.warnings]
    touched: list[when.Fire] = []
    for change in _changes(question.rule.timezone, question.start):
        begin, end = max(question.start, change - _AROUND), change + _AROUND
        near = _around(question.rule, begin, end)
        touched += [fire for fire in near.fires if fire.dst and fire.fire_at <= end]
        warnings += [warning for warning in near.warnings if warning not in warnings]
    return Explanation(shown.description, tuple(warnings), tuple(touched))


def _around(rule: when.Rule, begin: datetime, end: datetime) -> when.Preview:
    """The fires in `(begin, end]` and one more: a preview tells of gaps before its last fire."""
    return when.preview(rule, begin, min(when.count_between(rule, begin, end) + 1, COUNT_MAX))


def _changes(zone: str, start: datetime) -> Iterator[datetime]:
    """The instants within the horizon at which the zone's offset changes."""
    line = timeline(zone)
    last = int((start + HORIZON).timestamp())
    stretch = line.stretch(int(start.timestamp()))
    for _ in range(CHANGES_MAX):
        end = stretch.end
        if end > last:
            return
        stretch = line.stretch(end)
        # A stretch also ends where nobody looked yet; then this is the same one, longer.
        if stretch.start == end:
            yield datetime.fromtimestamp(end, UTC)
