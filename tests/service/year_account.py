"""Schedules of every kind in all zones, and the account of their slots by an independent reference.

Which slots there are says the reference of `tests.when` and nothing of the product: it walks every
zone through the whole time. A slot of a schedule is fired once; or, on a day off, it is in one
record that says so. What is fired and is no slot is wrong as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from tests.service.schedule_life import QUEUE, TARGET, Life, living
from tests.when import reference
from tests.when.long_walk import long_walk
from tests.when.zones import all_zones
from tickwork.core.limits import RETENTION_SECONDS_MAX
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringStatus
from tickwork.core.schedule.model import Schedule
from tickwork.facade.app import Tickwork

CREATED_AT_ONCE = 500
SLOTS = 250
LEAP = timedelta(days=9)
"""Less than a message may wait in its queue: what was planned ahead is leapt over, too."""

GRACE_SECONDS = 40 * 86_400
"""However far time leaps, nothing in between counts as missed."""

JITTER_SECONDS = 600
SETTLED = timedelta(hours=1)
"""What came up within this time may or may not be planned, due and handled yet."""

WALKED = timedelta(days=400)
"""So long the reference walks through every zone."""

KEPT = timedelta(seconds=FIRINGS_KEPT_SECONDS) - timedelta(days=1)
"""Within this time all records are there, whoever tidies up."""

RRULE_WEEKDAYS = {"MO": 1, "FR": 5}
DAYS_OFF = ["2028-02-29", "2028-12-25", "2028-03-26"]


class Slots(NamedTuple):
    """The slots of a schedule: to be fired, and left out because they are on a day off."""

    fired: list[datetime]
    left_out: list[datetime]


def mixed(number: int) -> Iterator[dict[str, Any]]:
    """Schedules of every kind, spread over the zones."""
    zones, random = all_zones(), Random(7)
    random.shuffle(zones)
    for place in range(number):
        clock = {"hour": random.choice((0, 1, 2, 3, 9, 23)), "minute": random.choice((0, 30, 59))}
        minute, hour = clock["minute"], clock["hour"]
        kinds: list[dict[str, Any]] = [
            {"weekly_time": {**clock, "day_of_week": random.sample(range(7), 2)}},
            {"monthly_time": {**clock, "day": random.choice((1, 29, 30, 31, "last"))}},
            {"cron_expr": f"{minute} {hour} * * {random.choice('0123456')}"},
            {"cron_expr": f"{minute} {hour} L * *"},
            {"interval_seconds": random.choice((86_400, 100_000, 604_800))},
            {"rrule": f"FREQ=WEEKLY;BYDAY={','.join(RRULE_WEEKDAYS)}"},
            {"cron_expr": f"{minute} {hour} * * *", "max_firings": 40},
            {"daily_time": clock, "end_at": "2028-04-15T00:00:00Z"},
            # Through the day, on the nights on which clocks change in the north and the south.
            {
                "cron_expr": f"{minute} */8 * * *",
                "start_at": "2028-03-08T00:00:01Z",
                "end_at": "2028-04-05T00:00:01Z",
            },
        ]
        fields = kinds[place % len(kinds)]
        if "rrule" in fields:
            fields["start_at"] = f"2027-06-01T{hour:02}:{minute:02}:00"
        if place % 3 == 0:
            fields["dst"] = {
                "gap": random.choice(reference.GAPS),
                "overlap": random.choice(reference.OVERLAPS),
            }
        if place % 5 == 0 and "interval_seconds" not in fields:
            fields["exclude"] = DAYS_OFF
        if place % 7 == 0:
            fields["jitter_seconds"] = JITTER_SECONDS
        yield {
            **fields,
            "timezone": zones[place % len(zones)],
            "target": TARGET,
            "missed": {"policy": "fire_late", "cap": 100, "grace_seconds": GRACE_SECONDS},
        }


@asynccontextmanager
async def leaping(app: Tickwork, database: str | None, start: datetime) -> AsyncIterator[Life]:
    """An app whose queue keeps messages for longer than time leaps."""
    app.queue(QUEUE, retention_seconds=RETENTION_SECONDS_MAX)
    assert LEAP.total_seconds() < RETENTION_SECONDS_MAX
    async with living(app, database, start, max_concurrency=SLOTS) as life:
        yield life


class Mixed:
    """Schedules at work, and their account."""

    def __init__(self, life: Life, bodies: list[dict[str, Any]], made: list[Schedule]) -> None:
        self._life, self._began = life, life.h.now
        self._bodies, self._made = bodies, made
        self._slots = [*map(expected, bodies, made)]

    @classmethod
    async def create(cls, life: Life, number: int) -> Mixed:
        bodies, made = [*mixed(number)], list[Schedule]()
        for first in range(0, number, CREATED_AT_ONCE):
            some = bodies[first : first + CREATED_AT_ONCE]
            made += await life.schedules.create_many(some)
        return cls(life, bodies, made)

    async def leap(self, **amounts: float) -> None:
        """Lets time pass in leaps; what came up on the way is then due at once. What is looked at
        here is the account, not the pace."""
        until = self._life.h.now + timedelta(**amounts)
        while (left := until - self._life.h.now) > timedelta():
            await self._life.h.outage(seconds=min(LEAP, left).total_seconds())
            await self._life.h.maintain()
            await self._life.h.drain()
        await self._life.h.advance(seconds=SETTLED.total_seconds())

    def untimely(self) -> list[str]:
        """What was handled at another time than its own."""
        jittered = {
            made.id
            for fields, made in zip(self._bodies, self._made, strict=True)
            if "jitter_seconds" in fields
        }
        return [
            str(firing)
            for firing in self._life.fired
            if firing.catch_up
            or not timedelta()
            <= firing.at - firing.slot
            <= timedelta(seconds=JITTER_SECONDS * (firing.schedule_id in jittered))
        ]

    async def faults(self) -> list[str]:
        """All that is wrong with the account."""
        given: dict[UUID, list[datetime]] = defaultdict(list)
        for firing in self._life.fired:
            given[firing.schedule_id].append(firing.slot)
        until, found = self._life.h.now - SETTLED, list[str]()
        for fields, schedule, slots in zip(self._bodies, self._made, self._slots, strict=True):
            known = Slots(_until(slots.fired, until), _until(slots.left_out, until))
            wrong = [*_differences(known.fired, _until(sorted(given[schedule.id]), until))]
            wrong += [fault async for fault in self._misrecorded(schedule, known, until)]
            found += [f"{fields}: {fault}" for fault in wrong]
        return found

    async def _misrecorded(
        self, schedule: Schedule, slots: Slots, until: datetime
    ) -> AsyncIterator[str]:
        """Where the records of the last weeks say something else."""
        records = [record for record in await self._life.records(schedule) if record.slot <= until]
        since = max(until - KEPT, self._began)
        succeeded = sorted(
            record.slot for record in records if record.status is FiringStatus.SUCCEEDED
        )
        for fault in _differences(_after(slots.fired, since), _after(succeeded, since)):
            yield f"on record: {fault}"
        for slot in _after(slots.left_out, since):
            said = [
                record
                for record in records
                if record.reason == "excluded"
                and record.slot <= slot <= (record.last_slot or record.slot)
            ]
            if len(said) != 1:
                yield f"{slot} is on a day off, and in {len(said)} records"


def expected(fields: Mapping[str, Any], schedule: Schedule) -> Slots:
    """All slots from its creation on, by the reference."""
    since, until = schedule.created_at, schedule.created_at + WALKED
    if "interval_seconds" in fields:
        step = timedelta(seconds=fields["interval_seconds"])
        return Slots([since + number * step for number in range(1, WALKED // step + 1)], [])
    first, last = since, until
    if "end_at" in fields:
        last = datetime.fromisoformat(fields["end_at"])
    if "start_at" in fields and "rrule" not in fields:
        first = max(first, datetime.fromisoformat(fields["start_at"]))
    walk, rule = long_walk(fields["timezone"], since, until), _rule(fields)
    dst = {"gap": "run_after", "overlap": "first"} | fields.get("dst", {})

    def slots(rule: reference.Rule) -> list[datetime]:
        found = reference.meet(rule, walk).slots(dst["gap"], dst["overlap"])
        return _until(_after(found, first), last)

    fired = slots(rule)[: fields.get("max_firings")]
    if len(fired) == fields.get("max_firings"):
        last = fired[-1]
    if not rule.excluded:
        return Slots(fired, [])
    return Slots(fired, sorted({*slots(replace(rule, excluded=frozenset()))} - {*slots(rule)}))


def _rule(fields: Mapping[str, Any]) -> reference.Rule:
    """As the reference reads it."""
    if "rrule" not in fields:
        monthly = {"short_month": "skip", **fields.get("monthly_time", {})}
        return reference.read({**fields, **({"monthly_time": monthly} if len(monthly) > 1 else {})})
    at = datetime.fromisoformat(fields["start_at"])
    return reference.Rule(
        lambda day: day.isoweekday() in RRULE_WEEKDAYS.values(),
        frozenset({at.hour}),
        frozenset({at.minute}),
        excluded=frozenset(date.fromisoformat(day) for day in fields.get("exclude", ())),
    )


def _differences(expected: list[datetime], found: list[datetime]) -> Iterator[str]:
    if expected != found:
        counts = Counter(found)
        yield from (f"{slot} did not fire" for slot in expected if slot not in counts)
        yield from (f"{slot} is no slot" for slot in counts.keys() - {*expected})
        yield from (f"{slot} fired {times} times" for slot, times in counts.items() if times > 1)


def _after(slots: list[datetime], since: datetime) -> list[datetime]:
    return slots[bisect_right(slots, since) :]


def _until(slots: list[datetime], last: datetime) -> list[datetime]:
    return slots[: bisect_right(slots, last)]
