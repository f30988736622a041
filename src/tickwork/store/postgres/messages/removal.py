"""Removal of messages on PostgreSQL, and what follows from it: an ack, a death, a purge, a
deletion.

In the same transaction the next message of each key is unblocked, batches count their items, and
the backlog shrinks. After the commit consumers are woken, batches are completed, and counters rise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.message.batch import REASON_DELETED, REASON_PURGED, ItemStatus
from tickwork.core.model import Scope
from tickwork.core.queue.stats import CounterName, was_handled
from tickwork.errors import StoreError
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN, SQL
from tickwork.store.postgres.engine.wakeups import PostgresWakeups
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.batch_progress import BatchProgress, EndedItem
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.shared.counters import CounterKey, Counters


class RemovedMessage(NamedTuple):
    """A removed message. `reason` is None if it was handled; `bytes` is None if its queue has no
    cap."""

    tenant: str
    queue_id: UUID
    type: str | None
    source: str | None
    id: UUID
    key: str | None
    batch_id: UUID | None
    bytes: int | None
    passing: CounterName
    reason: str | None = None


Kind = tuple[str, UUID, str | None, str | None]
"""What messages are counted by: their first columns."""

_KIND, _KEY, _BATCH_ID, _BYTES, _COLUMNS = (
    RemovedMessage._fields.index(field) for field in ("id", "key", "batch_id", "bytes", "passing")
)


class RemovedMessages:
    """Messages removed together: how many of each kind, and those that have side effects."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[Kind, CounterName]] = Counter()
        self.gone: list[RemovedMessage] = []

    def add(self, rows: Sequence[Any], passing: CounterName, reason: str | None = None) -> None:
        """Adds rows that a statement returned; their first columns are those of
        `RemovedMessage`."""
        for kind, messages in Counter([row[:_KIND] for row in rows]).items():
            self.passed[kind, passing] += messages
        self._note(rows, passing, reason)

    def take_back(self, rows: Sequence[Any]) -> None:
        """Adds withdrawn slots, which are not counted."""
        self._note(rows, CounterName.PURGED, None)

    def _note(self, rows: Sequence[Any], passing: CounterName, reason: str | None) -> None:
        self.gone += [
            RemovedMessage(*row[:_COLUMNS], passing, reason)  # type: ignore[call-arg]
            for row in rows
            if row[_KEY] is not None or row[_BATCH_ID] is not None or row[_BYTES] is not None
        ]


class AfterCommit(NamedTuple):
    """The work after the commit."""

    passed: Counter[tuple[Kind, CounterName]]
    queues: frozenset[UUID]
    batches: frozenset[tuple[str, UUID]]


class Removal:
    """Carries out what follows from a removal."""

    def __init__(
        self,
        moment: Moment,
        batches: BatchProgress,
        wakeups: PostgresWakeups,
        tallies: Counters,
    ) -> None:
        self._batches, self._wakeups, self._tallies = batches, wakeups, tallies
        self._keys = Keys(moment)

    async def take_keys(self, connection: Connection, waiting: Sequence[Any]) -> None:
        """Locks the keys of waiting messages before the messages: a transaction that unblocks
        the next one locks the key first, too."""
        keys = {
            Key(row["tenant"], row["queue_id"], row["key"])
            for row in waiting
            if row["key"] is not None
        }
        if keys:
            await self._keys.lock(connection, keys)

    async def follow(
        self,
        connection: Connection,
        left: RemovedMessages,
        room: BacklogChange,
        more_keys: Collection[Key] = (),
    ) -> AfterCommit:
        """Runs in the transaction that removed them. Always in this order, to avoid deadlocks:
        keys, counts, backlog."""
        gone = left.gone
        behind_run = keys_of(each for each in gone if was_handled(each.passing, each.reason))
        keys = keys_of(gone).union(more_keys)
        queues = await self._keys.free(connection, keys, behind_run=behind_run)
        ended = [
            EndedItem(each.tenant, each.batch_id, each.id, _status(each), each.reason)
            for each in gone
            if each.batch_id is not None
        ]
        if ended:
            await self._batches.end_items(connection, ended)
        for each in gone:
            if each.bytes is not None:
                room.free(each.queue_id, each.bytes)
        await change_backlog(connection, room)
        batches = frozenset((each.tenant, each.batch_id) for each in ended)
        return AfterCommit(left.passed, frozenset(queues), batches)

    async def finish(self, aftermath: AfterCommit) -> None:
        """Runs after the commit. The reaper repeats a completion that fails here."""
        for (kind, passing), messages in aftermath.passed.items():
            tenant, queue_id, type_, source = kind
            tallied = CounterKey(queue_id, tenant, passing, type_ or "", source or "")
            self._tallies.add(tallied, messages)
        if aftermath.queues:
            self._wakeups.notify(aftermath.queues)
        if aftermath.batches:
            with suppress(StoreError):
                await self._batches.complete(aftermath.batches)


def keys_of(gone: Iterable[RemovedMessage]) -> set[Key]:
    """The keys of removed messages."""
    return {Key(each.tenant, each.queue_id, each.key) for each in gone if each.key is not None}


def _status(gone: RemovedMessage) -> ItemStatus:
    return ItemStatus.COMPLETED if gone.passing is CounterName.DONE else ItemStatus.FAILED


PURGED_AT_ONCE = 5_000


class Purger:
    """Deletes messages."""

    def __init__(self, database: Database, moment: Moment, leaving: Removal) -> None:
        self._database, self._moment, self._leaving = database, moment, leaving

    async def purge(self, scope: Scope, queue_id: UUID) -> int:
        """Deletes the waiting messages of a queue, in chunks. Messages sent meanwhile stay."""
        until = self._moment()
        if until is None:
            until = await self._database.run(lambda connection: connection.fetchval(SQL.read_clock))
        asked = (queue_id, scope.tenant, until, PURGED_AT_ONCE)

        async def find(connection: Connection) -> Sequence[Any]:
            await connection.execute(CUSTOM_PLAN)
            return await connection.fetch(SQL.waiting_messages, *asked)

        purged = 0
        while True:
            found, gone = await self._delete(find, REASON_PURGED)
            purged += gone
            if found < PURGED_AT_ONCE:
                return purged

    async def delete(self, scope: Scope, queue_id: UUID, message_id: UUID) -> bool:
        """Deletes a message that is not claimed."""
        _, gone = await self._delete(
            lambda connection: connection.fetch(
                SQL.waiting_message, queue_id, message_id, scope.tenant
            ),
            REASON_DELETED,
        )
        return gone > 0

    async def _delete(
        self, find: Callable[[Connection], Awaitable[Sequence[Any]]], reason: str
    ) -> tuple[int, int]:
        """Deletes the messages that are found, if they still wait; returns how many were found
        and deleted."""

        async def work(connection: Connection) -> tuple[int, AfterCommit]:
            found = await find(connection)
            await self._leaving.take_keys(connection, found)
            rows = await connection.fetch(
                SQL.delete_messages, [row["tenant"] for row in found], [row["id"] for row in found]
            )
            left = RemovedMessages()
            left.add(rows, CounterName.PURGED, reason)
            return len(found), await self._leaving.follow(connection, left, BacklogChange())

        found, aftermath = await self._database.transact(work, repeatable=False)
        await self._leaving.finish(aftermath)
        return found, aftermath.passed.total()
