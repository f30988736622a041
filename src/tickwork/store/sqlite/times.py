"""Time as the file holds it: whole microseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tickwork import clock
from tickwork.store.moment import Moment

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000


def present(moment: Moment) -> int:
    """The virtual time if there is one, else this machine's: the file has no clock of its own."""
    return to_microseconds(moment() or clock.now())


def to_microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return _EPOCH + timedelta(0, *divmod(microseconds, _PER_SECOND))


def duration(seconds: float) -> int:
    """So many seconds in microseconds."""
    return round(seconds * _PER_SECOND)
