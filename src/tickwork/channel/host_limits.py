"""How much each host and tenant gets from this node, so that none occupies more than its share.

A delivery over the limit is not sent: its message is released and comes back, and no attempt is
lost. Each tenant has the limit of a host for itself: requests of one that hang do not hold up
another that sends to the same host. A tenant with many slow hosts may fill the node while it is
alone; when others come, it is held to its share. An endpoint has limits of its own besides.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from tickwork.channel.guard import host_of
from tickwork.core.delivery.pace import (
    IDLE,
    HostPace,
    Limit,
    Shares,
    finished,
    is_idle,
    may_start,
    may_start_for_tenant,
    sent_away,
    started,
)

NO_LIMIT = Limit()

SHARE_WAIT_SECONDS = 0.25
"""Seconds that a delivery of a tenant above its share waits for another one to end before it is
sent away: claiming it again costs more."""

ALONE_SECONDS = 1.0
"""Seconds without deliveries of others after which a tenant is alone. Only then may its deliveries
wait: they hold permits that others need."""

RECEIVERS_MAX = 10_000
"""Number of receivers above which those without deliveries are forgotten."""


class HostLimits:
    """The limits of all hosts, and the shares of tenants. A limit without numbers lets everything
    through, and so do no shares."""

    def __init__(
        self, limit: Limit, clock: Callable[[], datetime], *, shares: Shares | None = None
    ) -> None:
        self._limit = limit
        self._shares = shares
        self._clock = clock
        self._running = 0
        self._last_tenant: str | None = None
        self._alone_since = datetime.min.replace(tzinfo=UTC)
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._paces: dict[str, HostPace] = {}
        self._forget_above = RECEIVERS_MAX

    async def wait_for_share(self, tenant: str) -> None:
        """Waits a moment if a tenant fills the node and is alone."""
        if not self._is_above_share(name := f"tenant {tenant}") or not self._is_alone():
            return
        ended = asyncio.get_running_loop().create_future()
        self._waiting.append((name, ended))
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_WAIT_SECONDS):
                await ended

    def admitted(
        self, tenant: str, urls: Iterable[str], others: Mapping[str, Limit] | None = None
    ) -> _Admission:
        """A block that is given 0 if a tenant's deliveries to all these URLs may start, which then
        run until the block ends; else the seconds after which to ask again. `others` are limits by
        name besides."""
        name_of_tenant = f"tenant {tenant}"
        limits = {f"host {_host(url)} of {tenant}": self._limit for url in urls}
        limits[name_of_tenant] = NO_LIMIT
        if others:
            limits.update(others)
        return _Admission(self, limits, name_of_tenant)

    def end(self, limits: Mapping[str, Limit]) -> None:
        """Deliveries that `start` let through have ended."""
        self._running -= 1
        for name in limits:
            self._paces[name] = finished(self._paces[name])
        self._wake()

    def start(self, limits: Mapping[str, Limit], tenant: str) -> tuple[float, str | None]:
        """Starts deliveries under limits by name, and returns 0; or the seconds to wait, and what
        limits them."""
        now, paces = self._clock(), self._paces
        full = [
            name
            for name, limit in limits.items()
            if not may_start(paces.get(name, IDLE), limit, now)
        ]
        if self._is_above_share(tenant):
            full.append(tenant)
        if not full:
            self._note_start(tenant, now)
            for name, limit in limits.items():
                paces[name] = started(paces.get(name, IDLE), limit, now)
            self._forget(now)
            return 0.0, None
        waits = []
        for name in full:
            paces[name], seconds = sent_away(paces.get(name, IDLE), limits[name], now)
            waits.append(seconds)
        longest = max(waits)
        name = full[waits.index(longest)]
        return longest, _limit_words(name, limits[name])

    def _is_above_share(self, tenant: str) -> bool:
        own = self._paces.get(tenant, IDLE).running
        return self._shares is not None and not may_start_for_tenant(
            self._shares, of_tenant=own, in_all=self._running
        )

    def _is_alone(self) -> bool:
        """Whether one tenant has started all deliveries for some time."""
        return self._clock() - self._alone_since >= timedelta(seconds=ALONE_SECONDS)

    def _note_start(self, tenant: str, now: datetime) -> None:
        if tenant != self._last_tenant:
            if self._last_tenant is not None:
                self._alone_since = now
            self._last_tenant = tenant
        self._running += 1

    def _wake(self) -> None:
        """Lets the first that waits and may start now ask again."""
        while self._waiting:
            tenant, ended = self._waiting[0]
            if not ended.done():
                if not self._is_above_share(tenant):
                    self._waiting.popleft()
                    ended.set_result(None)
                return
            self._waiting.popleft()

    def _forget(self, now: datetime) -> None:
        if len(self._paces) > self._forget_above:
            self._paces = {
                name: pace for name, pace in self._paces.items() if not is_idle(pace, now)
            }
            # Not again before many have come, however many are busy.
            self._forget_above = max(RECEIVERS_MAX, 2 * len(self._paces))


class _Admission:
    """Deliveries from the start to the end of a block. A generator would be shorter, and slower."""

    __slots__ = ("_host_limits", "_limits", "_tenant", "_wait_seconds", "limited_by")

    def __init__(self, host_limits: HostLimits, limits: Mapping[str, Limit], tenant: str) -> None:
        self._host_limits = host_limits
        self._limits = limits
        self._tenant = tenant
        self.limited_by: str | None = None

    def __enter__(self) -> float:
        self._wait_seconds, self.limited_by = self._host_limits.start(self._limits, self._tenant)
        return self._wait_seconds

    def __exit__(self, *_: object) -> None:
        if not self._wait_seconds:
            self._host_limits.end(self._limits)


def _limit_words(name: str, limit: Limit) -> str:
    allowed = [] if limit.concurrency is None else [f"{limit.concurrency} at once"]
    if limit.rate_per_second is not None:
        allowed.append(f"{limit.rate_per_second:g} a second")
    if not allowed:
        return f"{name} has its share of the deliveries of this node"
    return f"{name} gets {' and '.join(allowed)}"


@lru_cache(RECEIVERS_MAX)
def _host(url: str) -> str:
    return host_of(url).rstrip(".")  # The guard refuses what has none.
