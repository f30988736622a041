"""What the server answers, as values. The names are those of the OpenAPI description, which a test
compares with these fields. Ids have their prefix, such as `sch_…`."""

from __future__ import annotations

from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Items(Struct, Generic[T], frozen=True):
    """All of a list."""

    items: tuple[T, ...]


# Queues


class SubscriptionBody(Struct, frozen=True):
    """A queue that gets a copy of each message and event whose type matches."""

    types: str
    queue: str


# Calendars


class CalendarAnswer(Struct, frozen=True, kw_only=True):
    """A calendar: named days off."""

    name: str
    days: tuple[str, ...]
    updated_at: datetime
