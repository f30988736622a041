"""The local clock; no other module reads it.

Who needs the time takes it as an argument. Where the argument comes from is decided at the
edge: here for a command or a request, in the database for what is stored.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The present, aware and in UTC."""
    return datetime.now(UTC)


def cpu_seconds() -> float:
    """Processor time that this process has used."""
    return time.process_time()


def since_boot() -> float:
    """Seconds from an arbitrary start that nobody can set, and that go on while the machine sleeps,
    where the system has such a clock."""
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


monotonic = time.monotonic
"""Seconds from an arbitrary start that never go back: for measuring, not for telling."""
