"""A clock that moves only when a test advances it."""

from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


class VirtualClock:
    """Its `now` is the time of any number of stores."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, *, seconds: float) -> None:
        assert seconds >= 0, "time does not go back"
        self._now += timedelta(seconds=seconds)

    def set_by(self, *, seconds: float) -> None:
        """Sets the clock, ahead or back."""
        self._now += timedelta(seconds=seconds)
