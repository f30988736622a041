"""Filling batches on PostgreSQL by COPY, in chunks.

The batch's row has the number of stored items. It rises in the transaction that stores a chunk,
which locks the row. So a repeat knows where to continue: after a lost answer, in another process,
or beside a concurrent filler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple
from uuid import UUID

import asyncpg

from tickwork.core.limits import check_item, check_item_count
from tickwork.core.message.batch import NewBatch
from tickwork.core.model import NewMessage, Queue
from tickwork.errors import Conflict
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender

PIECE_ITEMS = 5_000
"""Maximum number of items stored, or cancelled, in one transaction."""

ITEMS_PER_TURN = 250
"""Number of items checked before other tasks get a turn."""


class PreparedBatch(NamedTuple):
    """A batch with all its items, as a group."""

    id: UUID
    group: Group
    completion_queue: str | None


async def store_whole(
    connection: Connection,
    now: datetime | None,
    wholes: Sequence[PreparedBatch],
    sender: Sender,
    room: BacklogChange,
) -> list[Group]:
    """Stores batches with all their items in a transaction, unless they exist; returns what was
    stored. `Conflict` if an id belongs to another batch or message. The caller writes the
    backlog change."""
    # In one order everywhere: whoever makes the same ones does not wait for us crosswise.
    wholes = [whole for _, whole in sorted(_each_once(wholes).items())]
    rows = await connection.fetch(
        SQL.store_whole_batches,
        now,
        [whole.group.tenant for whole in wholes],
        [whole.id for whole in wholes],
        [whole.group.queue_id for whole in wholes],
        [whole.completion_queue for whole in wholes],
        [len(whole.group.messages) for whole in wholes],
    )
    others = [str(row["id"]) for row in rows if not row["is_new"] and not row["is_same"]]
    if others:
        raise Conflict(f"another batch's: {', '.join(others)}")
    fresh = {(row["tenant"], row["id"]) for row in rows if row["is_new"]}
    groups = [whole.group for whole in wholes if (whole.group.tenant, whole.id) in fresh]
    groups = [group for group in groups if group.messages]
    if not groups:
        return []
    items = {(group.tenant, item.id) for group in groups for item in group.messages}
    stored = await sender.store(connection, groups, new_id(), room, says_which=True)
    known = {(group.tenant, item.id) for group in stored for item in group.messages}
    if known != items or len(items) < sum(len(group.messages) for group in groups):
        raise Conflict("an item has the id of another message")
    return stored


def _each_once(wholes: Sequence[PreparedBatch]) -> dict[tuple[str, UUID], PreparedBatch]:
    """Batches by tenant and id; `Conflict` if two with the same id differ."""
    named: dict[tuple[str, UUID], PreparedBatch] = {}
    for whole in wholes:
        group, known = whole.group, named.setdefault((whole.group.tenant, whole.id), whole).group
        if (known.queue_id, len(known.messages)) != (group.queue_id, len(group.messages)):
            raise Conflict(f"another batch's: {whole.id}")
    return named


class _Filling(NamedTuple):
    """A batch that is being filled."""

    tenant: str
    id: UUID
    queue: Queue


class BatchFiller:
    """Fills and seals batches."""

    def __init__(self, database: Database, moment: Moment, sender: Sender) -> None:
        self._database, self._moment, self._sender = database, moment, sender

    async def fill(
        self, tenant: str, batch: NewBatch, queue: Queue, items: Iterable[NewMessage]
    ) -> None:
        """Stores the missing items. For a sealed batch it only compares the number of items."""
        source = iter(items)
        # Before anything is stored: of a batch whose beginning is refused nothing is left.
        first = await _next_piece(source, 0)
        row = await self._open(tenant, batch, queue)
        stored, total = row["stored"], row["total"]
        if total is None:
            place, piece = stored, first[stored:]
            if not piece:
                place = len(first) + _skip(source, stored - len(first))
                piece = await _next_piece(source, place)
            await self._fill(_Filling(tenant, batch.id, queue), piece, source, place)
        elif _skip(chain(first, source), total + 1) != total:
            raise Conflict(f"batch {batch.id} is whole or was given up, and has {total} items")

    async def _open(self, tenant: str, batch: NewBatch, queue: Queue) -> asyncpg.Record:
        """Creates the batch, or returns its progress."""

        async def work(connection: Connection) -> asyncpg.Record | None:
            await connection.execute(
                SQL.open_batch, self._moment(), tenant, batch.id, queue.id, batch.completion_queue
            )
            return await connection.fetchrow(SQL.batch_fill_state, tenant, batch.id)

        row = await self._database.run(work)
        if row is None or row["queue_id"] != queue.id:
            raise Conflict(f"batch {batch.id} is of another queue, or long over; take a new id")
        return row

    async def _fill(
        self,
        filling: _Filling,
        piece: Sequence[NewMessage],
        source: Iterator[NewMessage],
        place: int,
    ) -> None:
        """Stores a chunk that starts at an index, and then the rest."""
        while piece:
            storing = asyncio.create_task(self._store_piece(filling, piece, place))
            place += len(piece)
            try:
                # Meanwhile: the server has its own work to do.
                piece = await _next_piece(source, place)
            finally:
                await storing
        is_whole = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.seal_filled_batch, filling.tenant, filling.id, place
            )
        )
        if not is_whole:
            raise Conflict(f"batch {filling.id} has other items than the {place} given")

    async def _store_piece(
        self, filling: _Filling, piece: Sequence[NewMessage], place: int
    ) -> None:
        """Stores the items from an index on, except for those already stored."""
        stop = place + len(piece)

        async def work(connection: Connection) -> Group:
            row = await connection.fetchrow(
                SQL.fill_batch, self._moment(), filling.tenant, filling.id, stop
            )
            if row is None:
                raise Conflict(f"the filling of batch {filling.id} was given up")
            fresh = tuple(piece[max(row["stored"] - place, 0) :])
            queue = filling.queue
            group = Group(filling.tenant, queue.id, queue.name, fresh, batch_id=filling.id)
            if fresh:
                room = BacklogChange()
                await self._sender.copy_in(connection, group, room)
                if row["has_ended"]:
                    await _check_none_ended(connection, group)
                await change_backlog(connection, room)
            return group

        try:
            group = await self._database.transact(work)
        except asyncpg.UniqueViolationError as taken:
            raise Conflict(
                f"an id among the items {place} to {stop - 1} is in use: {taken.detail}"
            ) from None
        self._sender.passed([group])


def _skip(source: Iterable[NewMessage], count: int) -> int:
    """Skips up to `count` items and returns how many there were."""
    return sum(1 for _ in islice(source, count))


async def _next_piece(source: Iterator[NewMessage], place: int) -> tuple[NewMessage, ...]:
    """The next chunk of items; `InvalidInput` if one is invalid."""
    piece: list[NewMessage] = []
    while some := tuple(islice(source, min(ITEMS_PER_TURN, PIECE_ITEMS - len(piece)))):
        for index, item in enumerate(some, place + len(piece)):
            check_item(item, index)
        piece += some
        await asyncio.sleep(0)
    check_item_count(place + len(piece))
    return tuple(piece)


async def _check_none_ended(connection: Connection, group: Group) -> None:
    ids = [item.id for item in group.messages]
    if await connection.fetchval(SQL.has_ended_items, group.tenant, group.batch_id, ids):
        raise Conflict(f"an item has the id of one of batch {group.batch_id} that has ended")
