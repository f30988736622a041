"""The local clock. No other module reads it.

Code that needs the time takes it as an argument. The caller at the edge supplies it: this module
for a command or a request, the database for stored times.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime


def now() -> datetime:
    """The current time, aware and in UTC."""
    return datetime.now(UTC)


def cpu_seconds() -> float:
    """Seconds of CPU time that this process has used."""
    return time.process_time()


def thread_seconds() -> float:
    """Seconds of CPU time that this thread has used."""
    return time.thread_time()


def since_boot() -> float:
    """Seconds since an arbitrary start that no one can set and that include system sleep.

    Without such a system clock it falls back to the monotonic one.
    """
    return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


monotonic = time.monotonic
"""Seconds since an arbitrary start that never go back, for measuring durations."""
