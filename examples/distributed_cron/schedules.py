"""The schedules: many, each every so many seconds, their slots spread evenly over that time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from examples.distributed_cron.app import QUEUE
from tickwork.core.model import DEFAULT
from tickwork.core.schedule.model import ScheduleOrder, ScheduleSelection
from tickwork.core.when import Limits, just_before
from tickwork.ops.schedules.create import create_bulk
from tickwork.store.contract import Store
from tickwork.testing.checkers import WatchedSchedule

RULES = 1_000
PAGE = 1_000
LIMITS = Limits(min_interval_seconds=1)


async def make(store: Store, count: int, every_seconds: int, first: datetime) -> int:
    """Stores so many; their first slots are from `first` on."""
    return await create_bulk(store, DEFAULT, _fields(count, every_seconds, first), limits=LIMITS)


def _fields(count: int, every_seconds: int, first: datetime) -> Iterator[dict[str, object]]:
    rules = min(count, RULES)
    starts = [first + timedelta(seconds=every_seconds) * place / rules for place in range(rules)]
    for number in range(count):
        yield {
            "interval_seconds": every_seconds,
            "start_at": starts[number % rules].isoformat(),
            "target": {"type": "queue", "queue": QUEUE},
            "payload": {"number": number},
        }


async def watched(store: Store, until: datetime) -> list[WatchedSchedule]:
    """All of them, for the checkers: by their rules, and not by what was done about them."""
    found: list[WatchedSchedule] = []
    selection = ScheduleSelection(order=ScheduleOrder.CREATED)
    while page := await store.schedules.list(DEFAULT, selection, PAGE):
        for each in page:
            rule = each.definition.rule
            assert rule.start_at is not None
            since = just_before(rule.start_at)
            found.append(WatchedSchedule(id=each.id, rule=rule, since=since, until=until))
        selection = ScheduleSelection(order=ScheduleOrder.CREATED, after=page[-1].id)
    return found
