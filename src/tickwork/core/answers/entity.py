"""Entities as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The result of a method; `done` is false if it has not run yet."""

    done: bool
    result: Any = None


class StorageEntry(Struct, frozen=True):
    """A key and its value."""

    name: str
    value: Any


class AlarmBody(Struct, frozen=True):
    """When the alarm is set to fire."""

    at: datetime
