"""How fast something goes, and when it will be through, from how far it was lately."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

LATELY_SECONDS = 30.0
"""What was longer ago says little about now."""

SAMPLES_MAX = 1_000


class Sample(NamedTuple):
    """How many were done at a moment."""

    seconds: float
    done: int


class Speed:
    """The last samples of a count that only grows; time is the caller's."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def add(self, seconds: float, done: int) -> None:
        """Takes a sample, no earlier than those before it."""
        assert not self._samples or self._samples[-1].seconds <= seconds
        self._samples.append(Sample(seconds, done))
        # Two stay, so that a speed is known however rarely somebody looks.
        while len(self._samples) > 2 and self._samples[0].seconds < seconds - LATELY_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float | None:
        """None until two moments are known."""
        if not self._samples:
            return None
        first, last = self._samples[0], self._samples[-1]
        passed = last.seconds - first.seconds
        return (last.done - first.done) / passed if passed > 0 else None

    def seconds_left(self, total: int) -> float | None:
        """How long the rest takes at this speed; None where nothing moves, as nobody knows then."""
        rate = self.per_second
        if not rate:
            return None
        return max(0, total - self._samples[-1].done) / rate
