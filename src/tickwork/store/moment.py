"""The time a store works with: the database's own, or a virtual one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

Moment = Callable[[], datetime | None]
"""None means the database's own clock; a virtual clock gives its time."""


def database_time() -> None:
    """The database decides."""
    return
