"""The database's time, and whether somebody set it meanwhile.

Compared with a clock that nobody can set and that goes on while a machine sleeps. What was seen
and what is known already (`core.clock_jumps`) are balanced at every reading: a jump that another
node told of is nothing new.
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
    """What the database said, and between which two instants of our own it said so."""

    time: datetime
    asked: float
    answered: float


class DatabaseClock:
    """Asks, and compares the answers with a clock that nobody can set.

    `jump` is one that was seen and that nobody knows of yet; `known` the sum of those that are.
    """

    def __init__(
        self, store: Store, jumped: Callable[[float], None], since_boot: Callable[[], float]
    ) -> None:
        self._store, self._jumped, self._since_boot = store, jumped, since_boot
        self._last: _Reading | None = None
        self._one_at_a_time = asyncio.Lock()
        self._seen_seconds = 0.0
        self._before: datetime | None = None
        self._balanced = self.known = 0
        self.jump: ClockJump | None = None

    async def now(self) -> datetime:
        """The time now; tells of a jump since it was last asked."""
        async with self._one_at_a_time:
            asked = self._since_boot()
            reading = await self._store.shards.clock(SYSTEM)
            answer = _Reading(reading.now, asked, self._since_boot())
            last, self._last, self.known = self._last, answer, reading.clock
            if last is None:
                self._balanced = self.known
            elif abs(_certain_jump_seconds(last, answer)) > JUMP_SECONDS_MIN:
                self._jumped(seconds := _estimated_jump_seconds(last, answer))
                self._seen_seconds += seconds
                self._before = self._before or last.time
            self._balance()
        return answer.time

    def dismiss(self) -> None:
        """It was no jump: time did pass, without us."""
        self._seen_seconds, self._balanced = 0.0, self.known
        self._balance()

    def _balance(self) -> None:
        told = (self.known - self._balanced) / 1_000_000
        left = self._seen_seconds - told if self._before is not None else 0.0
        if abs(left) <= JUMP_SECONDS_MIN or self._before is None:
            self._seen_seconds, self._balanced = 0.0, self.known
            self._before = self.jump = None
        else:
            self.jump = ClockJump(self._before, round_jump(left), self.known)


def _certain_jump_seconds(last: _Reading, answer: _Reading) -> float:
    """By how much it moved beyond what can have passed, however long the answers took."""
    moved = (answer.time - last.time).total_seconds()
    least, most = answer.asked - last.answered, answer.answered - last.asked
    return moved - min(max(moved, least), most)


def _estimated_jump_seconds(last: _Reading, answer: _Reading) -> float:
    """By how much, if the answers are from the middle of the time that they took."""
    moved = (answer.time - last.time).total_seconds()
    passed = (answer.asked + answer.answered - last.asked - last.answered) / 2
    return moved - passed
