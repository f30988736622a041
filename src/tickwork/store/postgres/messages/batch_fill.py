"""Fills batches on PostgreSQL: stores their items by COPY in chunks and then seals the batch.

The row of a batch has the number of stored items. The transaction that stores a chunk locks the row
and updates the number. So a retry continues after the last chunk, even after a lost reply, in
another process, or at the same time as another filler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple
from uuid import UUID

import asyncpg
from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_item, check_item_count
from tickwork.core.message.batch import NewBatch
from tickwork.core.model import NewMessage, StoredQueue
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Parcel, Sender

PIECE_ITEMS = 5_000
"""Maximum number of items stored, or cancelled, in one transaction."""

ITEMS_PER_TURN = 250
"""Number of items to check before yielding to other tasks."""


class PreparedBatch(NamedTuple):
    """A batch with all its items, stored together or not at all."""

    id: UUID
    parcel: Parcel
    completion_queue: str | None

    @property
    def group(self) -> Group:
        """The items."""
        return self.parcel.group

    @property
    def copies(self) -> list[Group]:
        """The copies that subscribers get of the items."""
        return self.parcel.copies_of(self.parcel.group)


async def store_batches(
    connection: Connection,
    now: datetime | None,
    batches: Sequence[PreparedBatch],
    sender: Sender,
    backlog: BacklogChange,
) -> tuple[list[Group], list[Group]]:
    """Stores batches with all their items, unless they exist; returns what was stored, and the
    copies that subscribers get of it. `Conflict` if the id of a batch or an item is in use. The
    caller stores the copies and writes the backlog change."""
    # Sorted, so that two transactions that store the same batches do not deadlock.
    batches = await _store_new(
        connection, now, [prepared for _, prepared in sorted(_by_id(batches).items())]
    )
    groups = [prepared.group for prepared in batches]
    if not groups:
        return [], []
    items = {(group.tenant, item.id) for group in groups for item in group.messages}
    stored = await sender.store(connection, groups, new_id(), backlog, returns_ids=True)
    known = {(group.tenant, item.id) for group in stored for item in group.messages}
    if known != items or len(items) < sum(len(group.messages) for group in groups):
        raise Conflict("an item has the id of another message")
    return stored, [copy for prepared in batches for copy in prepared.copies]


async def _store_new(
    connection: Connection, now: datetime | None, batches: Sequence[PreparedBatch]
) -> list[PreparedBatch]:
    """Stores batches without their items; returns those that are new and have items. `Conflict` if
    the id of one is in use."""
    rows = await connection.fetch(
        SQL.store_whole_batches,
        now,
        [prepared.group.tenant for prepared in batches],
        [prepared.id for prepared in batches],
        [prepared.group.queue_id for prepared in batches],
        [prepared.completion_queue for prepared in batches],
        [len(prepared.group.messages) for prepared in batches],
    )
    others = [str(row["id"]) for row in rows if not row["is_new"] and not row["is_same"]]
    if others:
        raise Conflict(f"batch id {', '.join(others)} is already in use by another batch")
    fresh = {(row["tenant"], row["id"]) for row in rows if row["is_new"]}
    return [
        prepared
        for prepared in batches
        if (prepared.group.tenant, prepared.id) in fresh and prepared.group.messages
    ]


def _by_id(batches: Sequence[PreparedBatch]) -> dict[tuple[str, UUID], PreparedBatch]:
    """Returns batches by tenant and id; `Conflict` if two with the same id differ."""
    named: dict[tuple[str, UUID], PreparedBatch] = {}
    for prepared in batches:
        group, known = (
            prepared.group,
            named.setdefault((prepared.group.tenant, prepared.id), prepared).group,
        )
        if (known.queue_id, len(known.messages)) != (group.queue_id, len(group.messages)):
            shown = public_id(Prefix.BATCH, prepared.id)
            raise Conflict(f"batch id {shown} is already in use by another batch")
    return named


class _Filling(NamedTuple):
    """A batch that is being filled."""

    tenant: str
    id: UUID
    queue: StoredQueue


class BatchFiller:
    """Fills and seals batches."""

    def __init__(self, database: Database, moment: Moment, sender: Sender) -> None:
        self._database = database
        self._moment = moment
        self._sender = sender

    async def fill(
        self, tenant: str, batch: NewBatch, queue: StoredQueue, items: Iterable[NewMessage]
    ) -> None:
        """Stores the missing items. Of a sealed batch it only compares the number of items."""
        source = iter(items)
        # Checked before anything is stored: a batch whose first chunk is refused leaves nothing.
        first = await _next_piece(source, 0)
        row = await self._open(tenant, batch, queue)
        stored, total = row["stored"], row["total"]
        if total is None:
            start, piece = stored, first[stored:]
            if not piece:
                start = len(first) + _skip(source, stored - len(first))
                piece = await _next_piece(source, start)
            await self._fill(_Filling(tenant, batch.id, queue), piece, source, start)
        elif _skip(chain(first, source), total + 1) != total:
            raise Conflict(
                f"batch {public_id(Prefix.BATCH, batch.id)} is already sealed with {total} items"
            )

    async def add(
        self,
        tenant: str,
        batch: NewBatch,
        queue: StoredQueue,
        items: Sequence[NewMessage],
        stored: int,
    ) -> None:
        """Stores items of an open batch after the `stored` ones, all or none."""
        check_item_count(stored + len(items))
        for index, item in enumerate(items):
            check_item(item, index)
        if items:
            filling = _Filling(tenant, batch.id, queue)
            await self._store_piece(filling, items, stored, is_new=True)

    async def open(self, tenant: str, batch: NewBatch, queue: StoredQueue) -> None:
        """Creates the batch if it does not exist."""
        await self._open(tenant, batch, queue)

    async def _open(self, tenant: str, batch: NewBatch, queue: StoredQueue) -> asyncpg.Record:
        """Creates the batch if it does not exist, and returns its progress."""

        async def work(connection: Connection) -> asyncpg.Record | None:
            await connection.execute(
                SQL.open_batch,
                self._moment(),
                tenant,
                batch.id,
                queue.id,
                batch.completion_queue,
                batch.run_id,
            )
            return await connection.fetchrow(SQL.batch_fill_state, tenant, batch.id)

        row = await self._database.run(work)
        if row is None or row["queue_id"] != queue.id:
            shown = public_id(Prefix.BATCH, batch.id)
            raise Conflict(f"batch {shown} belongs to another queue or was pruned; use a new id")
        return row

    async def _fill(
        self,
        filling: _Filling,
        piece: Sequence[NewMessage],
        source: Iterator[NewMessage],
        start: int,
    ) -> None:
        """Stores a chunk whose first item has index `start`, then the other items, and seals the
        batch."""
        while piece:
            storing = asyncio.create_task(self._store_piece(filling, piece, start))
            start += len(piece)
            try:
                # Prepares the next chunk while the server stores this one.
                piece = await _next_piece(source, start)
            finally:
                await storing
        is_sealed = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.seal_filled_batch, filling.tenant, filling.id, start
            )
        )
        if not is_sealed:
            shown = public_id(Prefix.BATCH, filling.id)
            raise Conflict(f"batch {shown} does not have exactly the {start} items given")

    async def _store_piece(
        self, filling: _Filling, piece: Sequence[NewMessage], start: int, *, is_new: bool = False
    ) -> None:
        """Stores items, except for those already stored, and copies for subscribers. The first
        item has index `start`. Items that are `new` are refused if there are others instead."""
        try:
            await self._store_with_copies(filling, piece, start, is_new=is_new)
        except NotFound:
            # A cached subscriber was deleted. Look them up again.
            await self._store_with_copies(filling, piece, start, is_new=is_new)

    async def _store_with_copies(
        self, filling: _Filling, piece: Sequence[NewMessage], start: int, *, is_new: bool
    ) -> None:
        stop, queue = start + len(piece), filling.queue
        whole = Group(filling.tenant, queue.id, queue.name, tuple(piece), batch_id=filling.id)
        parcel = await self._sender.with_subscribers(whole)

        async def work(connection: Connection) -> list[Group]:
            row = await connection.fetchrow(
                SQL.fill_batch, self._moment(), filling.tenant, filling.id, stop
            )
            if row is None:
                raise Conflict(f"batch {public_id(Prefix.BATCH, filling.id)} is already sealed")
            if is_new and row["stored"] != start:
                shown = public_id(Prefix.BATCH, filling.id)
                raise Conflict(f"another process is filling batch {shown}; repeat it")
            fresh = whole.messages[max(row["stored"] - start, 0) :]
            if not fresh:
                return []
            group, backlog = structs.replace(whole, messages=fresh), BacklogChange()
            await self._sender.copy_in(connection, group, backlog)
            if row["has_ended"]:
                await _check_none_ended(connection, group)
            copies = parcel.copies_of(group)
            if copies:
                copies = await self._sender.store_copies(connection, copies, new_id(), backlog)
            await change_backlog(connection, backlog)
            return [group, *copies]

        try:
            stored = await self._database.transact(work)
        except asyncpg.UniqueViolationError as error:
            raise Conflict(
                f"an id among the items {start} to {stop - 1} is in use: {error.detail}"
            ) from None
        self._sender.after_commit(stored)


def _skip(source: Iterable[NewMessage], count: int) -> int:
    """Skips up to `count` items; returns how many there were."""
    return sum(1 for _ in islice(source, count))


async def _next_piece(source: Iterator[NewMessage], start: int) -> tuple[NewMessage, ...]:
    """The next chunk of items, from index `start` on; `InvalidInput` if one of them is invalid."""
    piece: list[NewMessage] = []
    while some := tuple(islice(source, min(ITEMS_PER_TURN, PIECE_ITEMS - len(piece)))):
        for index, item in enumerate(some, start + len(piece)):
            check_item(item, index)
        piece += some
        await asyncio.sleep(0)
    check_item_count(start + len(piece))
    return tuple(piece)


async def _check_none_ended(connection: Connection, group: Group) -> None:
    ids = [item.id for item in group.messages]
    if await connection.fetchval(SQL.has_ended_items, group.tenant, group.batch_id, ids):
        raise Conflict("an item has the id of an item of this batch that has ended")
