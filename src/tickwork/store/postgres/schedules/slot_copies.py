"""Copies of slots for subscribers on PostgreSQL.

A slot's message is copied in the transaction that plans it. The copies become visible when the slot
is due, and are withdrawn with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tickwork.core.message.subscription import FiredSlots, copy_id, matches, slot_event
from tickwork.core.model import NewMessage
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.rows import messages
from tickwork.store.postgres.messages.send import Group, Parcel, Sender
from tickwork.store.postgres.messages.subscriptions import PostgresSubscriptions


class SlotCopies:
    """Stores copies of slots."""

    def __init__(self, sender: Sender, subscriptions: PostgresSubscriptions) -> None:
        self._sender, self._subscriptions = sender, subscriptions

    async def has_subscribers(self, tenants: Collection[str]) -> bool:
        """Whether one of the tenants has subscriptions. They are cached for a second."""
        for tenant in tenants:
            if await self._subscriptions.of(tenant):
                return True
        return False

    async def store(
        self,
        connection: Connection,
        fired: Sequence[FiredSlots[UUID]],
        now: datetime,
        backlog: BacklogChange,
    ) -> list[Group]:
        """Stores the copies of slots that were stored in the same transaction, exempt from the caps
        of their queues. Returns what was stored; the caller writes the backlog change."""
        if not fired:
            return []
        found = await connection.fetch(
            SQL.subscriptions_among, [*{slots.tenant for slots in fired}]
        )
        wanted = {
            (slots.tenant, message_id): slots.queue_id
            for slots in fired
            for message_id in slots.message_ids
            if any(
                row["tenant"] in (slots.tenant, None)
                and row["queue_id"] != slots.queue_id
                and matches(row["types"], slots.type)
                for row in found
            )
        }
        copies = await _copies(connection, wanted, found, now)
        # A subscriber may be deleted at any time. Then it gets no copy.
        queue_ids = [*{group.queue_id for group in copies}]
        locked = {row["id"] for row in await connection.fetch(SQL.lock_queues, queue_ids)}
        copies = [group for group in copies if group.queue_id in locked]
        return await self._sender.store(connection, copies, new_id(), backlog) if copies else []

    def after_commit(self, copies: Sequence[Group]) -> None:
        """Counts the copies and wakes their consumers."""
        self._sender.after_commit(copies)


async def _copies(
    connection: Connection,
    wanted: Mapping[tuple[str, UUID], UUID],
    subscribers: Sequence[Any],
    now: datetime,
) -> list[Group]:
    """The copies of new messages, given with their queues."""
    if not wanted:
        return []
    tenants, ids = zip(*wanted, strict=True)
    rows = await connection.fetch(SQL.slots_to_copy, tenants, ids)
    events: dict[tuple[str, UUID], list[NewMessage]] = {}
    for message, row in zip(messages(rows), rows, strict=True):
        queue_id = wanted[message.tenant, message.id]
        event = slot_event(message, now, row["expires_at"])
        events.setdefault((message.tenant, queue_id), []).append(event)
    copies: list[Group] = []
    for (tenant, queue_id), own in events.items():
        group = Group(tenant, queue_id, "", tuple(own), is_exempt=True)
        copies += Parcel(group, _subscribers(subscribers, tenant, queue_id)).copies_of(group)
    return copies


def _subscribers(
    found: Sequence[Any], tenant: str, queue_id: UUID
) -> dict[tuple[UUID, str], list[str]]:
    """The queues that subscribe to messages of a tenant in another queue, and their patterns."""
    patterns: dict[tuple[UUID, str], list[str]] = {}
    for row in found:
        if row["tenant"] in (tenant, None) and row["queue_id"] != queue_id:
            patterns.setdefault((row["queue_id"], row["queue"]), []).append(row["types"])
    return patterns


async def copies_of(
    connection: Connection, slots: Sequence[tuple[str, UUID]]
) -> list[tuple[str, UUID]]:
    """The tenants and ids that copies of messages have if they exist."""
    found = await connection.fetch(SQL.subscriptions_among, [*{tenant for tenant, _ in slots}])
    return [
        (tenant, copy_id(message_id, row["queue_id"]))
        for tenant, message_id in slots
        for row in found
        if row["tenant"] in (tenant, None)
    ]
