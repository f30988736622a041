"""The quotas of tenants for messages, checked before a send.

A tenant's quotas are cached, so that a tenant without any costs a send no statement. Its backlog is
counted about once a second; between two counts this process adds what it sends itself. So several
processes together may exceed a backlog by what they send in a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from tickwork.clock import monotonic
from tickwork.core.model import Scope, Tenant
from tickwork.core.tenant_limits import MessageQuota, check_backlog, check_payload, quota_of
from tickwork.store.ids import Moment, own_tenant

QUOTA_SECONDS = 3.0
"""Seconds that the quotas of a tenant are cached. Another process may change them."""

COUNT_SECONDS = 1.0
"""Seconds between two counts of a backlog, unless counting takes long."""

COUNTING_SHARE = 0.05
"""Maximum share of the time spent on counting the backlog of a tenant."""

TENANTS_REMEMBERED_MAX = 10_000
"""Maximum number of cached tenants; beyond it all are dropped."""


class _Known(Struct):
    """A cached quota, and the backlog as counted last."""

    quota: MessageQuota
    is_unlimited: bool
    until: float
    messages: int = 0
    count_again_at: float = float("-inf")


class MessageQuotas:
    """Admits messages of tenants. `read` returns a tenant or None, `count` the number of its
    messages up to a limit, `spend` charges messages to its rate.

    With the `shared` quotas of a process these are for callers' transactions. Each send counts the
    backlog then: what a transaction has sent is no one else's before it commits.
    """

    def __init__(
        self,
        moment: Moment,
        read: Callable[[str], Awaitable[Tenant | None]],
        count: Callable[[str, int], Awaitable[int]],
        spend: Callable[[str, int], Awaitable[None]],
        shared: MessageQuotas | None = None,
    ) -> None:
        self._moment = moment
        self._read = read
        self._count = count
        self._spend = spend
        self._shared = shared
        self._known: dict[str, _Known] = {}

    async def admit(self, scope: Scope, messages: int, payload_bytes: int) -> None:
        """Raises `TooMany` if a tenant may not send so many messages, or one of so many bytes."""
        tenant = own_tenant(scope)
        known = await self._of(tenant)
        if known.is_unlimited:
            return
        quota = known.quota
        check_payload(tenant, payload_bytes, quota.payload_bytes_max)
        if quota.backlog_max is not None:
            await self._check_backlog(known, messages, quota.backlog_max)
        if quota.messages_per_second is not None:
            await self._spend(tenant, messages)
        known.messages += messages

    async def quota(self, scope: Scope) -> MessageQuota:
        """The quotas of a tenant; one that does not exist has none."""
        return (await self._of(own_tenant(scope))).quota

    def forget(self, tenant: str) -> None:
        """Drops the cached quotas of a tenant, after a change."""
        self._known.pop(tenant, None)

    async def _of(self, tenant: str) -> _Known:
        if self._shared is not None:
            shared = await self._shared._of(tenant)  # noqa: SLF001  another of its class
            return _Known(shared.quota, shared.is_unlimited, 0.0)
        known = self._known.get(tenant)
        if known is None or known.until < monotonic() or self._moment() is not None:
            known = await self._look_up(tenant)
        return known

    async def _look_up(self, tenant: str) -> _Known:
        found = await self._read(tenant)
        quota = MessageQuota(tenant=tenant) if found is None else quota_of(found)
        known, until = self._known.get(tenant), monotonic() + QUOTA_SECONDS
        if known is not None and self._moment() is None:
            known.quota, known.is_unlimited = quota, quota.is_none
            known.until = until
            return known
        if len(self._known) >= TENANTS_REMEMBERED_MAX:
            self._known.clear()
        known = self._known[tenant] = _Known(quota, quota.is_none, until)
        return known

    async def _check_backlog(self, known: _Known, messages: int, backlog_max: int) -> None:
        began = monotonic()
        if began >= known.count_again_at:
            known.messages = await self._count(known.quota.tenant, backlog_max + 1)
            now = monotonic()
            known.count_again_at = now + max(COUNT_SECONDS, (now - began) / COUNTING_SHARE)
        check_backlog(known.quota.tenant, known.messages + messages, backlog_max)
