"""Publishes events on PostgreSQL: to the queues that subscribe, and to endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE, Published
from tickwork.core.delivery.publish import (
    NewDelivery,
    check_event,
    check_same_event,
    event_name,
    new_deliveries,
    published,
)
from tickwork.core.model import NewMessage
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, new_id
from tickwork.store.nouns.endpoint_rows import published_values, read_published, read_settings
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender

_NO_QUEUE = UUID(int=0)


class NewEvent(NamedTuple):
    """An event to publish: its tenant, itself, its owner, and copies for subscribers."""

    tenant: str
    message: NewMessage
    owner: str | None
    copies: Sequence[Group]


class Delivered(NamedTuple):
    """Messages for endpoints, how many endpoints receive the event, and whether some have it
    already."""

    groups: list[Group]
    endpoints: int
    is_repeat: bool


class Publisher:
    """Publishes events, and stores messages of deliveries."""

    def __init__(self, database: Database, moment: Moment, sender: Sender) -> None:
        self._database = database
        self._moment = moment
        self._sender = sender
        self._queue_id: UUID | None = None

    async def publish(self, tenant: str, event: NewMessage, owner: str | None) -> Published:
        """Publishes an event in one transaction."""
        try:
            return await self._publish(tenant, event, owner)
        except NotFound:
            # A cached queue was deleted. Look it up again.
            self.forget()
            return await self._publish(tenant, event, owner)

    async def group(
        self, connection: Connection, tenant: str, messages: Sequence[NewMessage]
    ) -> Group:
        """Messages for the queue of deliveries; `NotFound` if it does not exist."""
        return Group(tenant, await self.queue_id(connection), ENDPOINTS_QUEUE, tuple(messages))

    async def queue_id(self, connection: Connection) -> UUID:
        """The id of the queue of deliveries, from the cache if possible."""
        if self._queue_id is None:
            row = await connection.fetchrow(SQL.find_queue, None, ENDPOINTS_QUEUE)
            if row is None:
                raise NotFound("queue", ENDPOINTS_QUEUE)
            self._queue_id = row["id"]
        return self._queue_id

    def forget(self) -> None:
        """Clears the cache."""
        self._queue_id = None

    async def prepare(self, tenant: str, event: NewMessage, owner: str | None) -> NewEvent:
        """An event to publish, with its copies for the queues that subscribe to it."""
        check_event(event)
        copies = await self._sender.copies(Group(tenant, _NO_QUEUE, "", (event,)))
        return NewEvent(tenant, event, owner, copies)

    async def deliver(self, connection: Connection, event: NewEvent) -> Delivered:
        """Records the deliveries of an event to endpoints. Store their messages in the same
        transaction. Raises `Conflict` if its `event_id` was used for another event."""
        tenant = event.tenant
        found = await connection.fetch(SQL.endpoint_settings, self._moment(), tenant)
        groups = list[Group]()
        endpoints = 0
        is_repeat = False
        if found:
            now = found[0]["now"]
            settings = ((row["id"], read_settings(row["settings"])) for row in found)
            deliveries = new_deliveries(published(event.message, now), settings, event.owner)
            endpoints = len(deliveries)
            messages = await record_deliveries(connection, tenant, now, deliveries)
            is_repeat = len(messages) < endpoints
            if messages:
                groups.append(await self.group(connection, tenant, messages))
        if event.message.event_id is not None:
            # After the insert, which waits for others that publish it.
            known = await connection.fetchrow(SQL.find_published, tenant, event.message.id)
            check_same_event(event.message, None if known is None else read_published(known))
        return Delivered(groups, endpoints, is_repeat)

    async def _publish(self, tenant: str, event: NewMessage, owner: str | None) -> Published:
        new = await self.prepare(tenant, event, owner)
        copies = new.copies
        # The same ones for a repeat after a lost answer, which then stores nothing twice.
        copies_receipt, receipt = new_id(), new_id()

        async def work(connection: Connection) -> tuple[Published, list[Group]]:
            delivered = await self.deliver(connection, new)
            is_repeat = delivered.is_repeat
            stored, backlog = list[Group](), BacklogChange()
            if delivered.groups:
                stored += await self._sender.store(connection, delivered.groups, receipt, backlog)
            if copies:
                copied = await self._sender.store_copies(
                    connection, copies, copies_receipt, backlog
                )
                stored += copied
                is_repeat = (
                    is_repeat
                    or not all(group.messages for group in copied[: len(copies)])
                    or await _is_done(connection, tenant, copies, event)
                )
            await change_backlog(connection, backlog)
            answer = Published(
                event_id=event_name(event),
                queues=len(copies),
                endpoints=delivered.endpoints,
                is_repeat=is_repeat,
            )
            return answer, stored

        answer, stored = await self._database.transact(work)
        self._sender.after_commit(stored)
        return answer


async def _is_done(
    connection: Connection, tenant: str, copies: Sequence[Group], event: NewMessage
) -> bool:
    """Whether the event was handled before in one of the queues that get a copy."""
    if event.event_id is None:
        return False
    queue_ids = [group.queue_id for group in copies]
    found = await connection.fetch(SQL.done_events, tenant, queue_ids, event.event_id)
    return bool(found)


async def record_deliveries(
    connection: Connection, tenant: str, now: datetime, deliveries: Sequence[NewDelivery]
) -> list[NewMessage]:
    """Stores published events and their deliveries; returns the messages of the new ones."""
    if not deliveries:
        return []
    events = {delivery.event.id: delivery.event for delivery in deliveries}
    columns = zip(*map(published_values, events.values()), strict=True)
    await connection.execute(SQL.record_published, tenant, now, *columns)
    found = await connection.fetch(
        SQL.record_deliveries,
        tenant,
        now,
        [delivery.id for delivery in deliveries],
        [delivery.endpoint_id for delivery in deliveries],
        [delivery.event.id for delivery in deliveries],
        [event_name(delivery.event) for delivery in deliveries],
        [delivery.event.type for delivery in deliveries],
    )
    new = {row["id"] for row in found}
    return [delivery.message for delivery in deliveries if delivery.id in new]
