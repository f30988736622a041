"""Instants as seconds, and what a clock on the wall shows at them."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from tickwork.core.when.model import EPOCH
from tickwork.core.when.zone import Timeline


def seconds_of(instant: datetime) -> int:
    """Whole seconds since 1970, rounded down."""
    since = instant - EPOCH
    return since.days * 86_400 + since.seconds


def instant_of(seconds: int) -> datetime:
    """The instant that many seconds after 1970."""
    return EPOCH + timedelta(seconds=seconds)


def naive_seconds(instant: datetime, line: Timeline) -> int:
    """What a clock on the wall shows at an instant."""
    seconds = seconds_of(instant)
    return seconds + line.stretch(seconds).offset


def local_date(instant: datetime, line: Timeline) -> date:
    """The date on the wall at an instant."""
    return instant_of(naive_seconds(instant, line)).date()
