"""What has to be done when messages are removed: acked, dead, purged or deleted.

In the transaction that removes them, the next message of their key is unblocked, their batch counts
them, and their bytes are freed. The delivery of a message that was not acked is dead. After the
commit, consumers are woken, batches are completed and counters are added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.message.batch import REASON_PURGED, ItemStatus
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
    claimed_at: datetime | None
    attempts: int
    counter: CounterName
    reason: str | None = None


Kind = tuple[str, UUID, str | None, str | None]
"""Tenant, queue id, type and source: messages are counted by these columns."""

_KIND, _KEY, _BATCH_ID, _BYTES, _COLUMNS = (
    RemovedMessage._fields.index(field) for field in ("id", "key", "batch_id", "bytes", "counter")
)


class RemovedMessages:
    """Messages removed in one transaction: counts by kind, and the messages whose removal has
    effects. `passable_keys` are the keys of entities whose send was not removed, but waits for its
    retry: direct calls may take them."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[Kind, CounterName]] = Counter()
        self.with_effects: list[RemovedMessage] = []
        self.passable_keys: set[Key] = set()

    def add(self, rows: Sequence[Any], counter: CounterName, reason: str | None = None) -> None:
        """Adds rows of a statement whose first columns are those of `RemovedMessage`."""
        for kind, messages in Counter([row[:_KIND] for row in rows]).items():
            self.counts[kind, counter] += messages
        self._add_affected(rows, counter, reason)

    def note_passable(self, row: Any) -> None:
        """Notes the key of a message that waits for its retry, if direct calls may take it."""
        if row["passable_key"] is not None:
            self.passable_keys.add(Key(row["tenant"], row["queue_id"], row["passable_key"]))

    def add_withdrawn(self, rows: Sequence[Any]) -> None:
        """Adds messages of withdrawn slots, which are not counted."""
        self._add_affected(rows, CounterName.PURGED, None)

    def free_bytes(self, backlog: BacklogChange) -> None:
        """Subtracts the bytes of the messages from the backlogs of their queues."""
        for effect in self.with_effects:
            if effect.bytes is not None:
                backlog.free(effect.queue_id, effect.bytes)

    def _add_affected(self, rows: Sequence[Any], counter: CounterName, reason: str | None) -> None:
        self.with_effects += [
            RemovedMessage(*row[:_COLUMNS], counter, reason)  # type: ignore[call-arg]
            for row in rows
            if row[_KEY] is not None or row[_BATCH_ID] is not None or row[_BYTES] is not None
        ]


class AfterCommit(NamedTuple):
    """What to do after the commit: counts to add, queues to wake, batches that may be complete."""

    counts: Counter[tuple[Kind, CounterName]]
    queues: frozenset[UUID]
    batches: frozenset[tuple[str, UUID]]


class Removal:
    """Does what has to follow a removal."""

    def __init__(
        self,
        moment: Moment,
        batches: BatchProgress,
        wakeups: PostgresWakeups,
        counters: Counters,
    ) -> None:
        self._moment = moment
        self._batches = batches
        self._wakeups = wakeups
        self._counters = counters
        self._keys = Keys(moment)

    async def lock_keys(self, connection: Connection, waiting: Sequence[Any]) -> None:
        """Locks the keys of waiting messages. Call it before locking the messages: a transaction
        that unblocks a message locks the key first, too."""
        keys = {
            Key(row["tenant"], row["queue_id"], row["key"])
            for row in waiting
            if row["key"] is not None
        }
        if keys:
            await self._keys.lock(connection, keys)

    async def apply_effects(
        self,
        connection: Connection,
        removed: RemovedMessages,
        backlog: BacklogChange,
        more_keys: Collection[Key] = (),
    ) -> AfterCommit:
        """Unblocks keys, counts items of batches and writes the backlog change, in the transaction
        that removed the messages. The order avoids deadlocks."""
        affected = removed.with_effects
        behind_run = keys_of(
            message for message in affected if was_handled(message.counter, message.reason)
        )
        keys = keys_of(affected).union(more_keys, removed.passable_keys)
        queues = await self._keys.unblock(connection, keys, behind_run=behind_run)
        ended = [
            EndedItem(
                *(message.tenant, message.batch_id, message.id, _status(message), message.reason),
                *(message.claimed_at, message.attempts),
            )
            for message in affected
            if message.batch_id is not None
        ]
        if ended:
            await self._batches.end_items(connection, ended)
        await change_backlog(connection, backlog)
        batches = frozenset((item.tenant, item.batch_id) for item in ended)
        return AfterCommit(removed.counts, frozenset(queues), batches)

    async def remove(
        self, connection: Connection, waiting: Sequence[Any], reason: str
    ) -> AfterCommit:
        """Deletes the given messages (rows with `tenant`, `queue_id`, `id` and `key`), unless they
        were claimed since."""
        await self.lock_keys(connection, waiting)
        rows = await connection.fetch(
            SQL.delete_messages,
            self._moment(),
            [row["tenant"] for row in waiting],
            [row["id"] for row in waiting],
            reason,
        )
        delivery_queues = {row["id"] for row in await connection.fetch(SQL.delivery_queues)}
        gone = [row for row in rows if row["queue_id"] in delivery_queues]
        await bury_deliveries(connection, self._moment, gone)
        removed, backlog = RemovedMessages(), BacklogChange()
        removed.add(rows, CounterName.PURGED, reason)
        removed.free_bytes(backlog)
        return await self.apply_effects(connection, removed, backlog)

    async def finish(self, after_commit: AfterCommit) -> None:
        """Counts, wakes consumers and completes batches, after the commit. The reaper repeats a
        completion that fails."""
        for (kind, counter), messages in after_commit.counts.items():
            tenant, queue_id, type_, source = kind
            counter_key = CounterKey(queue_id, tenant, counter, type_ or "", source or "")
            self._counters.add(counter_key, messages)
        if after_commit.queues:
            self._wakeups.notify(after_commit.queues)
        if after_commit.batches:
            with suppress(StoreError):
                await self._batches.complete(after_commit.batches)


def keys_of(affected: Iterable[RemovedMessage]) -> set[Key]:
    """Returns the keys of removed messages."""
    return {
        Key(message.tenant, message.queue_id, message.key)
        for message in affected
        if message.key is not None
    }


def _status(affected: RemovedMessage) -> ItemStatus:
    return ItemStatus.COMPLETED if affected.counter is CounterName.DONE else ItemStatus.FAILED


async def bury_deliveries(connection: Connection, moment: Moment, gone: Sequence[Any]) -> None:
    """Marks the deliveries of messages (rows with `tenant` and `id`) as dead, unless they are
    delivered."""
    if gone:
        tenants, ids = [row["tenant"] for row in gone], [row["id"] for row in gone]
        await connection.execute(SQL.bury_deliveries, moment(), tenants, ids)


PURGED_AT_ONCE = 5_000


class Purger:
    """Deletes messages that are not claimed."""

    def __init__(self, database: Database, moment: Moment, removal: Removal) -> None:
        self._database = database
        self._moment = moment
        self._removal = removal

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
            found, affected = await self._delete(find, REASON_PURGED)
            purged += affected
            if found < PURGED_AT_ONCE:
                return purged

    async def _delete(
        self, find: Callable[[Connection], Awaitable[Sequence[Any]]], reason: str
    ) -> tuple[int, int]:
        """Deletes the messages that `find` returns, unless they were claimed since. Returns how
        many were found and how many deleted."""

        async def work(connection: Connection) -> tuple[int, AfterCommit]:
            found = await find(connection)
            return len(found), await self._removal.remove(connection, found, reason)

        found, after_commit = await self._database.change(work, repeatable=False)
        await self._removal.finish(after_commit)
        return found, after_commit.counts.total()
