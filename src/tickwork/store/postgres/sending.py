"""Sending on PostgreSQL: groups of messages in one statement, or copied in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import Struct

from tickwork.core.limits import check_message
from tickwork.core.model import NewMessage, Scope
from tickwork.errors import NotFound
from tickwork.store.coalescer import Coalescer
from tickwork.store.ids import new_id
from tickwork.store.moment import Moment
from tickwork.store.postgres.database import SQL, Connection, Database
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.postgres.wakeups import PostgresWakeups

BULK_MESSAGES = 5_000

DEFAULT_TENANT = "default"
"""Whose messages the system's own sends into a shared queue are."""

_COPIED = (
    "tenant", "queue_id", "id", "priority", "visible_at", "sent_at", "expires_at", "key",
    "event_id", "type", "source", "correlation_id", "causation_id", "hops", "batch_id",
    "schedule_id", "slot", "run", "catch_up", "content_type", "body",
)  # fmt: skip


class Group(Struct, frozen=True):
    """Messages for one queue that are stored together or not at all."""

    tenant: str
    queue_id: UUID
    queue: str
    messages: tuple[NewMessage, ...]


class Sender:
    """Stores messages."""

    def __init__(
        self, database: Database, moment: Moment, queues: PostgresQueues, wakeups: PostgresWakeups
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._wakeups = queues, wakeups
        self._coalescer: Coalescer[Group, None] = Coalescer(self._commit, flights_max=2)

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores one group, durably, together with what others send now."""
        if messages:
            try:
                await self._submit(scope, queue, messages)
            except NotFound:
                # It was remembered and is gone; there may be another of that name.
                await self._submit(scope, queue, messages)

    async def _submit(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        group = await self.group(scope, queue, messages)
        await self._coalescer.submit(group, len(messages))

    async def group(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> Group:
        queue_id = await self._queues.id_of(scope, queue)
        return Group(scope.tenant or DEFAULT_TENANT, queue_id, queue, tuple(messages))

    async def bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Copies any number in, piece by piece."""
        queue_id, tenant = await self._queues.id_of(scope, queue), scope.tenant or DEFAULT_TENANT
        source, stored = iter(messages), 0
        while piece := tuple(islice(source, BULK_MESSAGES)):
            for message in piece:
                check_message(message)
            await self._copy(Group(tenant, queue_id, queue, piece))
            stored += len(piece)
        return stored

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, groups: Sequence[Group]) -> list[None]:
        receipt = new_id()
        await self._database.run(lambda connection: self.store(connection, groups, receipt))
        self._wakeups.tell({group.queue_id for group in groups})
        return [None] * len(groups)

    async def store(self, connection: Connection, groups: Sequence[Group], receipt: UUID) -> None:
        """One statement; raises `NotFound` and stores nothing if a queue is gone."""
        queue_ids = {group.queue_id for group in groups}
        known = await connection.fetchval(
            SQL.send, self._moment(), receipt, *_columns(groups), list(queue_ids)
        )
        if not known:
            self._queues.forget(queue_ids)
            raise NotFound("queue", ", ".join(sorted({group.queue for group in groups})))

    async def _copy(self, group: Group) -> None:
        receipt = new_id()

        async def work(connection: Connection) -> None:
            await self.store(connection, [_without_messages(group)], receipt)
            now = self._moment() or await connection.fetchval(SQL.read_clock)
            await connection.copy_records_to_table(
                "tickwork_messages", records=_records(group, now), columns=_COPIED
            )

        try:
            await self._database.transact(work, repeatable=False)
        except asyncpg.UniqueViolationError:
            # Some are there already: the slower way leaves those alone.
            await self._database.run(lambda connection: self.store(connection, [group], receipt))
        self._wakeups.tell({group.queue_id})


def _without_messages(group: Group) -> Group:
    return Group(group.tenant, group.queue_id, group.queue, ())


def _columns(groups: Sequence[Group]) -> list[list[Any]]:
    """The messages of all groups, column by column, as the statement takes them."""
    pairs = [(group, message) for group in groups for message in group.messages]
    messages = [message for _, message in pairs]
    return [
        [group.tenant for group, _ in pairs],
        [group.queue_id for group, _ in pairs],
        [m.id for m in messages],
        [m.priority for m in messages],
        [m.delay_seconds for m in messages],
        [m.expires_after_seconds for m in messages],
        [m.key for m in messages],
        [m.event_id for m in messages],
        [m.type for m in messages],
        [m.source for m in messages],
        [m.correlation_id for m in messages],
        [m.causation_id for m in messages],
        [m.hops for m in messages],
        [m.batch_id for m in messages],
        [m.schedule_id for m in messages],
        [m.slot for m in messages],
        [m.run for m in messages],
        [m.catch_up for m in messages],
        [m.content_type for m in messages],
        [m.body for m in messages],
    ]


def _records(group: Group, now: datetime) -> list[tuple[Any, ...]]:
    records: list[tuple[Any, ...]] = []
    for m in group.messages:
        visible_at = now + timedelta(seconds=m.delay_seconds) if m.delay_seconds else now
        expiry = m.expires_after_seconds
        expires_at = None if expiry is None else visible_at + timedelta(seconds=expiry)
        records.append((
            group.tenant, group.queue_id, m.id, m.priority, visible_at, now, expires_at, m.key,
            m.event_id, m.type, m.source, m.correlation_id, m.causation_id, m.hops, m.batch_id,
            m.schedule_id, m.slot, m.run, m.catch_up, m.content_type, m.body,
        ))  # fmt: skip
    return records
