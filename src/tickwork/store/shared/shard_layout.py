"""How many shards there are. Statements that find the schedules of shards depend on it.

The index that finds what a leader must plan has the shard as its first column, so both contain the
number of buckets in a shard as a literal: a server does not use an index on `bucket / 64` for
`bucket / $1`. A process reads the number whenever it holds shards. One that has not noticed a
change yet uses grants whose tokens are not valid any more, so its plans are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from tickwork.core.schedule.model import BUCKETS, SHARDS

_WIDTH = "/*buckets_per_shard*/"
LOOK_INDEX_MARK = "/*look_index*/"
"""Where a statement names the index."""

_LOOK_INDEX = "tickwork_schedules_look"


class ShardLayout:
    """The number of shards, as last read."""

    def __init__(self) -> None:
        self.count = SHARDS

    def fit(self, statement: str) -> str:
        """The statement for this number of shards."""
        return fit_statement(statement, self.count)

    def existing(self, shards: Iterable[int]) -> list[int]:
        """Those of the shards that exist, in order."""
        return sorted({shard for shard in shards if 0 <= shard < self.count})


@cache
def fit_statement(statement: str, shards: int) -> str:
    """The statement for a number of shards."""
    return statement.replace(_WIDTH, str(BUCKETS // shards)).replace(
        LOOK_INDEX_MARK, look_index(shards)
    )


def look_index(shards: int) -> str:
    """Name of the index that finds what the leader of one of so many shards must plan."""
    return _LOOK_INDEX if shards == SHARDS else f"{_LOOK_INDEX}_{shards}"
