"""Columns as statements take them: many rows in a few arrays.

The driver looks at each value of an array. So what is the same for all rows is given once, and the
statement takes the last value there is: `($2::text[])[least(number, cardinality($2))]`.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def once(values: list[T]) -> list[T]:
    """What is the same for all, once."""
    return values[:1] if values.count(values[0]) == len(values) else values
