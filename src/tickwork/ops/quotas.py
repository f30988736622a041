"""Quotas of a tenant for what callers send: Python outside handlers, the command line, HTTP.

What a handler sends commits with its ack, and due slots become messages, whatever the quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from tickwork.core.model import NewMessage, Scope
from tickwork.core.schedule.model import Definition
from tickwork.core.tenant_limits import MessageQuota, check_payload, messages_at_once
from tickwork.store.contract import Store


async def admit(store: Store, scope: Scope, messages: Sequence[NewMessage]) -> None:
    """Charges messages to the quotas of the tenant. Raises `TooMany` if they exceed one."""
    largest = max((len(each.body) for each in messages), default=0)
    await store.tenants.admit(scope, len(messages), largest)


async def admit_items(
    store: Store, scope: Scope, items: Iterable[NewMessage]
) -> Iterable[NewMessage]:
    """Charges the items of a batch, and returns them. Raises `TooMany` before any is stored; for a
    body that is too large perhaps after others are."""
    quota = await store.tenants.quota(scope)
    if quota.is_none:
        return items
    most = messages_at_once(quota)
    if most is None:
        return _checked(items, quota)
    first = tuple(islice(items, most + 1))
    await admit(store, scope, first)
    return first


async def payload_check(store: Store, scope: Scope) -> Callable[[Definition], None]:
    """A check that raises `TooMany` if the payload of a schedule is larger than the tenant may
    send."""
    quota = await store.tenants.quota(scope)
    return lambda new: check_payload(quota.tenant, len(new.body), quota.payload_bytes_max)


def _checked(items: Iterable[NewMessage], quota: MessageQuota) -> Iterator[NewMessage]:
    for item in items:
        check_payload(quota.tenant, len(item.body), quota.payload_bytes_max)
        yield item
