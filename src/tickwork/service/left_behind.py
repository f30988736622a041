"""Handlers that did not end when they were stopped: counted, and bounded.

A thread cannot be killed, and a coroutine can refuse to be cancelled. Such a handler is left to
itself: its message is settled without it, its slot is free, and whatever it says later counts for
nothing. It costs memory all the same. So a queue may have some of them at no cost, and each one
beyond takes one of the queue's slots until it ends; without a slot the queue stands still.
"""

from __future__ import annotations

from collections import Counter

LEFT_BEHIND_FREE = 32
"""So many of a queue cost it no slot."""


class LeftBehind:
    """How many handlers of each queue were left behind, and still run."""

    def __init__(self, free: int = LEFT_BEHIND_FREE) -> None:
        self._free = free
        self._running: Counter[str] = Counter()
        self.ever = 0

    def add(self, queue: str) -> None:
        """One more, which nobody waits for any longer."""
        self._running[queue] += 1
        self.ever += 1

    def remove(self, queue: str) -> None:
        """One came to its end after all."""
        self._running[queue] -= 1
        if not self._running[queue]:
            del self._running[queue]

    def of(self, queue: str) -> int:
        """How many of this queue still run."""
        return self._running[queue]

    def slots_lost(self, queue: str) -> int:
        """How many slots they cost their queue."""
        if not self._running:
            return 0
        return max(self._running[queue] - self._free, 0)
