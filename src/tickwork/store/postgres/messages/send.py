"""Sends messages on PostgreSQL: groups in one statement, or many by COPY.

Messages without a key, for queues without a cap, are stored by one statement that commits by
itself; one alone in the transaction of a caller by a small one. Other sends are one transaction: it
reserves positions in keys, stores the messages, and adds their bytes to the backlog.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
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
from tickwork.store.shared.columns import IS_PLAIN, PLAIN_VALUES, SENT, SENT_VALUES, compiled
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.group_commit import Grouped

BULK_MESSAGES = 5_000

COPIED_MESSAGES_MIN = 200
"""Number of messages of one call from which COPY is quicker than a statement with arrays."""

PIECE_MESSAGES = 1_000
"""Maximum number of messages of one call in such a statement: encoding them holds the event
loop."""

INSERTS_MAX = 2
"""Maximum number of attempts. The first locks the queues, so that in a transaction their caps
cannot change before the second."""

_SENT = tuple(column.name for column in SENT)
_sent_values = compiled("m", f"({SENT_VALUES})")
_plain_values = compiled("m", f"({PLAIN_VALUES})")
_is_plain = compiled("m", IS_PLAIN)
_record = compiled(
    "group, position, now, visible_at, expires_at, m",
    "(group.tenant, group.queue_id, group.batch_id, position.state, position.position, now, "
    f"visible_at, expires_at, {SENT_VALUES})",
)
_COPIED = (
    "tenant", "queue_id", "batch_id", "state", "place", "sent_at", "visible_at", "expires_at",
    *_SENT,
)  # fmt: skip


class Group(Struct, frozen=True):
    """Messages for one queue, stored together or not at all. An exempt group ignores the queue's
    cap. `counter` counts them after the commit."""

    tenant: str
    queue_id: UUID
    queue: str
    messages: tuple[NewMessage, ...]
    batch_id: UUID | None = None
    is_exempt: bool = False
    counter: CounterName = CounterName.SENT

    def keyed(self) -> list[Key | None]:
        """Returns the key of each message."""
        return [
            None if message.key is None else Key(self.tenant, self.queue_id, message.key)
            for message in self.messages
        ]


class Parcel(Struct, frozen=True):
    """Messages for one queue, with the queues that subscribe to them and their patterns."""

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
        counters: Counters,
        bury_copies: BuryCopies,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._subscriptions = queues, subscriptions
        self._wakeups, self._counters = wakeups, counters
        self._bury_copies = bury_copies
        self._keys = Keys(moment)
        self._capped: set[UUID] = set()
        self._coalescer: Grouped[Parcel, None] = database.grouped(self._commit, flights_max=2)

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores messages, together with the sends of other callers."""
        if messages:
            try:
                await self._submit(scope, queue, messages)
            except NotFound:
                # The cached queue was deleted. There may be a new one with this name.
                await self._submit(scope, queue, messages)

    async def _submit(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        parcel = await self.parcel(scope, queue, messages)
        connection = self._database.callers_connection
        if connection is not None and await self._store_one(connection, parcel):
            self.after_commit([parcel.group])
        elif len(messages) < COPIED_MESSAGES_MIN:
            await self._coalescer.submit(parcel, len(messages))
        else:
            await self._copy(parcel, repeatable=True)

    async def parcel(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> Parcel:
        """Looks up the queue and the subscribers of messages."""
        return await self.with_subscribers(await self.group(scope, queue, messages))

    async def group(
        self,
        scope: Scope,
        queue: str,
        messages: Sequence[NewMessage],
        batch_id: UUID | None = None,
    ) -> Group:
        """Looks up the queue of messages; `NotFound` if it does not exist."""
        queue_id = await self._queues.id_of(scope, queue)
        tenant = own_tenant(scope)
        return Group(tenant, queue_id, queue, tuple(messages), batch_id)

    async def copies(self, group: Group) -> list[Group]:
        """Returns the copies that subscribers get of a group."""
        return (await self.with_subscribers(group)).copies_of(group)

    async def with_subscribers(self, group: Group) -> Parcel:
        """Looks up the subscribers of a group."""
        types = {message.type for message in group.messages if message.type is not None}
        subscribers: dict[tuple[UUID, str], list[str]] = {}
        if types:
            for subscription in await self._subscriptions.of(group.tenant):
                fits = any(matches(subscription.types, type_) for type_ in types)
                if fits and subscription.queue_id != group.queue_id:
                    subscribers.setdefault((subscription.queue_id, subscription.queue), []).append(
                        subscription.types
                    )
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
                # A cached queue or subscriber was deleted. Look them up again.
                await self._copy(await self.parcel(scope, queue, piece))
            stored += len(piece)
        return stored

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, parcels: Sequence[Parcel]) -> list[None]:
        self.after_commit(await self._store_parcels_alone(parcels, new_id()))
        return [None] * len(parcels)

    async def _store_parcels_alone(self, parcels: Sequence[Parcel], receipt: UUID) -> list[Group]:
        """Stores parcels, in one statement if possible."""

        async def work(connection: Connection) -> list[Group]:
            backlog = BacklogChange()
            stored = await self.store_parcels(connection, parcels, receipt, backlog)
            await change_backlog(connection, backlog)
            return stored

        if not self._needs_transaction(parcels):
            with suppress(_CapUnknown):
                return await self._database.run_single(work)
        return await self._database.transact(work)

    async def _store_one(self, connection: Connection, parcel: Parcel) -> bool:
        """Stores a parcel in the transaction of a caller if it is one plain message. Returns False
        if it was not stored: then `store` does it, or says why not."""
        group = parcel.group
        message = group.messages[0]
        if len(group.messages) > 1 or parcel.subscribers or not _is_plain(message):
            return False
        written_by = await connection.fetchval(
            SQL.send_one,
            self._moment(),
            group.tenant,
            group.queue_id,
            message.delay_seconds,
            message.expires_after_seconds,
            *_plain_values(message),
        )
        self._database.note_writer(written_by)
        return written_by is not None

    def _needs_transaction(self, parcels: Sequence[Parcel]) -> bool:
        return any(
            parcel.subscribers
            or parcel.group.queue_id in self._capped
            or any(message.key is not None for message in parcel.group.messages)
            for parcel in parcels
        )

    async def store_parcels(
        self,
        connection: Connection,
        parcels: Sequence[Parcel],
        receipt: UUID,
        backlog: BacklogChange,
    ) -> list[Group]:
        """Stores parcels, and copies of their new messages for subscribers.

        Returns what was stored. The caller writes the backlog change at the end of the transaction.
        """
        stored, copies = await self.store_own(connection, parcels, receipt, backlog)
        if copies:
            stored += await self.store_copies(connection, copies, new_id(), backlog)
        return stored

    async def store_own(
        self,
        connection: Connection,
        parcels: Sequence[Parcel],
        receipt: UUID,
        backlog: BacklogChange,
    ) -> tuple[list[Group], list[Group]]:
        """Stores parcels. Returns what was stored, and the copies that subscribers get of it. The
        caller stores these last, so that they take no room from its own messages."""
        has_copies = any(parcel.subscribers for parcel in parcels)
        groups = [parcel.group for parcel in parcels]
        stored = await self.store(connection, groups, receipt, backlog, returns_ids=has_copies)
        copies = [
            copy
            for parcel, group in zip(parcels, stored, strict=True)
            for copy in parcel.copies_of(group)
        ]
        return stored, copies

    async def store_copies(
        self,
        connection: Connection,
        copies: Sequence[Group],
        receipt: UUID,
        backlog: BacklogChange,
    ) -> list[Group]:
        """Stores copies for subscribers. Those that exceed the cap of their queue become dead
        letters there, unless they are exempt. The caller writes the backlog change."""
        never_refused = [structs.replace(group, is_exempt=True) for group in copies]
        stored = await self.store(connection, never_refused, receipt, backlog)
        bound = [
            new
            for group, new in zip(copies, stored, strict=True)
            if new.messages and group.queue_id in self._capped and not group.is_exempt
        ]
        if bound:
            stored += await self._bury_copies(connection, self._moment, self, bound, backlog)
        return stored

    async def store(
        self,
        connection: Connection,
        groups: Sequence[Group],
        receipt: UUID,
        backlog: BacklogChange,
        *,
        returns_ids: bool = False,
    ) -> list[Group]:
        """Stores groups; `NotFound` if a queue is gone. The caller writes the backlog change.

        With keys, or for a queue with a cap, it must run in a transaction. Returns the new messages
        of each group, exactly if `returns_ids`.
        """
        keys = [key for group in groups for key in group.keyed()]
        positions = await self._keys.reserve(connection, keys)
        rows = await self._insert(connection, groups, receipt, positions, returns_ids=returns_ids)
        if any(keys) and sum(row["messages"] or 0 for row in rows) < len(keys):
            # Some messages existed already, so their key may have been created without messages.
            await self._keys.unblock(connection, [key for key in keys if key is not None])
        sizes = {row["id"]: row["bytes"] for row in rows if row["is_capped"] and row["messages"]}
        for group in {group.queue_id: group for group in groups}.values():
            if group.queue_id in sizes:
                size = sizes[group.queue_id]
                backlog.take(group.queue_id, group.queue, size, is_exempt=group.is_exempt)
        return _stored(groups, rows)

    async def _insert(
        self,
        connection: Connection,
        groups: Sequence[Group],
        receipt: UUID,
        positions: Sequence[KeyPosition],
        *,
        returns_ids: bool = False,
    ) -> list[asyncpg.Record]:
        """Stores messages. Repeats the statement if a queue has gained or lost a cap."""
        queue_ids = {group.queue_id for group in groups}
        for _ in range(INSERTS_MAX):
            capped = queue_ids & self._capped
            found = await connection.fetch(
                SQL.send,
                self._moment(),
                receipt,
                returns_ids or bool(capped),
                list(queue_ids),
                list(capped),
                *_columns(groups, positions),
            )
            if len(found) < len(queue_ids):
                self._queues.forget(queue_ids)
                self._subscriptions.forget()
                raise NotFound("queue", ", ".join(sorted({group.queue for group in groups})))
            self._database.note_writer(found[0]["written_by"] if found else None)
            capped_now = {row["id"] for row in found if row["is_capped"]}
            if capped_now == capped:
                return found
            self._capped = (self._capped - queue_ids) | capped_now
            if not connection.is_in_transaction():
                break
        raise _CapUnknown

    async def _copy(self, parcel: Parcel, *, repeatable: bool = False) -> None:
        group, receipt = parcel.group, new_id()
        is_repeat = False

        async def work(connection: Connection) -> list[Group]:
            nonlocal is_repeat
            if is_repeat and await connection.fetchval(SQL.is_sent, receipt):
                return [group]  # Only the answer was lost. They may be handled already.
            is_repeat = True
            backlog, copies = BacklogChange(), parcel.copies_of(group)
            await self.copy_in(connection, group, backlog, receipt)
            stored = [group]
            if copies:
                stored += await self.store_copies(connection, copies, new_id(), backlog)
            await change_backlog(connection, backlog)
            return stored

        try:
            stored = await self._database.transact(work, repeatable=repeatable)
        except asyncpg.UniqueViolationError:
            # Some messages exist already. The INSERT skips these.
            stored = await self._store_pieces(parcel)
        self.after_commit(stored)

    async def _store_pieces(self, parcel: Parcel) -> list[Group]:
        """Stores many messages in one transaction, by several statements."""
        messages = parcel.group.messages
        pieces = [
            (
                Parcel(
                    structs.replace(
                        parcel.group, messages=messages[start : start + PIECE_MESSAGES]
                    ),
                    parcel.subscribers,
                ),
                new_id(),
            )
            for start in range(0, len(messages), PIECE_MESSAGES)
        ]

        async def work(connection: Connection) -> list[Group]:
            backlog, stored = BacklogChange(), list[Group]()
            for piece, receipt in pieces:
                stored += await self.store_parcels(connection, [piece], receipt, backlog)
            await change_backlog(connection, backlog)
            return stored

        return await self._database.transact(work)

    async def copy_in(
        self,
        connection: Connection,
        group: Group,
        backlog: BacklogChange,
        receipt: UUID | None = None,
    ) -> None:
        """Stores a group by COPY in a transaction; raises the driver's error if an id is in use.
        The caller writes the backlog change."""
        await self._insert(connection, [_without_messages(group)], receipt or new_id(), ())
        positions = await self._keys.reserve(connection, group.keyed())
        now = self._moment() or await connection.fetchval(SQL.read_clock)
        await connection.copy_records_to_table(
            "tickwork_messages", records=_records(group, positions, now), columns=_COPIED
        )
        if group.queue_id in self._capped:
            size = sum(len(message.body) for message in group.messages)
            backlog.take(group.queue_id, group.queue, size, is_exempt=group.is_exempt)

    def after_commit(self, groups: Iterable[Group]) -> None:
        """Counts the messages and wakes consumers, after the commit."""
        groups = list(groups)
        self._counters.add_all(
            [
                CounterKey(
                    group.queue_id, group.tenant, group.counter, m.type or "", m.source or ""
                )
                for group in groups
                for m in group.messages
            ]
        )
        self.wake({group.queue_id for group in groups})

    def wake(self, queue_ids: Iterable[UUID]) -> None:
        """Wakes the consumers of the queues."""
        self._wakeups.notify(queue_ids)


BuryCopies = Callable[
    [Connection, Moment, Sender, Sequence[Group], BacklogChange], Awaitable[list[Group]]
]
"""Makes dead letters of those stored copies that exceed the cap of their queue: `bury_copies`."""


class _CapUnknown(Exception):
    """A queue has gained or lost a cap since it was cached. Nothing was stored."""


def _stored(groups: Sequence[Group], rows: Sequence[asyncpg.Record]) -> list[Group]:
    """Returns the new messages of each group, or all of them if the statement returned no ids."""
    new_ids = {row["id"]: zip(row["tenants"] or (), row["ids"] or (), strict=True) for row in rows}
    queues_with_ids = {row["id"] for row in rows if row["ids"] is not None or not row["messages"]}
    new = {(queue_id, *name): True for queue_id in queues_with_ids for name in new_ids[queue_id]}
    stored: list[Group] = []
    for group in groups:
        sent, own = group.messages, (group.queue_id, group.tenant)
        if group.queue_id in queues_with_ids:
            # Of two messages with one id at most one is stored.
            sent = tuple([message for message in sent if new.pop((*own, message.id), False)])
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


def _columns(groups: Sequence[Group], positions: Sequence[KeyPosition]) -> list[Sequence[Any]]:
    """Returns the messages of all groups as columns."""
    pairs = [(group, message) for group in groups for message in group.messages]
    messages = [message for _, message in pairs]
    sent = zip(*map(_sent_values, messages), strict=True) if messages else [()] * len(_SENT)
    return [
        [group.tenant for group, _ in pairs],
        [group.queue_id for group, _ in pairs],
        [group.batch_id for group, _ in pairs],
        [position.state for position in positions],
        [position.position for position in positions],
        [m.delay_seconds for m in messages],
        [m.expires_after_seconds for m in messages],
        *sent,
    ]


def _records(
    group: Group, positions: Sequence[KeyPosition], now: datetime
) -> Iterable[tuple[Any, ...]]:
    for m, position in zip(group.messages, positions, strict=True):
        visible_at = now + timedelta(seconds=m.delay_seconds) if m.delay_seconds else now
        expiry = m.expires_after_seconds
        expires_at = None if expiry is None else visible_at + timedelta(seconds=expiry)
        yield _record(group, position, now, visible_at, expires_at, m)
