"""The database's time, and whether somebody set it meanwhile.

Nothing here corrects anything: wall-clock rules follow the new time by themselves, and no slot
fires twice, because what was planned is planned. What a jump should mean for intervals belongs
to whoever is told of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from tickwork.store.contract import Store

JUMP_SECONDS = 5.0
"""Less is a clock being adjusted, or a busy machine."""


class _Reading(NamedTuple):
    """What the database said, and between which two instants of our own it said so."""

    time: datetime
    asked: float
    answered: float


class WatchedClock:
    """Asks, and compares the answers with a clock that nobody can set."""

    def __init__(
        self, store: Store, jumped: Callable[[float], None], monotonic: Callable[[], float]
    ) -> None:
        self._store, self._jumped, self._monotonic = store, jumped, monotonic
        self._last: _Reading | None = None

    async def now(self) -> datetime:
        """The time now; tells of a jump since it was last asked."""
        asked = self._monotonic()
        time = await self._store.now()
        reading = _Reading(time, asked, self._monotonic())
        if self._last is not None:
            jump = _jump(self._last, reading)
            if abs(jump) > JUMP_SECONDS:
                self._jumped(jump)
        self._last = reading
        return time


def _jump(last: _Reading, reading: _Reading) -> float:
    """By how much it moved beyond what can have passed, however long the answers took."""
    moved = (reading.time - last.time).total_seconds()
    least, most = reading.asked - last.answered, reading.answered - last.asked
    return moved - min(max(moved, least), most)
