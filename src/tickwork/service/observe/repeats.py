"""Log lines that repeat: the first one of a cause at once, then one per minute with a count.

In an outage every activity fails many times a second for the same reason. An operator needs to
know what failed, since when and how often, not each failure.

There is no timer: `flush` writes the counted lines whose minute is over, and is called by events
that occur every second in any process, whether its database answers or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from datetime import datetime
from typing import NamedTuple

from tickwork import clock

REPEAT_SECONDS = 60.0
"""Seconds between two lines about the same cause."""

CAUSES_MAX = 1_000
"""Maximum number of causes that are counted; further ones are written each time."""


class Repeated(NamedTuple):
    """The occurrences that were not written: their number, when the first of all occurred, and the
    seconds since the last one."""

    times: int
    since: datetime
    quiet_seconds: float


WriteLine = Callable[[Repeated | None], None]
"""Writes the line about one occurrence, or about all that were not written."""


class _Series:
    """The occurrences of one cause."""

    __slots__ = ("count", "last", "since", "write", "written")

    def __init__(self, now: float) -> None:
        self.since = clock.now()
        self.written = now
        self.last = now
        self.count = 0
        self.write: WriteLine | None = None


class RepeatedLines:
    """Decides when a line is written. Threads may share it."""

    def __init__(self, monotonic: Callable[[], float] = clock.monotonic) -> None:
        self._monotonic = monotonic
        self._series: dict[Hashable, _Series] = {}
        self._lock = threading.Lock()

    def add(self, cause: Hashable, write: WriteLine) -> bool:
        """Writes the line if it is the first of its cause; otherwise counts it for a later line,
        which the last `write` of the minute writes. Returns whether it was written."""
        self.flush()
        now = self._monotonic()
        with self._lock:
            series = self._series.get(cause)
            if series is not None:
                series.count = series.count + 1
                series.last = now
                series.write = write
                return False
            if len(self._series) < CAUSES_MAX:
                self._series[cause] = _Series(now)
        write(None)
        return True

    def flush(self) -> None:
        """Writes the counted lines whose minute is over, and forgets causes without new ones."""
        if not self._series:
            return
        now, due = self._monotonic(), list[tuple[WriteLine, Repeated]]()
        with self._lock:
            for cause, series in [*self._series.items()]:
                if now - series.written < REPEAT_SECONDS:
                    continue
                if series.write is None:
                    del self._series[cause]
                    continue
                due.append((series.write, Repeated(series.count, series.since, now - series.last)))
                series.write = None
                series.count = 0
                series.written = now
        for write, repeated in due:
            write(repeated)
