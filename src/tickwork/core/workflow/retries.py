"""How the steps of a workflow are retried."""

from __future__ import annotations

from msgspec import Struct

from tickwork.core.message.backoff import BACKOFF_SECONDS_MAX, Exponential, delay_seconds
from tickwork.errors import FieldError, InvalidInput

RETRIES_MAX = 1_000


class Retries(Struct, frozen=True):
    """How often a step is tried again after its first attempt, and when: `delay_seconds` after the
    first failure, then `factor` times as long each time, up to `delay_seconds_max`."""

    max_retries: int = 5
    delay_seconds: float = 10.0
    factor: float = 2.0
    delay_seconds_max: float = 3_600.0

    def after(self, attempts: int) -> float | None:
        """Seconds to wait after this many failed attempts; None if there is no other attempt."""
        if attempts > self.max_retries:
            return None
        backoff = Exponential(self.delay_seconds, self.factor, self.delay_seconds_max)
        return delay_seconds(backoff, attempts)


def check_retries(field: str, retries: object) -> Retries:
    """The given retries; raises `InvalidInput` if they are out of range."""
    if not isinstance(retries, Retries):
        fault = f"must be Retries(…), such as Retries(5, delay_seconds=10), not {retries!r}"
        raise InvalidInput([FieldError(field, fault)])
    numbers: tuple[tuple[str, object, float, float], ...] = (
        ("max_retries", retries.max_retries, 0, RETRIES_MAX),
        ("delay_seconds", retries.delay_seconds, 0, BACKOFF_SECONDS_MAX),
        ("factor", retries.factor, 1, 100),
        ("delay_seconds_max", retries.delay_seconds_max, 0, BACKOFF_SECONDS_MAX),
    )
    faults = [
        FieldError(f"{field}.{name}", f"must be from {low} to {high:g}, not {value!r}")
        for name, value, low, high in numbers
        if not isinstance(value, int | float) or not low <= value <= high
    ]
    if faults:
        raise InvalidInput(faults)
    return retries
