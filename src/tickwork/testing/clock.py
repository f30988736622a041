"""A clock that moves only when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""A Monday morning, far from every change of a clock."""


class VirtualClock:
    """The time of a store, and of whoever measures it."""

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            raise ValueError(f"a time with its zone is wanted, not {start.isoformat()}")
        self._start = self._now = start.astimezone(UTC)
        self._shown: datetime | None = None

    def now(self) -> datetime:
        """The present, in UTC."""
        return self._now

    def shown(self) -> datetime:
        """The present, as a store is told it."""
        return self._shown or self._now

    @contextmanager
    def showing(self, at: datetime) -> Iterator[None]:
        """Stores are told another time, to look at what is to come; nothing may be written."""
        self._shown = at
        try:
            yield
        finally:
            self._shown = None

    def monotonic(self) -> float:
        """Seconds since it began."""
        return (self._now - self._start) / timedelta(seconds=1)

    def at(self, monotonic_seconds: float) -> datetime:
        """When `monotonic` is so much."""
        return self._start + timedelta(seconds=monotonic_seconds)

    def advance(self, *, seconds: float) -> None:
        """So much later."""
        self.move_to(self._now + timedelta(seconds=seconds))

    def move_to(self, at: datetime) -> None:
        """Then."""
        if at < self._now:
            raise ValueError(f"time does not go back, from {self._now} to {at}")
        self._now = at.astimezone(UTC)
