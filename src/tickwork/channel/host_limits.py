"""How much each host and tenant gets from this node, so that none occupies more than its share.

A delivery over the limit is not sent. It waits in the line of what limits it, and starts when that
lets it go: who ends a delivery starts the next one at once. Lines are short, because a consumer
claims no more than what they let go soon (`ReceiverGate`). What has waited too long is released and
comes back, and no attempt is lost.

Each tenant has the limit of a host for itself: requests of one that hang do not hold up another
that sends to the same host. A tenant with many slow hosts may fill the node while it is alone; when
others come, it gets its share. An endpoint has limits of its own besides.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

from tickwork.channel.guard import host_of
from tickwork.channel.receivers import NO_LIMIT, RECEIVERS_MAX, SEVERAL, Receivers, tenant_limit
from tickwork.clock import monotonic
from tickwork.core.delivery.pace import (
    IDLE,
    HostPace,
    Limit,
    Shares,
    Throughput,
    finished,
    is_idle,
    may_start,
    may_start_for_tenant,
    room_of,
    seconds_until_start,
    sent_away,
    started,
)
from tickwork.core.limits import CLAIMED_MAX
from tickwork.core.queue.rooms import Room

SHARE_WAIT_SECONDS = 0.25
"""Seconds that a delivery of a tenant above its share waits for another one to end before it is
sent away: claiming it again costs more."""

ALONE_SECONDS = 1.0
"""Seconds without deliveries of others after which a tenant is alone. Only then may its deliveries
wait: they hold permits that others need."""

LINE_SECONDS = 2.0
"""Seconds that a delivery waits in a line before it is sent away."""


class _Waiter:
    """A delivery in the line of a limit. Its turn is True if it was started."""

    __slots__ = ("limits", "tenant", "turn")

    def __init__(self, limits: Mapping[str, Limit], tenant: str) -> None:
        self.limits, self.tenant = limits, tenant
        self.turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def leave(self, *, is_started: bool) -> None:
        """Ends its waiting."""
        if not self.turn.done():
            self.turn.set_result(is_started)


class HostLimits:
    """The limits of all hosts, and the shares of tenants. A limit without numbers lets everything
    through, and so do no shares. With `line_seconds` 0 nothing waits in a line."""

    def __init__(
        self,
        limit: Limit,
        clock: Callable[[], datetime],
        *,
        shares: Shares | None = None,
        line_seconds: float = LINE_SECONDS,
    ) -> None:
        self._limit = limit
        self._shares = shares
        self._clock = clock
        self._line_seconds = line_seconds
        self._running = 0
        self._last_tenant: str | None = None
        self._alone_since = datetime.min.replace(tzinfo=UTC)
        self._waiting: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._paces: dict[str, HostPace] = {}
        self._throughputs: dict[str, Throughput] = {}
        self._lines: dict[str, deque[_Waiter]] = {}
        self._concluding: Counter[str] = Counter()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.receivers = Receivers(self)
        self._forget_above = RECEIVERS_MAX

    async def wait_for_share(self, tenant: str) -> None:
        """Waits a moment if a tenant fills the node and is alone."""
        if not self._is_above_share(name := tenant_limit(tenant)) or not self._is_alone():
            return
        ended = asyncio.get_running_loop().create_future()
        self._waiting.append((name, ended))
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_WAIT_SECONDS):
                await ended

    def admitted(
        self,
        tenant: str,
        urls: Iterable[str],
        others: Mapping[str, Limit] | None = None,
        receiver: str | None = None,
    ) -> _Admission:
        """A block that is given 0 if a tenant's deliveries to all these URLs may start, which then
        run until the block ends; else the seconds after which to ask again. `async with` waits in
        line before. `others` are limits by name besides. These are the limits of the `receiver`
        from now on."""
        name_of_tenant = tenant_limit(tenant)
        limits = {f"host {_host(url)} of {tenant}": self._limit for url in urls}
        if others:
            limits.update((name, limit) for name, limit in others.items() if limit != NO_LIMIT)
        limits[name_of_tenant] = NO_LIMIT
        if receiver:
            self.receivers.note(tenant, receiver, limits)
        elif receiver is not None:
            limits[SEVERAL] = NO_LIMIT
        return _Admission(self, limits, name_of_tenant)

    # Starting and ending

    def start(self, limits: Mapping[str, Limit], tenant: str) -> list[str]:
        """Starts deliveries under limits by name unless some of these are full: those it returns.
        Nobody is passed who waits in a line."""
        now = self._clock()
        full = self._full(limits, tenant, now)
        if not full:
            self._start(limits, tenant, now)
        return full

    async def start_in_line(self, limits: Mapping[str, Limit], tenant: str, full: str) -> bool:
        """The same as soon as a limit that is full lets it go; whether it did."""
        if self._line_seconds <= 0 or self._is_above_share(tenant):
            return False
        waiter = _Waiter(limits, tenant)
        self._lines.setdefault(full, deque()).append(waiter)
        self._serve(full)
        leave = asyncio.get_running_loop().call_later(
            self._line_seconds, partial(waiter.leave, is_started=False)
        )
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.result():
                self.end(limits)
            raise
        finally:
            leave.cancel()

    def end(self, limits: Mapping[str, Limit]) -> None:
        """Deliveries that started have ended. Others that wait for that start at once."""
        self._running -= 1
        at = monotonic()
        for name, limit in limits.items():
            self._paces[name] = finished(self._paces[name])
            if limit.concurrency is None:
                continue  # Nobody asks for its throughput.
            if (throughput := self._throughputs.get(name)) is None:
                throughput = self._throughputs[name] = Throughput(at)
            throughput.count(at)
        for name, limit in limits.items():
            if name in self._lines:
                self._serve(name)
            self.receivers.wake(name, limit)
        self._wake()

    def conclude(self, limits: Mapping[str, Limit]) -> None:
        """What became of a delivery is being recorded, after its end."""
        self._concluding.update(limits.keys())

    def concluded(self, limits: Mapping[str, Limit]) -> None:
        """It is recorded, and its claim ends."""
        for name in limits:
            self._concluding[name] -= 1
            if not self._concluding[name]:
                del self._concluding[name]

    def send_away(self, limits: Mapping[str, Limit], full: Sequence[str]) -> tuple[float, str]:
        """The seconds after which a delivery comes back that was not started, and what limits
        it."""
        now, waits = self._clock(), []
        for name in full:
            self._paces[name], seconds = sent_away(self._paces.get(name, IDLE), limits[name], now)
            waits.append(seconds)
        longest = max(waits)
        name = full[waits.index(longest)]
        return longest, _limit_words(name, limits[name])

    def _start(self, limits: Mapping[str, Limit], tenant: str, now: datetime) -> None:
        self._note_start(tenant, now)
        for name, limit in limits.items():
            self._paces[name] = started(self._paces.get(name, IDLE), limit, now)
        self._forget(now)

    def _full(
        self, limits: Mapping[str, Limit], tenant: str, now: datetime, own_line: str | None = None
    ) -> list[str]:
        """The limits that let nothing through now, or others first. `own_line` is the line whose
        first one asks."""
        paces, lines = self._paces, self._lines
        full = [
            name
            for name, limit in limits.items()
            if (name in lines and name != own_line)
            or not may_start(paces.get(name, IDLE), limit, now)
        ]
        if self._is_above_share(tenant) and tenant not in full:
            full.append(tenant)
        return full

    # Lines

    def _serve(self, name: str) -> None:
        """Starts the first ones of a line while that may be."""
        line, now = self._lines.get(name), self._clock()
        while line:
            waiter = line[0]
            if not waiter.turn.done():
                full = self._full(waiter.limits, waiter.tenant, now, name)
                if name in full:
                    self._serve_later(name, waiter.limits[name], now)
                    return
                if waiter.tenant in full:
                    waiter.leave(is_started=False)
                elif full:
                    self._lines.setdefault(full[0], deque()).append(waiter)
                    self._serve_later(full[0], waiter.limits[full[0]], now)
                else:
                    self._start(waiter.limits, waiter.tenant, now)
                    waiter.leave(is_started=True)
            line.popleft()
        self._lines.pop(name, None)

    def _serve_later(self, name: str, limit: Limit, now: datetime) -> None:
        """Serves a line when its rate allows the next one; when a delivery ends it is served
        anyway."""
        seconds = seconds_until_start(self._paces.get(name, IDLE), limit, now)
        if seconds <= 0 or name in self._timers:
            return

        def serve() -> None:
            self._timers.pop(name, None)
            self._serve(name)

        self._timers[name] = asyncio.get_running_loop().call_later(seconds, serve)

    # Room for claims

    def room(self, name: str, limit: Limit, claimed: int = 0, reserved: int = 0) -> int:
        """How many more deliveries to claim under a limit. So many are `claimed` already, and
        others may be claimed now."""
        pace, throughput = self._paces.get(name, IDLE), self._throughputs.get(name)
        per_second = 0.0 if throughput is None else throughput.per_second(monotonic())
        waiting = len(self._lines.get(name, ()))
        claimed -= self._concluding.get(name, 0)
        return room_of(
            pace,
            limit,
            self._clock(),
            per_second,
            waiting=waiting,
            claimed=claimed,
            reserved=reserved,
        )

    def room_of_tenant(self, tenant: str, claimed: Mapping[str, int]) -> Room:
        """How many more deliveries of a tenant to claim. So many are `claimed` under each limit."""
        name = tenant_limit(tenant)
        if self._shares is None:
            return Room(name, CLAIMED_MAX)
        running = self._paces.get(name, IDLE).running
        owned = claimed.get(name, 0) - self._concluding.get(name, 0)
        own, others = max(running, owned), self._running - running
        return Room(name, max(self._shares.tenant, self._shares.node - others) - own)

    def seconds_until_room(self, name: str, limit: Limit) -> float:
        """Seconds until the rate of a limit lets go what is not claimed yet; 0 without a rate."""
        pace, waiting = self._paces.get(name, IDLE), len(self._lines.get(name, ()))
        return seconds_until_start(pace, limit, self._clock(), waiting + 1)

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
            self._throughputs = {
                name: throughput
                for name, throughput in self._throughputs.items()
                if name in self._paces
            }
            # Not again before many have come, however many are busy.
            self._forget_above = max(RECEIVERS_MAX, 2 * len(self._paces))


class _Admission:
    """Deliveries from the start to the end of a block. A generator would be shorter, and slower."""

    __slots__ = (
        "_host_limits", "_is_answered", "_is_started", "_limits", "_tenant", "limited_by",
    )  # fmt: skip

    def __init__(self, host_limits: HostLimits, limits: Mapping[str, Limit], tenant: str) -> None:
        self._host_limits = host_limits
        self._limits = limits
        self._tenant = tenant
        self._is_started = self._is_answered = False
        self.limited_by: str | None = None

    def __enter__(self) -> float:
        return self._entered(self._host_limits.start(self._limits, self._tenant))

    async def __aenter__(self) -> float:
        full = self._host_limits.start(self._limits, self._tenant)
        if full and await self._host_limits.start_in_line(self._limits, self._tenant, full[0]):
            full = []
        return self._entered(full)

    def _entered(self, full: Sequence[str]) -> float:
        if full:
            seconds, self.limited_by = self._host_limits.send_away(self._limits, full)
            return seconds
        self._is_started = True
        return 0.0

    def answered(self) -> None:
        """The receivers have answered: others may start, before this block ends."""
        if self._is_started and not self._is_answered:
            self._is_answered = True
            self._host_limits.conclude(self._limits)
            self._host_limits.end(self._limits)

    def __exit__(self, *_: object) -> None:
        if self._is_answered:
            self._host_limits.concluded(self._limits)
        elif self._is_started:
            self._host_limits.end(self._limits)

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


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
