"""Shows how messages of each queue and type fared."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import structs

from tickwork.core.answers.performance import PerformanceAnswer, TypePerformance
from tickwork.core.model import SYSTEM
from tickwork.core.queue.performance import (
    PERIODS_MAX,
    ROLLED_UP_MAX,
    PeriodPerformance,
    Width,
    merged,
    period_of,
)
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.store.contract import Store

PASSES_MAX = 20
"""Maximum number of passes that roll up notes before an answer."""


async def show_performance(
    context: Context,
    *,
    by: Width,
    since: datetime | None = None,
    until: datetime | None = None,
    queue: str | None = None,
    type: str | None = None,  # noqa: A002  the name of the field
) -> PerformanceAnswer:
    """Returns how the messages of a tenant fared that ended in a time, also those that ended just
    now. Raises `InvalidInput` for a time with too many rows."""
    since, until = await asked_time(context.store, by, since, until)
    await roll_up_all(context.store)
    rows = await context.store.performance.list(
        context.scope, by, since, until, PERIODS_MAX, queue=queue, type=type
    )
    if len(rows) == PERIODS_MAX:
        fault = f"leaves {PERIODS_MAX:,} rows or more; give a later time, a queue or a type"
        raise InvalidInput([FieldError("since", fault)])
    whole = [structs.replace(row, period=since) for row in rows]
    return PerformanceAnswer(
        by=by, since=since, until=until, totals=_shown(whole, by), periods=_shown(rows, by)
    )


async def asked_time(
    store: Store, by: Width, since: datetime | None, until: datetime | None
) -> tuple[datetime, datetime]:
    """The time that is asked for, from the start of a period; by default the last few ones."""
    offset = "must have an offset, such as 2027-03-14T09:00:00Z"
    faults = [
        FieldError(field, offset)
        for field, moment in (("since", since), ("until", until))
        if moment is not None and moment.tzinfo is None
    ]
    if faults:
        raise InvalidInput(faults)
    until = await store.now() if until is None else until
    if since is None:
        try:
            since = until - by.length * (by.usual_periods - 1)
        except OverflowError:
            raise InvalidInput([FieldError("until", "is too early")]) from None
    if since >= until:
        raise InvalidInput([FieldError("since", "must be before until")])
    return period_of(since, by), until


async def roll_up_all(store: Store) -> None:
    """Rolls up what settlements noted until now, unless that is very much, or another process
    does it."""
    for _ in range(PASSES_MAX):
        if await store.performance.roll_up(SYSTEM, ROLLED_UP_MAX) < ROLLED_UP_MAX:
            return


def _shown(rows: Iterable[PeriodPerformance], by: Width) -> tuple[TypePerformance, ...]:
    return tuple(map(TypePerformance.of, merged(rows, by)))
