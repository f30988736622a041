"""System events on PostgreSQL: events without a queue, copied to subscribers."""

from __future__ import annotations

from collections.abc import Sequence
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

_NOWHERE = UUID(int=0)


async def tell(database: Database, sender: Sender, scope: Scope, event: NewMessage) -> int:
    """Copies an event to the queues that subscribe to it, and returns their number."""
    own = Group(own_tenant(scope), _NOWHERE, "", (event,))
    try:
        return await _tell(database, sender, own)
    except NotFound:
        # A subscriber that was remembered is gone.
        return await _tell(database, sender, own)


async def _tell(database: Database, sender: Sender, own: Group) -> int:
    copies = [structs.replace(each, is_exempt=True) for each in await sender.copies(own)]
    if not copies:
        return 0

    async def work(connection: Connection) -> list[Group]:
        room = BacklogChange()
        stored = await sender.store(connection, copies, new_id(), room)
        await change_backlog(connection, room)
        return stored

    sender.passed(await database.transact(work))
    return len(copies)


async def death_events(
    connection: Connection, buried: Sequence[Any], paused: Sequence[Paused]
) -> list[Group]:
    """Returns the copies for subscribers of messages that died, as `record_dead_letters` returned
    them, and of schedules that were paused by that. Store them in the same transaction."""
    tenants = [*{row["tenant"] for row in buried}]
    found = await connection.fetch(SQL.subscriptions_among, tenants)
    wanted = [row for row in found if matches_system_event(row["types"])]
    if not wanted:
        return []
    events: dict[str, list[NewMessage]] = {}
    for row in buried:
        events.setdefault(row["tenant"], []).extend(dead_message_events(_death(row)))
    for each in paused:
        told = schedule_paused_event(*each.schedule, each.slot, each.error)
        events.setdefault(each.schedule[0], []).append(told)
    return [group for tenant, own in events.items() for group in _groups(tenant, own, wanted)]


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


def _death(row: Any) -> DeadMessage:
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
    )
