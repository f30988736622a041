"""How many invocations of a consumer run at a time.

It grows while all are busy and more is waiting, and shrinks when invocations fail: what they
depend on may be the one that cannot take more. A `retry()` is no failure. By hand it is fixed.
"""

from __future__ import annotations

from msgspec import Struct

AUTO_MIN = 1
AUTO_MAX = 250

FAILED_SHARE_MAX = 0.5
"""With more failed than this of what ended since the last look, it shrinks to half."""


class Load(Struct, frozen=True):
    """What happened since the last look: how many invocations ended, how many of them failed,
    whether all slots were busy, and whether more was waiting than they could take."""

    ended: int
    failed: int
    all_busy: bool
    more_waiting: bool


def next_concurrency(current: int, load: Load) -> int:
    """The number of slots until the next look."""
    if load.ended and load.failed > load.ended * FAILED_SHARE_MAX:
        return max(current // 2, AUTO_MIN)
    if load.all_busy and load.more_waiting and not load.failed:
        return min(current * 2, AUTO_MAX)
    return current
