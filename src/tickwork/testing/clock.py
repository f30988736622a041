"""A virtual clock, which moves only when a test moves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""A Monday morning, far from any DST transition."""


class VirtualClock:
    """The time of a store and of everything that runs on it."""

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError(f"start must have a time zone: {start.isoformat()}")
        self._start = self._now = start.astimezone(UTC)
        self._shown: datetime | None = None

    def now(self) -> datetime:
        """The current time, in UTC."""
        return self._now

    def shown(self) -> datetime:
        """The time that a store sees."""
        return self._shown or self._now

    @contextmanager
    def showing(self, at: datetime) -> Iterator[None]:
        """Shows stores another time, to read what is due later. Nothing may be written."""
        self._shown = at
        try:
            yield
        finally:
            self._shown = None

    def monotonic(self) -> float:
        """Seconds since the start."""
        return (self._now - self._start) / timedelta(seconds=1)

    def at(self, monotonic_seconds: float) -> datetime:
        """The time at which `monotonic()` has this value."""
        return self._start + timedelta(seconds=monotonic_seconds)

    def advance(self, *, seconds: float) -> None:
        """Moves the clock forward."""
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, at: datetime) -> None:
        """Moves the clock to a time that is not earlier."""
        if at < self._now:
            raise ValueError(f"the clock cannot move back, from {self._now} to {at}")
        self._now = at.astimezone(UTC)
