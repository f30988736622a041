"""Refuses requests beyond the rate of their key or tenant, and wrong keys beyond that of their
address; answers to wrong keys come late. Other callers are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter

from tickwork.core.access import Caller
from tickwork.core.request_rate import (
    REFUSED_METRIC,
    WRONG_KEYS_BURST_SECONDS,
    Rates,
    RequestRates,
    network_of,
    wrong_key_delay_seconds,
)
from tickwork.errors import RateExceeded, Unauthorized

KNOWN_SECONDS = 600.0
"""Seconds for which a key that was right is not refused for the wrong keys of its address."""

KNOWN_KEYS_MAX = 20_000

DELAYED_MAX = 500
"""Maximum number of answers that are delayed at a time. Those to more wrong keys, which come from
many addresses, are not: they would only keep connections."""


class _Limit(NamedTuple):
    """The rate of those who share a bucket: its name, who they are, and what else they can do."""

    name: str
    bucket: Hashable
    rate: float
    who: str
    advice: str = ""


class RequestGate:
    """Counts the requests of one process."""

    def __init__(
        self,
        rates: RequestRates,
        monotonic: Callable[[], float],
        registry: CollectorRegistry,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._rates, self._monotonic = rates, monotonic
        self._sleep, self._delayed = sleep, 0
        self._callers, self._wrong = Rates(), Rates(WRONG_KEYS_BURST_SECONDS)
        self._known: dict[str, float] = {}
        self._guessed: set[str] = set()
        self._refused = Counter(
            REFUSED_METRIC, "Requests that were refused, by reason.", ["reason"], registry=registry
        )

    def clear(self) -> None:
        """Forgets what was counted, when a server starts."""
        self._callers.clear()
        self._wrong.clear()
        self._known.clear()

    def check(self, caller: Caller, quota: float | None = None) -> None:
        """Counts a request. Raises `RateExceeded` if its key, or its tenant, has made too many.
        `quota` are the requests a second of the tenant, if it has such a quota."""
        now = self._monotonic()
        limits = (self._key_limit(caller), self._tenant_limit(caller.tenant, quota))
        for limit in limits:
            wait_seconds = self._callers.wait_seconds(limit.bucket, now)
            if wait_seconds > 0:
                self._refused.labels("rate").inc()
                text = f"{limit.who} may make {limit.rate:g} requests a second of a process"
                fault = f"{text}; try again later{limit.advice}"
                raise RateExceeded(fault, limit.name, wait_seconds, limit.rate)
        for limit in limits:
            self._callers.count(limit.bucket, limit.rate, now)

    def _key_limit(self, caller: Caller) -> _Limit:
        bucket = (caller.tenant, caller.name)
        return _Limit("key_requests_per_second", bucket, self._rates.key_per_second, caller.name)

    def _tenant_limit(self, tenant: str, quota: float | None) -> _Limit:
        who = f"all keys of tenant {tenant} together"
        if quota is None:
            rate = self._rates.tenant_per_second
            return _Limit("tenant_requests_per_second", tenant, rate, who)
        advice = ", or raise the tenant's requests_per_second"
        return _Limit("requests_per_second", (tenant, "quota"), quota, who, advice)

    @asynccontextmanager
    async def guess(self, host: str, credential: str | None) -> AsyncIterator[None]:
        """Checks a key inside. An unseen one counts as wrong before anybody knows whether it is, so
        that many at once are counted, too; it counts no more if nothing raises `Unauthorized`.

        Raises `RateExceeded` if too many wrong keys came from the address. A key that was right
        some minutes ago passes: others may share the address of its proxy. Requests with one key at
        once are one guess. A request without a key is none. `Unauthorized` goes on after a delay,
        in which the request holds nothing but its connection.
        """
        if credential is None:
            yield
            return
        is_counted = not self._is_known(credential) and credential not in self._guessed
        if is_counted:
            self._take(host)
            self._guessed.add(credential)
        is_taken_back = is_counted
        try:
            yield
            self._note_right(credential)
        except Unauthorized:
            self._known.pop(credential, None)
            is_taken_back = False
            if not is_counted:
                self._take(host)
            self._refused.labels("wrong_key").inc()
            await self._delay(host)
            raise
        finally:
            if is_counted:
                self._guessed.discard(credential)
            if is_taken_back:
                self._wrong.give_back(network_of(host), self._rates.wrong_keys_per_second)

    def _take(self, host: str) -> None:
        """Counts a wrong key of an address, or raises `RateExceeded`."""
        rate = self._rates.wrong_keys_per_second
        wait_seconds = self._wrong.take(network_of(host), rate, self._monotonic())
        if wait_seconds > 0:
            self._refused.labels("address").inc()
            fault = "you sent too many wrong keys from this address; try again later"
            raise RateExceeded(fault, "wrong_keys", wait_seconds, rate)

    async def _delay(self, host: str) -> None:
        """Waits before a wrong key is answered, the longer the more came from its address."""
        if self._delayed >= DELAYED_MAX:
            return
        rate = self._rates.wrong_keys_per_second
        ahead_seconds = self._wrong.ahead_seconds(network_of(host), self._monotonic())
        self._delayed += 1
        try:
            await self._sleep(wrong_key_delay_seconds(ahead_seconds, rate))
        finally:
            self._delayed -= 1

    def _note_right(self, credential: str) -> None:
        if len(self._known) >= KNOWN_KEYS_MAX:
            self._known.clear()
        self._known[credential] = self._monotonic()

    def _is_known(self, credential: str) -> bool:
        seen = self._known.get(credential)
        return seen is not None and self._monotonic() - seen < KNOWN_SECONDS
