"""Batches on PostgreSQL: filled by COPY, counted in stripes, completed once.

An item is a message until it ends; then it is a row of its own and one more in a stripe of its
batch's counts, in the transaction in which its message went. Whoever commits such an end looks
afterwards whether it was the last one: of several who end the last items at the same moment,
the one that commits last sees them all. What a crash leaves, a sweep finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain, islice
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from tickwork.core.limits import check_limit, check_new_batch, is_name
from tickwork.core.message.batch import (
    BATCH_FILLING_SECONDS_MAX,
    BATCH_ITEMS_MAX,
    REASON_CANCELLED,
    Batch,
    BatchItem,
    BatchStatus,
    ItemStatus,
    NewBatch,
    completion_event,
)
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NotFound, StoreUnavailable
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import SQL, Connection, Database
from tickwork.store.postgres.messages.backlog import Room, change_backlog
from tickwork.store.postgres.messages.batch_fill import PIECE_ITEMS, Filler
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.send import DEFAULT_TENANT, Group, Parcel, Sender
from tickwork.store.postgres.messages.subscriptions import PostgresSubscriptions
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import Tallied, Tallies, warn_untold

PIECES_MAX = BATCH_ITEMS_MAX // PIECE_ITEMS + 1

COMPLETIONS_MAX = 100
"""As many batches as are completed in one transaction."""

TRIES_MAX = 2
"""A queue that was remembered for the completion event may be gone; the second look is fresh."""

_NOWHERE = UUID(int=0)
_START = ("", _NOWHERE)


class EndedItem(NamedTuple):
    """An item that will not run again: `completed`, or `failed` for a reason."""

    tenant: str
    batch_id: UUID
    id: UUID
    status: ItemStatus
    reason: str | None


class PostgresBatches:
    """Messages that are counted together."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        subscriptions: PostgresSubscriptions,
        keys: Keys,
        tallies: Tallies,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues, self._sender, self._subscriptions = queues, sender, subscriptions
        self._keys, self._tallies = keys, tallies
        self._filler = Filler(database, moment, sender)
        self._swept: tuple[str, UUID] = _START

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        check_new_batch(batch)
        queue = await self._queues.get(scope, batch.queue)
        tenant = _tenant(scope)
        await self._filler.fill(tenant, batch, queue, items)
        await self.complete([(tenant, batch.id)])
        return await self.get(scope, batch.id)

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        row = None
        if is_name(tenant := _tenant(scope)):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_batch, tenant, batch_id)
            )
        if row is None:
            raise NotFound("batch", batch_id)
        return _batch(row)

    async def list(self, scope: Scope, limit: int) -> tuple[Batch, ...]:
        check_limit(limit)
        if not is_name(tenant := _tenant(scope)):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_batches, tenant, limit)
        )
        return tuple(_batch(row) for row in found)

    async def items(
        self,
        scope: Scope,
        batch_id: UUID,
        status: ItemStatus,
        limit: int,
        *,
        after: UUID | None = None,
    ) -> tuple[BatchItem, ...]:
        check_limit(limit)
        await self.get(scope, batch_id)
        wanted = (_tenant(scope), batch_id, after, limit)

        async def work(connection: Connection) -> list[asyncpg.Record]:
            if status is ItemStatus.PENDING:
                return await connection.fetch(SQL.pending_items, *wanted)
            if status is ItemStatus.PROCESSING:
                return await connection.fetch(SQL.processing_items, *wanted)
            return await connection.fetch(SQL.ended_items, *wanted, status)

        found = await self._database.run(work)
        return tuple(BatchItem(row["id"], status, row["reason"], row["ended_at"]) for row in found)

    async def cancel(self, scope: Scope, batch_id: UUID, *, is_told: bool = True) -> Batch:
        await self.get(scope, batch_id)
        tenant = _tenant(scope)

        async def close(connection: Connection) -> None:
            if is_told:
                await connection.execute(SQL.seal_batch, tenant, batch_id)
            else:
                await connection.execute(SQL.withdraw_batch, self._moment(), tenant, batch_id)

        # Sealed first: what is not stored by now will not be.
        await self._database.run(close)
        last = await self._cancel_piece(tenant, batch_id, None)
        for _ in range(PIECES_MAX):
            if last is None:
                break
            last = await self._cancel_piece(tenant, batch_id, last)
        await self.complete([(tenant, batch_id)])
        return await self.get(scope, batch_id)

    async def end_items(self, connection: Connection, items: Sequence[EndedItem]) -> None:
        """Counts items as ended, in the transaction in which their messages go."""
        kinds: dict[tuple[str, UUID, str, str | None], list[UUID]] = {}
        for tenant, batch_id, item_id, status, reason in items:
            kinds.setdefault((tenant, batch_id, status, reason), []).append(item_id)
        if not kinds:
            return
        numbers = [len(ids) for ids in kinds.values()]
        firsts = [1 + before for before in accumulate(numbers[:-1], initial=0)]
        await connection.execute(
            SQL.end_items,
            self._moment(),
            [*chain.from_iterable(kinds.values())],
            *zip(*kinds, strict=True),
            firsts,
            numbers,
        )

    async def complete(self, batches: Collection[tuple[str, UUID]]) -> int:
        """After a commit: completes those that have ended, and says how many.

        Their event goes out with it, once. What the database refuses now is left to a sweep.
        """
        try:
            return await self._complete(batches)
        except StoreUnavailable:
            return 0

    async def sweep(self, limit: int) -> int:
        """Looks at some of the batches that are not completed, and next time at the following.

        Closes those that nobody goes on filling, completes what ended unnoticed, and says how
        many those were.
        """
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.uncompleted_batches,
                self._moment(),
                *self._swept,
                BATCH_FILLING_SECONDS_MAX,
                limit,
            )
        )
        seen = [(row["tenant"], row["id"]) for row in found]
        self._swept = seen[-1] if len(seen) == limit else _START
        left = [(row["tenant"], row["id"]) for row in found if row["is_left"]]
        if left:
            await self._database.run(
                lambda connection: connection.execute(
                    SQL.seal_abandoned_batches,
                    self._moment(),
                    *_columns(left),
                    BATCH_FILLING_SECONDS_MAX,
                )
            )
        return await self._complete(seen) if seen else 0

    async def _cancel_piece(self, tenant: str, batch_id: UUID, after: UUID | None) -> UUID | None:
        """Cancels some items by id; returns the last one if there may be more."""

        async def work(connection: Connection) -> tuple[Sequence[Any], Sequence[Any], set[UUID]]:
            waiting = await connection.fetch(
                SQL.waiting_items, tenant, batch_id, after, PIECE_ITEMS
            )
            keys = {Key(tenant, row["queue_id"], row["key"]) for row in waiting if row["key"]}
            # The keys before their messages: whoever lets the next one go has the key already.
            if keys:
                await self._keys.lock(connection, keys)
            gone = await connection.fetch(
                SQL.cancel_items, tenant, batch_id, [row["id"] for row in waiting]
            )
            woken = await self._keys.free(connection, keys)
            await self.end_items(
                connection,
                [
                    EndedItem(tenant, batch_id, row["id"], ItemStatus.FAILED, REASON_CANCELLED)
                    for row in gone
                ],
            )
            room = Room()
            for row in gone:
                if row["bytes"] is not None:
                    room.free(row["queue_id"], row["bytes"])
            await change_backlog(connection, room)
            return waiting, gone, woken

        waiting, gone, woken = await self._database.transact(work)
        self._tallies.add_all(
            Tallied(
                row["queue_id"], tenant, CounterName.PURGED, row["type"] or "", row["source"] or ""
            )
            for row in gone
        )
        if woken:
            self._sender.wake(woken)
        return waiting[-1]["id"] if len(waiting) == PIECE_ITEMS else None

    async def _complete(self, batches: Collection[tuple[str, UUID]]) -> int:
        found = iter(
            await self._database.run(
                lambda connection: connection.fetch(SQL.ended_batches, *_columns(sorted(batches)))
            )
        )
        completed = 0
        while ended := list(islice(found, COMPLETIONS_MAX)):
            for _ in range(TRIES_MAX):
                events = {(row["tenant"], row["id"]): await self._event(row) for row in ended}
                try:
                    completed += await self._complete_with(events)
                except NotFound:
                    self._subscriptions.forget()
                else:
                    break
        return completed

    async def _complete_with(self, events: Mapping[tuple[str, UUID], Parcel]) -> int:
        """Completes batches, each with its event, in one transaction."""

        async def work(
            connection: Connection,
        ) -> tuple[Sequence[tuple[str, UUID]], Sequence[Group]]:
            rows = await connection.fetch(SQL.complete_batches, self._moment(), *_columns(events))
            names = [(row["tenant"], row["id"]) for row in rows]
            return names, await self._tell(connection, [events[name] for name in names])

        completed, told = await self._database.transact(work)
        self._sender.passed(told)
        for name in completed:
            group = events[name].group
            if group.queue_id == _NOWHERE and group.queue:
                warn_untold(name[1], group.queue)
        return len(completed)

    async def _tell(self, connection: Connection, parcels: Sequence[Parcel]) -> Sequence[Group]:
        """Stores events, and returns what was stored. One that waits in its queue already, of a
        batch of the same id that was pruned since, is not told again."""
        room = Room()
        told: Sequence[Group] = ()
        asked = [each for each in parcels if each.group.queue_id != _NOWHERE]
        if asked:
            told = await self._sender.store_parcels(connection, asked, new_id(), room)
        unasked = [each for each in parcels if each.group.queue_id == _NOWHERE]
        copies = [copy for each in unasked for copy in each.copies_of(each.group)]
        if copies:
            told = [*told, *await self._sender.store(connection, copies, new_id(), room)]
        await change_backlog(connection, room)
        return told

    async def _event(self, row: asyncpg.Record) -> Parcel:
        """The completion event for the queue that asked for it, if it exists, and who subscribes
        to it; whatever may wait there already."""
        event = completion_event(
            row["id"], total=row["total"], completed=row["completed"], failed=row["failed"]
        )
        tenant, queue, queue_id = row["tenant"], row["completion_queue"], None
        if queue is not None:
            with suppress(NotFound):
                queue_id = await self._queues.id_of(Scope(tenant), queue)
        return await self._sender.with_subscribers(
            Group(tenant, queue_id or _NOWHERE, queue or "", (event,), is_exempt=True)
        )


def _tenant(scope: Scope) -> str:
    return scope.tenant or DEFAULT_TENANT


def _columns(batches: Iterable[tuple[str, UUID]]) -> tuple[list[str], list[UUID]]:
    known = list(batches)
    return [tenant for tenant, _ in known], [batch_id for _, batch_id in known]


def _batch(row: Any) -> Batch:
    total = row["stored"] if row["total"] is None else row["total"]
    status = BatchStatus.RUNNING
    if row["completed_at"] is not None:
        status = BatchStatus.COMPLETED
    elif row["total"] is None:
        status = BatchStatus.FILLING
    return Batch(
        id=row["id"],
        tenant=row["tenant"],
        queue_id=row["queue_id"],
        status=status,
        total=total,
        pending=total - row["processing"] - row["completed"] - row["failed"],
        processing=row["processing"],
        completed=row["completed"],
        failed=row["failed"],
        created_at=row["created_at"],
        completed_at=row["completed_at"],
    )
