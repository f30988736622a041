"""The SQL statements of this store, and how lists of values are passed to them."""

from __future__ import annotations

from typing import TypeVar

from tickwork.store.shared.sql_files import load

T = TypeVar("T")

STRIPES = 16
"""Number of rows over which a hot counter is spread."""

SQL = load(
    "tickwork.store.postgres",
    {
        "stripes": str(STRIPES),
        "on_time_until": "CASE WHEN m.attempts = 0 AND m.lost = 0 "
        "THEN m.due_at + make_interval(secs => m.grace_seconds) END",
    },
)
"""`on_time_until`: a slot that is claimed for the first time after this is a catch-up."""

CUSTOM_PLAN = "SET LOCAL plan_cache_mode = force_custom_plan"
"""Makes the server plan a statement for its actual values. For statements with optional filters: a
generic plan suits none of them."""


def once(values: list[T]) -> list[T]:
    """Reduces a column to one value if all rows have the same.

    The driver encodes each value of an array. A statement therefore reads a column so that the last
    value counts for the rows after it: `($2::text[])[least(number, cardinality($2))]`.
    """
    return values[:1] if values.count(values[0]) == len(values) else values
