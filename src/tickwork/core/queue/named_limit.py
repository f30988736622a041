"""Named limits: a rate and a concurrency that queues and endpoints share.

A queue or an endpoint names its limit. Both numbers hold for all of them together, on all nodes.
The concurrency counts the claimed messages of the queues and the deliveries to endpoints that are
under way. A name without a limit does not limit anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from tickwork.core.fields import NAME_LENGTH_MAX, FieldReader, Reader, text_faults
from tickwork.core.limits import CLAIMED_MAX
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN, allowance
from tickwork.errors import FieldError, InvalidInput

LIMITS_MAX = 1_000
"""Maximum number of limits of a tenant."""

PERIOD_SECONDS_MAX = 86_400.0

FULL_SECONDS = 1.0
"""Seconds until a delivery asks again that found the concurrency used up."""


class NamedLimit(Struct, frozen=True, kw_only=True):
    """At most `rate` messages in `period_seconds`, evenly spread, and `concurrency` at a time; None
    means any number."""

    name: str
    rate: float | None = None
    period_seconds: float = 1.0
    concurrency: int | None = None

    @property
    def rate_per_second(self) -> float | None:
        """The rate as messages per second."""
        return None if self.rate is None else self.rate / self.period_seconds


def room(limit: NamedLimit, spent_until: datetime | None, now: datetime, claimed: int) -> int:
    """Number of messages that may be claimed now, if so many are claimed already."""
    most = CLAIMED_MAX
    if limit.rate_per_second is not None:
        most = allowance(spent_until, now, limit.rate_per_second)
    if limit.concurrency is not None:
        most = min(most, limit.concurrency - claimed)
    return max(most, 0)


def read_limit(name: object, fields: Mapping[str, object]) -> NamedLimit:
    """A limit as a user gives it. Raises `InvalidInput` with all faults."""
    faults: list[FieldError] = []
    text = Reader({"name": name}, faults).text("name")
    if text is not None:
        faults += text_faults("name", text, NAME_LENGTH_MAX)
    given = {field: value for field, value in fields.items() if value is not None}
    reader = Reader(given, faults)
    reader.refuse_unknown(_READERS.keys())
    values = reader.read(_READERS)
    if faults or text is None:
        raise InvalidInput(faults)
    limit = NamedLimit(name=text, **values)
    if limit.rate is None and limit.concurrency is None:
        raise InvalidInput([FieldError("rate", "is missing; give rate, concurrency or both")])
    rate = limit.rate_per_second
    if rate is not None and not RATE_MIN <= rate <= RATE_MAX:
        fault = f"must be from {RATE_MIN:g} to {RATE_MAX:g} in a second, not {rate:g}"
        raise InvalidInput([FieldError("rate", fault)])
    return limit


_READERS: dict[str, FieldReader] = {
    "rate": lambda reader, name: reader.number_between(
        name, RATE_MIN, RATE_MAX * PERIOD_SECONDS_MAX, "a number of messages"
    ),
    "period_seconds": lambda reader, name: reader.number_between(
        name, RATE_MIN, PERIOD_SECONDS_MAX, "a number of seconds"
    ),
    "concurrency": lambda reader, name: reader.integer(name, 1, CLAIMED_MAX),
}
