"""What tenants used, as a user sees it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from tickwork.core.usage import UsageMeasure, UsageRow, UsageWidth


class UsagePeriod(Struct, frozen=True, kw_only=True):
    """What a tenant used in a period. What has ended counts, once, when it ends."""

    period: Annotated[datetime, Meta(description="When the period begins, in UTC.")]
    tenant: str
    handled: Annotated[int, Meta(description="Messages that were handled.")]
    failed: Annotated[int, Meta(description="Messages that died or expired.")]
    discarded: Annotated[int, Meta(description="Messages that were discarded.")]
    deliveries: Annotated[
        int, Meta(description="Webhooks, emails and chat messages that arrived or were given up.")
    ]
    entity_calls: Annotated[int, Meta(description="Calls of entities that ended.")]
    handler_seconds: Annotated[
        float,
        Meta(description="How long the last handlers ran of messages, calls and runs that ended."),
    ]


class UsageAnswer(Struct, frozen=True, kw_only=True):
    """What was used in a time. The period that `since` is in counts as a whole."""

    by: UsageWidth
    since: datetime
    until: datetime
    totals: Annotated[tuple[UsagePeriod, ...], Meta(description="Each tenant in the whole time.")]
    periods: Annotated[
        tuple[UsagePeriod, ...],
        Meta(description="Each period in which a tenant used something, the first one first."),
    ]


def used_periods(rows: Iterable[UsageRow]) -> tuple[UsagePeriod, ...]:
    """The answers for stored amounts, by period and tenant."""
    found: dict[tuple[datetime, str], dict[str, int]] = {}
    for row in rows:
        amounts = found.setdefault((row.period, row.tenant), {})
        amounts[row.measure] = amounts.get(row.measure, 0) + row.amount
    return tuple(
        _period(period, tenant, amounts) for (period, tenant), amounts in sorted(found.items())
    )


def _period(period: datetime, tenant: str, amounts: dict[str, int]) -> UsagePeriod:
    return UsagePeriod(
        period=period,
        tenant=tenant,
        handled=amounts.get(UsageMeasure.HANDLED, 0),
        failed=amounts.get(UsageMeasure.FAILED, 0),
        discarded=amounts.get(UsageMeasure.DISCARDED, 0),
        deliveries=amounts.get(UsageMeasure.DELIVERIES, 0),
        entity_calls=amounts.get(UsageMeasure.ENTITY_CALLS, 0),
        handler_seconds=amounts.get(UsageMeasure.HANDLER_MICROSECONDS, 0) / 1_000_000,
    )
