"""System events on PostgreSQL: published to subscribers, without a queue of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.core.message.subscription import copy_for, matches
from tickwork.core.message.system_events import (
    DeadMessage,
    dead_message_events,
    matches_system_event,
    schedule_paused_event,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.errors import NotFound
from tickwork.store.ids import new_id, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.schedules.slot_outcome import Paused

_NO_QUEUE = UUID(int=0)


async def publish(database: Database, sender: Sender, scope: Scope, event: NewMessage) -> int:
    """Copies an event to the queues that subscribe to it; returns how many."""
    own = Group(own_tenant(scope), _NO_QUEUE, "", (event,))
    try:
        return await _publish(database, sender, own)
    except NotFound:
        # A cached subscriber was deleted. Look them up again.
        return await _publish(database, sender, own)


async def _publish(database: Database, sender: Sender, own: Group) -> int:
    copies = [structs.replace(each, is_exempt=True) for each in await sender.copies(own)]
    if not copies:
        return 0

    async def work(connection: Connection) -> list[Group]:
        backlog = BacklogChange()
        stored = await sender.store(connection, copies, new_id(), backlog)
        await change_backlog(connection, backlog)
        return stored

    sender.after_commit(await database.transact(work))
    return len(copies)


async def dead_letter_events(
    connection: Connection, dead_rows: Sequence[Any], paused: Sequence[Paused]
) -> list[Group]:
    """Returns the events of new dead letters (rows of `record_dead_letters`) and of the schedules
    that they paused, as copies for subscribers. Store them in the same transaction."""
    subscribers = await _subscribers(connection, {row["tenant"] for row in dead_rows})
    if not subscribers:
        return []
    events: dict[str, list[NewMessage]] = {}
    for row in dead_rows:
        events.setdefault(row["tenant"], []).extend(dead_message_events(dead_message(row)))
    for each in paused:
        event = schedule_paused_event(*each.schedule, each.slot, each.error)
        events.setdefault(each.schedule[0], []).append(event)
    return _copies(events, subscribers)


async def event_copies(
    connection: Connection, events: Mapping[str, Sequence[NewMessage]]
) -> list[Group]:
    """Returns copies of system events, given by tenant, for their subscribers. Store them in the
    same transaction."""
    return _copies(events, await _subscribers(connection, events)) if events else []


async def _subscribers(connection: Connection, tenants: Iterable[str]) -> list[Any]:
    """The subscriptions to system events of some tenants."""
    found = await connection.fetch(SQL.subscriptions_among, [*tenants])
    return [row for row in found if matches_system_event(row["types"])]


def _copies(events: Mapping[str, Sequence[NewMessage]], subscribers: Sequence[Any]) -> list[Group]:
    return [group for tenant, own in events.items() for group in _groups(tenant, own, subscribers)]


def _groups(tenant: str, events: Sequence[NewMessage], subscribers: Sequence[Any]) -> list[Group]:
    patterns: dict[tuple[UUID, str], list[str]] = {}
    for row in subscribers:
        if row["tenant"] in (tenant, None):
            patterns.setdefault((row["queue_id"], row["queue"]), []).append(row["types"])
    groups = []
    for (queue_id, queue), types in patterns.items():
        copies = tuple(
            copy_for(event, queue_id)
            for event in events
            if any(matches(each, event.type) for each in types)
        )
        if copies:
            groups.append(Group(tenant, queue_id, queue, copies, is_exempt=True))
    return groups


def dead_message(row: Any) -> DeadMessage:
    """Decodes a row of `record_dead_letters`."""
    return DeadMessage(
        tenant=row["tenant"],
        dead_letter_id=row["letter"],
        message_id=row["id"],
        queue_id=row["queue_id"],
        queue=row["queue"],
        type=row["type"],
        source=row["source"],
        reason=row["reason"],
        error=row["error"],
        attempts=row["used"],
        sent_at=row["sent_at"],
        correlation_id=row["correlation_id"],
        hops=row["hops"],
        schedule_id=row["schedule_id"],
        slot=row["slot"],
        run=row["run"],
        idempotency_base=row["idempotency_base"],
        failed_at=row["failed_at"],
    )
