"""Previews the next fires of a schedule that need not exist, and explains it in words.

A preview shows the clock changes among its fires. For a rule that fires every minute the next
change is half a year of fires away, so `explain_schedule` looks at the hours around each change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from msgspec import Struct, structs

from tickwork.core import when
from tickwork.core.fields import Reader
from tickwork.core.when.zone import timeline
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import Holidays, holidays_among, limits_of

LIMIT_DEFAULT = 5
LIMIT_MAX = when.PREVIEW_LIMIT_MAX
PREVIEW_FIELDS = when.RULE_FIELDS | {"limit", "from"}

_ZONE_FIELDS = ("timezone", "dst")


class Question(Struct, frozen=True):
    """The input of a preview: the rule, the start, and the number of fires."""

    rule: when.Rule
    start: datetime
    limit: int


def preview_schedule(
    body: Mapping[str, object],
    *,
    now: datetime,
    limits: when.Limits,
    calendars: Holidays | None = None,
) -> when.Preview:
    """Returns the next `limit` fires strictly after `from`.

    The body has the fields of a schedule's rule, `limit` (1 to 1000, default 5) and `from`
    (ISO 8601, with an offset or local in the zone; default `now`). An interval without
    `start_at` counts from `from`. `calendars` has the days of those that the body may name.
    """
    question = read_question(body, now=now, limits=limits, calendars=calendars)
    shown = when.preview(question.rule, question.start, question.limit)
    return structs.replace(shown, warnings=(*past_warning(question.rule, now), *shown.warnings))


async def preview(context: Context, body: Mapping[str, object]) -> when.Preview:
    """Returns the next fires of a schedule that need not exist, with the tenant's calendars."""
    calendars = await holidays_among(context, [body])
    limits, now = await limits_of(context), await context.store.now()
    limits = limits.for_owner(context.scope.owner)
    import asyncio  # `tickwork next` starts without it.

    return await asyncio.to_thread(
        preview_schedule, body, now=now, limits=limits, calendars=calendars
    )


def past_warning(rule: when.Rule, now: datetime) -> tuple[str, ...]:
    """Returns a warning if the rule is a single time in the past."""
    if isinstance(rule.timing, when.Once) and rule.timing.at <= now:
        return ("the time is in the past: the schedule would fire immediately",)
    return ()


def read_question(
    body: Mapping[str, object],
    *,
    now: datetime,
    limits: when.Limits,
    calendars: Holidays | None = None,
) -> Question:
    """Parses the body; raises `InvalidInput` with every fault in it."""
    faults: list[FieldError] = []
    reader = Reader(body, faults)
    reader.refuse_unknown(PREVIEW_FIELDS)
    limit = reader.integer("limit", 1, LIMIT_MAX, LIMIT_DEFAULT)
    start = _start(body, now, faults)
    fields = {name: body[name] for name in body if name in when.RULE_FIELDS}
    try:
        rule = when.parse(fields, created_at=start or now, limits=limits, calendars=calendars)
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.errors]) from None
    if faults or start is None or limit is None:
        raise InvalidInput(faults)
    return Question(rule, start, limit)


def _start(body: Mapping[str, object], now: datetime, faults: list[FieldError]) -> datetime | None:
    """Returns the start of the preview: `from`, parsed like `once_at`."""
    if body.get("from") is None:
        # Slots are whole seconds.
        return now.replace(microsecond=0)
    single = {"once_at": body["from"], **{name: body.get(name) for name in _ZONE_FIELDS}}
    try:
        rule = when.parse(single)
    except InvalidInput as error:
        ours = [fault for fault in error.errors if fault.field == "once_at"]
        faults += [FieldError("from", fault.message) for fault in ours]
        # A fault of the zone is reported with those of the rule.
        return None if ours else now
    assert isinstance(rule.timing, when.Once)
    return rule.timing.at


HORIZON = timedelta(days=2 * 366)
"""Time ahead in which `explain_schedule` looks for clock changes."""

CHANGES_MAX = 12
"""Maximum number of clock changes that `explain_schedule` looks at."""

# The longest gap that a rule handles is three hours, and it moves a fire by at most as much.
_AROUND = timedelta(hours=4)


class Explanation(Struct, frozen=True):
    """A rule in plain English; `touched` are the fires that a clock change moves or repeats."""

    description: str
    warnings: tuple[str, ...]
    touched: tuple[when.UpcomingSlot, ...]


def explain_schedule(
    body: Mapping[str, object], *, now: datetime, limits: when.Limits
) -> Explanation:
    """Explains the rule in the body of a preview, starting at its `from`."""
    question = read_question(body, now=now, limits=limits)
    shown = when.preview(question.rule, question.start, question.limit)
    warnings = [*past_warning(question.rule, now), *shown.warnings]
    touched: list[when.UpcomingSlot] = []
    for change in _changes(question.rule.timezone, question.start):
        begin, end = max(question.start, change - _AROUND), change + _AROUND
        near = _around(question.rule, begin, end)
        touched += [fire for fire in near.fires if fire.dst and fire.fire_at <= end]
        warnings += [warning for warning in near.warnings if warning not in warnings]
    return Explanation(shown.description, tuple(warnings), tuple(touched))


def _around(rule: when.Rule, begin: datetime, end: datetime) -> when.Preview:
    """Previews the fires in `(begin, end]` and one more, as gaps show before the last fire."""
    return when.preview(rule, begin, min(when.count_between(rule, begin, end) + 1, LIMIT_MAX))


def _changes(zone: str, start: datetime) -> Iterator[datetime]:
    """Yields the instants within the horizon at which the zone's offset changes."""
    line = timeline(zone)
    last = int((start + HORIZON).timestamp())
    stretch = line.stretch(int(start.timestamp()))
    for _ in range(CHANGES_MAX):
        end = stretch.end
        if end > last:
            return
        stretch = line.stretch(end)
        # A stretch also ends where the timeline was not computed yet; then it is merely extended.
        if stretch.start == end:
            yield datetime.fromtimestamp(end, UTC)
