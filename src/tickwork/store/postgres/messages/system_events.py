"""System events on PostgreSQL: published to queues and endpoints, without a queue of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.publish import system_deliveries
from tickwork.core.entity.call import entity_id
from tickwork.core.message.subscription import copy_for, matches
from tickwork.core.message.system_events import (
    DeadMessage,
    dead_message_events,
    stream_event,
)
from tickwork.core.model import NewMessage
from tickwork.core.stream import NewStreamEvent
from tickwork.store.ids import Moment, database_time, new_id
from tickwork.store.nouns.endpoint_rows import read_settings
from tickwork.store.postgres.endpoints.publish import record_deliveries
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.send import Group


class Receivers(NamedTuple):
    """Who may get system events of some tenants: rows of subscriptions and of endpoints."""

    subscribers: Sequence[Any]
    endpoints: Sequence[Any]
    moment: Moment = database_time

    @property
    def keys(self) -> set[Key]:
        """The keys that order deliveries to endpoints. Lock them before schedules."""
        return {
            Key(row["tenant"], row["queue_id"], row["id"].hex)
            for row in self.endpoints
            if read_settings(row["settings"]).ordered
        }


NOBODY = Receivers((), ())


async def receivers(connection: Connection, moment: Moment, tenants: Collection[str]) -> Receivers:
    """Who may get system events of some tenants."""
    if not tenants:
        return NOBODY
    return Receivers(
        await connection.fetch(SQL.subscriptions_among, [*tenants]),
        await connection.fetch(SQL.system_event_endpoints, moment(), [*tenants]),
        moment,
    )


async def dead_letter_events(
    connection: Connection,
    dead_rows: Sequence[Any],
    others: Mapping[str, Sequence[NewMessage]],
    found: Receivers,
) -> list[Group]:
    """Returns the events of new dead letters (rows of `record_dead_letters`) and then the `others`,
    given by tenant, as messages for their receivers. Store them in the same transaction."""
    events: dict[str, list[NewMessage]] = {}
    for row in dead_rows:
        death = dead_message(row)
        events.setdefault(death.tenant, []).extend(dead_message_events(death))
        if (call := death.alarm) is not None:
            id_ = entity_id(call.entity, call.key)
            await connection.execute(SQL.bury_alarm, death.tenant, id_, call.alarm)
    for tenant, more in others.items():
        events.setdefault(tenant, []).extend(more)
    return await event_groups(connection, events, found)


async def event_groups(
    connection: Connection, events: Mapping[str, Sequence[NewMessage]], found: Receivers
) -> list[Group]:
    """Returns the messages of system events, given by tenant, for their receivers, and stores the
    deliveries to endpoints and what streams show. Store the messages in the same transaction."""
    groups: list[Group] = []
    shown = [stream_event(new_id(), tenant, event) for tenant in events for event in events[tenant]]
    if shown:
        await _add_stream_events(connection, found.moment, shown)
    for tenant, own in events.items():
        groups += _groups(tenant, own, found.subscribers)
        groups += await _delivery_groups(connection, tenant, own, found.endpoints)
    return groups


async def _delivery_groups(
    connection: Connection, tenant: str, events: Sequence[NewMessage], endpoints: Sequence[Any]
) -> list[Group]:
    known = [row for row in endpoints if row["tenant"] == tenant]
    if not known:
        return []
    now, queue_id = known[0]["now"], known[0]["queue_id"]
    settings = [(row["id"], read_settings(row["settings"])) for row in known]
    deliveries = system_deliveries(events, settings, now)
    messages = await record_deliveries(connection, tenant, now, deliveries)
    if not messages:
        return []
    return [Group(tenant, queue_id, ENDPOINTS_QUEUE, tuple(messages), is_exempt=True)]


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
            if any(matches(type_, event.type) for type_ in types)
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
        body=row["body"],
    )


async def _add_stream_events(
    connection: Connection, moment: Moment, events: Sequence[NewStreamEvent]
) -> None:
    """Stores system events for streams, in the transaction of what they report."""
    await connection.execute(
        SQL.add_stream_events,
        moment(),
        [event.id for event in events],
        [event.tenant for event in events],
        [event.schedule_id for event in events],
        [event.type for event in events],
        [event.data for event in events],
    )
