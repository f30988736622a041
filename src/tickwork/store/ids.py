"""Ids: UUIDv7, made by whoever creates a thing, so that a repeat is known as one.

The time a store works with: the database's own, or a virtual one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

SCHEDULES_TOPIC = UUID(int=1)
"""What leaders of schedules watch, where consumers watch a queue."""


def new_id() -> UUID:
    """An id that sorts by the time it was made."""
    return uuid7()


Moment = Callable[[], datetime | None]
"""None means the database's own clock; a virtual clock gives its time."""


def database_time() -> None:
    """The database decides."""
    return
