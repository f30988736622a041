"""Loads the SQL statements of this store, and prepares arrays of values for them."""

from __future__ import annotations

from typing import TypeVar

from tickwork.core.model import WAITING_SINCE
from tickwork.store.shared.columns import ENDED, names
from tickwork.store.shared.sql_files import load

T = TypeVar("T")

STRIPES = 16
"""Number of rows over which a hot counter is spread."""

_REMOVED = (
    "tenant", "queue_id", "type", "source", "id", "key", "batch_id", "claimed_at", "attempts",
)  # fmt: skip
_ENDED_MESSAGE = (
    "holder", "sent_at", "correlation_id", "causation_id", "schedule_id", "slot", "run",
    "content_type", "visible_at", "body",
)  # fmt: skip

SQL = load(
    "tickwork.store.postgres",
    {
        "ended": names([name for name, _ in ENDED], "r"),
        "ended_message": names(_ENDED_MESSAGE, "m"),
        "removed_message": names((*_REMOVED, "event_id", *_ENDED_MESSAGE), "m"),
        "stripes": str(STRIPES),
        "on_time_until": "CASE WHEN m.attempts = 0 AND m.lost = 0 "
        f"AND coalesce(m.last_error, '') NOT LIKE '{WAITING_SINCE}%' "
        "THEN m.due_at + make_interval(secs => m.grace_seconds) END",
    },
)
"""`on_time_until`: a slot whose first claim is later than this is a catch-up. One that waits for
its completion was claimed before."""

CUSTOM_PLAN = "SET LOCAL plan_cache_mode = force_custom_plan"
"""Makes the server plan a statement for its actual values. For statements with optional filters,
which a generic plan makes slow."""


def once(values: list[T]) -> list[T]:
    """Reduces a column to one value if all rows have the same value.

    The driver encodes each value of an array, so a short array is faster. Statements use the last
    value for all rows after it: `($2::text[])[least(number, cardinality($2))]`.
    """
    return values[:1] if values.count(values[0]) == len(values) else values
