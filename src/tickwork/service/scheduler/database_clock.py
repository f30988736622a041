"""Reads the database's clock and detects when somebody set it.

The database's clock is compared with a local clock that nobody can set and that continues while the
machine sleeps. Each reading compares the jumps seen here with the jumps that are recorded already
(`core.schedule.clock_change`): a jump that another node recorded is not new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from tickwork.core.model import SYSTEM
from tickwork.core.schedule.clock_change import JUMP_SECONDS_MIN, ClockJump, round_jump
from tickwork.store.contract import Store


class _Reading(NamedTuple):
    """A time of the database, and the local times before and after the query."""

    time: datetime
    asked: float
    answered: float


class DatabaseClock:
    """Reads the database's clock and compares it with a clock that nobody can set.

    `jump` is a jump that was seen here and is not recorded yet; `known` is the sum of the recorded
    jumps, in microseconds.
    """

    def __init__(
        self, store: Store, on_jump: Callable[[float], None], since_boot: Callable[[], float]
    ) -> None:
        self._store = store
        self._on_jump = on_jump
        self._since_boot = since_boot
        self._last: _Reading | None = None
        self._one_at_a_time = asyncio.Lock()
        self._seen_seconds = 0.0
        self._before: datetime | None = None
        self._balanced = self.known = 0
        self.jump: ClockJump | None = None

    async def now(self) -> datetime:
        """The database's time. Calls `on_jump` if it jumped since the last reading."""
        async with self._one_at_a_time:
            asked = self._since_boot()
            reading = await self._store.shards.clock(SYSTEM)
            answer = _Reading(reading.now, asked, self._since_boot())
            last = self._last
            self._last = answer
            self.known = reading.clock
            if last is None:
                self._balanced = self.known
            elif abs(_certain_jump_seconds(last, answer)) > JUMP_SECONDS_MIN:
                self._on_jump(seconds := _estimated_jump_seconds(last, answer))
                self._seen_seconds += seconds
                self._before = self._before or last.time
            self._balance()
        return answer.time

    def dismiss(self) -> None:
        """Forgets the jump: the time really passed while this machine was suspended."""
        self._seen_seconds, self._balanced = 0.0, self.known
        self._balance()

    def _balance(self) -> None:
        recorded = (self.known - self._balanced) / 1_000_000
        left = self._seen_seconds - recorded if self._before is not None else 0.0
        if abs(left) <= JUMP_SECONDS_MIN or self._before is None:
            self._seen_seconds, self._balanced = 0.0, self.known
            self._before = self.jump = None
        else:
            self.jump = ClockJump(self._before, round_jump(left), self.known)


def _certain_jump_seconds(last: _Reading, answer: _Reading) -> float:
    """Seconds of the jump that are certain, however long the two queries took."""
    moved = (answer.time - last.time).total_seconds()
    least, most = answer.asked - last.answered, answer.answered - last.asked
    return moved - min(max(moved, least), most)


def _estimated_jump_seconds(last: _Reading, answer: _Reading) -> float:
    """Seconds of the jump, assuming each answer is from the middle of its query."""
    moved = (answer.time - last.time).total_seconds()
    passed = (answer.asked + answer.answered - last.asked - last.answered) / 2
    return moved - passed
