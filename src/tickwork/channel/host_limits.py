"""How much each host and tenant gets from this node, so that none occupies more than its share.

A delivery over the limit is not sent: its message is released and comes back, and no attempt is
lost. A tenant with many slow hosts is held to its own limit, and leaves the rest to other tenants.
An endpoint has limits of its own besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from urllib.parse import urlsplit

from tickwork.core.delivery.pace import (
    IDLE,
    Limit,
    Pace,
    finished,
    is_idle,
    may_start,
    sent_away,
    started,
)

NO_LIMIT = Limit()

RECEIVERS_MAX = 10_000
"""Number of receivers above which those without deliveries are forgotten."""


class HostLimits:
    """The limits of all hosts and tenants. A limit without numbers lets everything through."""

    def __init__(
        self, limit: Limit, clock: Callable[[], datetime], *, of_tenant: Limit = NO_LIMIT
    ) -> None:
        self._limit, self._of_tenant, self._clock = limit, of_tenant, clock
        self._paces: dict[str, Pace] = {}
        self._forget_above = RECEIVERS_MAX

    @contextmanager
    def admitted(
        self, tenant: str, urls: Iterable[str], others: Mapping[str, Limit] | None = None
    ) -> Iterator[float]:
        """Yields 0 if a tenant's deliveries to all these URLs may start, which then run until the
        block ends; else the seconds after which to ask again. `others` are limits by name
        besides."""
        limits = dict.fromkeys((f"host {_host(each)}" for each in urls), self._limit)
        limits[f"tenant {tenant}"] = self._of_tenant
        limits.update(others or {})
        wait_seconds = self._start(limits)
        try:
            yield wait_seconds
        finally:
            if not wait_seconds:
                for name in limits:
                    self._paces[name] = finished(self._paces[name])

    def _start(self, limits: Mapping[str, Limit]) -> float:
        now, paces = self._clock(), self._paces
        full = [
            name
            for name, limit in limits.items()
            if not may_start(paces.get(name, IDLE), limit, now)
        ]
        waits = [0.0]
        for name in full:
            paces[name], seconds = sent_away(paces.get(name, IDLE), limits[name], now)
            waits.append(seconds)
        if not full:
            for name, limit in limits.items():
                paces[name] = started(paces.get(name, IDLE), limit, now)
            self._forget(now)
        return max(waits)

    def _forget(self, now: datetime) -> None:
        if len(self._paces) > self._forget_above:
            self._paces = {
                name: pace for name, pace in self._paces.items() if not is_idle(pace, now)
            }
            # Not again before many have come, however many are busy.
            self._forget_above = max(RECEIVERS_MAX, 2 * len(self._paces))


@lru_cache(RECEIVERS_MAX)
def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")
