"""Quotas of a tenant for what callers send: Python outside handlers, the command line, HTTP.

What a handler sends commits with its ack, and due slots become messages, whatever the quotas. Runs
of a schedule that a caller asks for are what that caller sends.

Emails have a quota of their own, counted when they are sent. One that exceeds it fails this attempt
and is retried on the next day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import structs

from tickwork.core.delivery.outcome import Delivery, ErrorKind, failed
from tickwork.core.delivery.target import email_fault, seconds_until_next_day
from tickwork.core.model import SYSTEM, NewMessage, Scope
from tickwork.core.schedule.model import Definition
from tickwork.core.tenant_limits import MessageQuota, check_payload, check_room, messages_at_once
from tickwork.errors import StoreUnavailable
from tickwork.ops.context import Context
from tickwork.store.contract import Store


async def admit(context: Context, messages: Sequence[NewMessage]) -> None:
    """Charges messages to the quotas of the tenant. Raises `TooMany` if they exceed one."""
    largest = max((len(message.body) for message in messages), default=0)
    await context.store.tenants.admit(context.scope, len(messages), largest)


async def admit_runs(context: Context, definition: Definition, count: int) -> None:
    """Charges runs of a schedule that a caller asks for, such as a backfill. Raises `TooMany`."""
    if count:
        await context.store.tenants.admit(context.scope, count, len(definition.body))


async def admit_items(context: Context, items: Iterable[NewMessage]) -> Iterable[NewMessage]:
    """Charges the items of a batch, and returns them. Raises `TooMany` before any is stored; for a
    body that is too large perhaps after others are."""
    quota = await context.store.tenants.quota(context.scope)
    if quota.is_none:
        return items
    most = messages_at_once(quota)
    if most is None:
        return _checked(items, quota)
    first = tuple(islice(items, most + 1))
    await admit(context, first)
    return first


async def payload_check(context: Context) -> Callable[[Definition], None]:
    """A check that raises `TooMany` if the payload of a schedule is larger than the tenant may
    send."""
    quota = await context.store.tenants.quota(context.scope)
    return lambda new: check_payload(quota.tenant, len(new.body), quota.payload_bytes_max)


async def request_quota(context: Context) -> float | None:
    """HTTP requests a second of the tenant, with all its keys together; None without a quota. It is
    cached for seconds."""
    return (await context.store.tenants.quota(context.scope)).requests_per_second


async def check_queue_room(context: Context) -> None:
    """Raises `TooMany` if the tenant may not have one more queue, as `put_queue` would."""
    tenant = await context.store.tenants.get(SYSTEM, str(context.scope.tenant))
    if tenant.queues_max is not None:
        own = [
            queue
            for queue in await context.store.queues.list(context.scope)
            if queue.tenant == tenant.id
        ]
        check_room(tenant.id, "queues_max", len(own), tenant.queues_max)


class EmailQuotas:
    """The daily quotas of tenants for emails. They are counted in the database, exactly."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, tenant: str, emails: int) -> Delivery | int | None:
        """Counts emails before they are sent. Returns what becomes of them if they may not be; else
        the day on which they count, or None if the tenant has no limit."""
        scope = Scope(tenant)
        try:
            quota = await self._store.tenants.quota(scope)
            if (fault := email_fault(tenant, quota.emails_per_day)) is not None:
                return failed(ErrorKind.REFUSED, fault, is_permanent=True)
            if quota.emails_per_day is None:
                return None
            day = await self._store.tenants.take_emails(scope, emails)
            if day is not None:
                return day
            now = await self._store.now()
        except StoreUnavailable as error:
            return failed(ErrorKind.QUOTA, f"the quota of emails cannot be read: {error}")
        exceeded = (
            f"quota: the tenant {tenant} may send {quota.emails_per_day} emails a day; it is tried "
            "again after midnight UTC, or raise its emails_per_day"
        )
        result = failed(ErrorKind.QUOTA, exceeded)
        return structs.replace(result, retry_after_seconds=seconds_until_next_day(now))

    async def give_back(self, tenant: str, emails: int, day: int) -> None:
        """These emails were not sent. If the database does not answer, they stay counted."""
        with suppress(StoreUnavailable):
            await self._store.tenants.return_emails(Scope(tenant), emails, day)


def _checked(items: Iterable[NewMessage], quota: MessageQuota) -> Iterator[NewMessage]:
    for item in items:
        check_payload(quota.tenant, len(item.body), quota.payload_bytes_max)
        yield item
