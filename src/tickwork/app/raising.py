"""What a handler raises to say more than that it failed."""

from __future__ import annotations

from tickwork.core.limits import DELAY_SECONDS_MAX


class Permanent(Exception):
    """No attempt will ever succeed: the message is dead at once."""


class Snooze(Exception):
    """Not now: the message comes back after so many seconds, and no attempt is used up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = checked_seconds(seconds)
        super().__init__(f"snoozed for {seconds_text(self.seconds)}")


def said_by(error: BaseException) -> BaseException:
    """The error that is meant: the only one in a group, as an `asyncio.TaskGroup` raises it, or the
    error itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def checked_seconds(value: float) -> float:
    """A number of seconds that a message can be delayed for; `TypeError` for what is none,
    `ValueError` for one that is too small or too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number of seconds is wanted, not {type(value).__name__}")
    if not 0 <= value <= DELAY_SECONDS_MAX:
        raise ValueError(f"a number of seconds must be from 0 to {DELAY_SECONDS_MAX}")
    return float(value)


def seconds_text(seconds: float) -> str:
    """For a sentence: `1 second`, `2.5 seconds`."""
    return f"{seconds:g} second" if seconds == 1 else f"{seconds:g} seconds"
