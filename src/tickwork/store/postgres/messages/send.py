"""Sends on PostgreSQL: groups of messages in one statement, or COPY in bulk.

Messages without a key, for queues without a cap, need one statement that commits by itself. Other
sends are one transaction: they reserve positions in their keys, store the messages, and add their
bytes to the backlog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import asyncpg
from msgspec import Struct, structs

from tickwork.core.limits import check_message
from tickwork.core.message.subscription import copy_for, matches
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NotFound
from tickwork.store.ids import Moment, new_id, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.keys import Key, KeyPosition, Keys
from tickwork.store.postgres.messages.subscriptions import PostgresSubscriptions
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.columns import SENT, SENT_VALUES, compiled
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.group_commit import Coalescer

BULK_MESSAGES = 5_000

INSERTS_MAX = 2
"""Maximum number of tries. The first locks the queues, so that within a transaction the second
knows their caps."""

_SENT = tuple(column.name for column in SENT)
_sent_values = compiled("m", f"({SENT_VALUES})")
_record = compiled(
    "group, standing, now, visible_at, expires_at, m",
    "(group.tenant, group.queue_id, group.batch_id, standing.state, standing.place, now, "
    f"visible_at, expires_at, {SENT_VALUES})",
)
_COPIED = (
    "tenant", "queue_id", "batch_id", "state", "place", "sent_at", "visible_at", "expires_at",
    *_SENT,
)  # fmt: skip


class Group(Struct, frozen=True):
    """Messages for one queue, stored all or none.

    An exempt group ignores the queue's cap.
    """

    tenant: str
    queue_id: UUID
    queue: str
    messages: tuple[NewMessage, ...]
    batch_id: UUID | None = None
    is_exempt: bool = False

    def keyed(self) -> list[Key | None]:
        """The keys of its messages."""
        return [
            None if message.key is None else Key(self.tenant, self.queue_id, message.key)
            for message in self.messages
        ]


class Parcel(Struct, frozen=True):
    """A caller's messages and their subscribers: queues with patterns."""

    group: Group
    subscribers: dict[tuple[UUID, str], list[str]] = {}

    def copies_of(self, group: Group) -> list[Group]:
        """Returns the copies that subscribers get of stored messages."""
        return [
            Group(group.tenant, queue_id, queue, copies, is_exempt=group.is_exempt)
            for (queue_id, queue), patterns in self.subscribers.items()
            if (copies := _copies_of(group.messages, queue_id, patterns))
        ]


class Sender:
    """Stores messages."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        subscriptions: PostgresSubscriptions,
        wakeups: PostgresWakeups,
        tallies: Counters,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._subscriptions = queues, subscriptions
        self._wakeups, self._tallies = wakeups, tallies
        self._keys = Keys(moment)
        self._capped: set[UUID] = set()
        self._coalescer: Coalescer[Parcel, None] = Coalescer(self._commit, flights_max=2)

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores messages durably, in a group with other sends."""
        if messages:
            try:
                await self._submit(scope, queue, messages)
            except NotFound:
                # It was remembered and is gone; there may be another of that name.
                await self._submit(scope, queue, messages)

    async def _submit(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        parcel = await self.parcel(scope, queue, messages)
        await self._coalescer.submit(parcel, len(messages))

    async def parcel(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> Parcel:
        """Returns the messages for their queue, with their subscribers."""
        return await self.with_subscribers(await self.group(scope, queue, messages))

    async def group(
        self,
        scope: Scope,
        queue: str,
        messages: Sequence[NewMessage],
        batch_id: UUID | None = None,
    ) -> Group:
        """Returns the messages for their queue; `NotFound` if it does not exist."""
        queue_id = await self._queues.id_of(scope, queue)
        tenant = own_tenant(scope)
        return Group(tenant, queue_id, queue, tuple(messages), batch_id)

    async def copies(self, group: Group) -> list[Group]:
        """Returns the copies that subscribers get of a group."""
        return (await self.with_subscribers(group)).copies_of(group)

    async def with_subscribers(self, group: Group) -> Parcel:
        """Finds the subscribers of a group."""
        types = {message.type for message in group.messages if message.type is not None}
        subscribers: dict[tuple[UUID, str], list[str]] = {}
        if types:
            for each in await self._subscriptions.of(group.tenant):
                fits = any(matches(each.types, type_) for type_ in types)
                if fits and each.queue_id != group.queue_id:
                    subscribers.setdefault((each.queue_id, each.queue), []).append(each.types)
        return Parcel(group, subscribers)

    async def bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Stores any number of messages by COPY, in chunks."""
        await self._queues.id_of(scope, queue)
        source, stored = iter(messages), 0
        while piece := tuple(islice(source, BULK_MESSAGES)):
            for message in piece:
                check_message(message)
            try:
                await self._copy(await self.parcel(scope, queue, piece))
            except NotFound:
                # As with `send`: there may be another of that name, or one subscriber less.
                await self._copy(await self.parcel(scope, queue, piece))
            stored += len(piece)
        return stored

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, parcels: Sequence[Parcel]) -> list[None]:
        self.passed(await self._store_alone(parcels, new_id()))
        return [None] * len(parcels)

    async def _store_alone(self, parcels: Sequence[Parcel], receipt: UUID) -> list[Group]:
        """Stores parcels, in one statement if possible."""

        async def work(connection: Connection) -> list[Group]:
            room = BacklogChange()
            stored = await self.store_parcels(connection, parcels, receipt, room)
            await change_backlog(connection, room)
            return stored

        if not self._needs_transaction(parcels):
            with suppress(_CapUnknown):
                return await self._database.run(work)
        return await self._database.transact(work)

    def _needs_transaction(self, parcels: Sequence[Parcel]) -> bool:
        return any(
            parcel.subscribers
            or parcel.group.queue_id in self._capped
            or any(message.key is not None for message in parcel.group.messages)
            for parcel in parcels
        )

    async def store_parcels(
        self, connection: Connection, parcels: Sequence[Parcel], receipt: UUID, room: BacklogChange
    ) -> list[Group]:
        """Stores parcels, and copies of the messages that are new; returns what was stored.

        The caller writes the backlog change at the end.
        """
        has_copies = any(parcel.subscribers for parcel in parcels)
        groups = [parcel.group for parcel in parcels]
        stored = await self.store(connection, groups, receipt, room, says_which=has_copies)
        if not has_copies:
            return stored
        copies = [
            copy
            for parcel, group in zip(parcels, stored, strict=True)
            for copy in parcel.copies_of(group)
        ]
        if copies:
            stored += await self.store(connection, copies, new_id(), room)
        return stored

    async def store(
        self,
        connection: Connection,
        groups: Sequence[Group],
        receipt: UUID,
        room: BacklogChange,
        *,
        says_which: bool = False,
    ) -> list[Group]:
        """Stores groups; `NotFound` if a queue is gone. The caller writes the backlog change.

        With keys, or for a queue with a cap, it must run in a transaction. Returns the new messages
        of each group, exactly if `says_which`.
        """
        keys = [key for group in groups for key in group.keyed()]
        standings = await self._keys.place(connection, keys)
        rows = await self._insert(connection, groups, receipt, standings, says_which=says_which)
        if any(keys) and sum(row["messages"] or 0 for row in rows) < len(keys):
            # Some were there already: their key may have been made for nothing.
            await self._keys.free(connection, [key for key in keys if key is not None])
        sizes = {row["id"]: row["bytes"] for row in rows if row["is_capped"] and row["messages"]}
        for group in {group.queue_id: group for group in groups}.values():
            if group.queue_id in sizes:
                size = sizes[group.queue_id]
                room.take(group.queue_id, group.queue, size, is_exempt=group.is_exempt)
        return _stored(groups, rows)

    async def _insert(
        self,
        connection: Connection,
        groups: Sequence[Group],
        receipt: UUID,
        standings: Sequence[KeyPosition],
        *,
        says_which: bool = False,
    ) -> list[asyncpg.Record]:
        """Runs the statement, and again if a queue has gained or lost a cap."""
        queue_ids = {group.queue_id for group in groups}
        for _ in range(INSERTS_MAX):
            capped = queue_ids & self._capped
            found = await connection.fetch(
                SQL.send,
                self._moment(),
                receipt,
                says_which or bool(capped),
                list(queue_ids),
                list(capped),
                *_columns(groups, standings),
            )
            if len(found) < len(queue_ids):
                self._queues.forget(queue_ids)
                self._subscriptions.forget()
                raise NotFound("queue", ", ".join(sorted({group.queue for group in groups})))
            really = {row["id"] for row in found if row["is_capped"]}
            if really == capped:
                return found
            self._capped = (self._capped - queue_ids) | really
            if not connection.is_in_transaction():
                break
        raise _CapUnknown

    async def _copy(self, parcel: Parcel) -> None:
        group = parcel.group

        async def work(connection: Connection) -> list[Group]:
            room, copies = BacklogChange(), parcel.copies_of(group)
            await self.copy_in(connection, group, room)
            stored = await self.store(connection, copies, new_id(), room) if copies else []
            await change_backlog(connection, room)
            return [group, *stored]

        try:
            stored = await self._database.transact(work, repeatable=False)
        except asyncpg.UniqueViolationError:
            # Some are there already: the slower way leaves those alone.
            stored = await self._store_alone([parcel], new_id())
        self.passed(stored)

    async def copy_in(self, connection: Connection, group: Group, room: BacklogChange) -> None:
        """Stores a group by COPY in a transaction; raises the driver's error if an id is in use.
        The caller writes the backlog change."""
        await self._insert(connection, [_without_messages(group)], new_id(), ())
        standings = await self._keys.place(connection, group.keyed())
        now = self._moment() or await connection.fetchval(SQL.read_clock)
        await connection.copy_records_to_table(
            "tickwork_messages", records=_records(group, standings, now), columns=_COPIED
        )
        if group.queue_id in self._capped:
            size = sum(len(message.body) for message in group.messages)
            room.take(group.queue_id, group.queue, size, is_exempt=group.is_exempt)

    def passed(self, groups: Iterable[Group]) -> None:
        """After the commit: counts the messages and wakes consumers."""
        groups = list(groups)
        sent = Counter(
            CounterKey(group.queue_id, group.tenant, CounterName.SENT, m.type or "", m.source or "")
            for group in groups
            for m in group.messages
        )
        for tallied, messages in sent.items():
            self._tallies.add(tallied, messages)
        self.wake({group.queue_id for group in groups})

    def wake(self, queue_ids: Iterable[UUID]) -> None:
        """Wakes the consumers of the queues."""
        self._wakeups.notify(queue_ids)


class _CapUnknown(Exception):
    """A queue has gained or lost a cap: nothing was stored."""


def _stored(groups: Sequence[Group], rows: Sequence[asyncpg.Record]) -> list[Group]:
    """The new messages of each group; all of them if the statement does not say which."""
    names = {row["id"]: zip(row["tenants"] or (), row["ids"] or (), strict=True) for row in rows}
    said = {row["id"] for row in rows if row["ids"] is not None or not row["messages"]}
    new = {(queue_id, *name): True for queue_id in said for name in names[queue_id]}
    stored: list[Group] = []
    for group in groups:
        sent, own = group.messages, (group.queue_id, group.tenant)
        if group.queue_id in said:
            sent = tuple([each for each in sent if new.pop((*own, each.id), False)])  # Each once.
        stored.append(group if sent is group.messages else structs.replace(group, messages=sent))
    return stored


def _copies_of(
    messages: Iterable[NewMessage], queue_id: UUID, patterns: Sequence[str]
) -> tuple[NewMessage, ...]:
    return tuple(
        copy_for(message, queue_id)
        for message in messages
        if any(matches(pattern, message.type) for pattern in patterns)
    )


def _without_messages(group: Group) -> Group:
    return Group(group.tenant, group.queue_id, group.queue, ())


def _columns(groups: Sequence[Group], standings: Sequence[KeyPosition]) -> list[Sequence[Any]]:
    """The messages of all groups as columns."""
    pairs = [(group, message) for group in groups for message in group.messages]
    messages = [message for _, message in pairs]
    sent = zip(*map(_sent_values, messages), strict=True) if messages else [()] * len(_SENT)
    return [
        [group.tenant for group, _ in pairs],
        [group.queue_id for group, _ in pairs],
        [group.batch_id for group, _ in pairs],
        [standing.state for standing in standings],
        [standing.place for standing in standings],
        [m.delay_seconds for m in messages],
        [m.expires_after_seconds for m in messages],
        *sent,
    ]


def _records(
    group: Group, standings: Sequence[KeyPosition], now: datetime
) -> Iterable[tuple[Any, ...]]:
    for m, standing in zip(group.messages, standings, strict=True):
        visible_at = now + timedelta(seconds=m.delay_seconds) if m.delay_seconds else now
        expiry = m.expires_after_seconds
        expires_at = None if expiry is None else visible_at + timedelta(seconds=expiry)
        yield _record(group, standing, now, visible_at, expires_at, m)
