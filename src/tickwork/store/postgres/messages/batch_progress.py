"""Counts ended items of batches on PostgreSQL, and completes batches.

A batch is completed after the commit that ended its last item. If that fails, the sweep completes
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate, chain, islice
from typing import NamedTuple
from uuid import UUID

import asyncpg

from tickwork.core.message.batch import (
    BATCH_FILLING_SECONDS_MAX,
    ItemStatus,
    completed_attempts,
    completion_event,
)
from tickwork.core.model import Scope
from tickwork.errors import NotFound, StoreUnavailable
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Parcel, Sender
from tickwork.store.postgres.messages.subscriptions import PostgresSubscriptions
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.counters import warn_missing_completion_queue

COMPLETIONS_MAX = 100
"""Maximum number of batches completed in one transaction."""

ATTEMPTS_MAX = 2
"""Maximum number of attempts. The cached queue of a completion event may be deleted; the second
attempt looks it up again."""

_NO_QUEUE = UUID(int=0)
_START = ("", _NO_QUEUE)


class EndedItem(NamedTuple):
    """An item of a batch, and how it ended."""

    tenant: str
    batch_id: UUID
    id: UUID
    status: ItemStatus
    reason: str | None
    started_at: datetime | None = None
    failed_attempts: int = 0

    @property
    def attempts(self) -> int | None:
        """The attempts to record."""
        is_started = self.started_at is not None
        return completed_attempts(self.status, self.failed_attempts, is_started=is_started)


class BatchProgress:
    """Counts ended items and completes batches."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        subscriptions: PostgresSubscriptions,
    ) -> None:
        self._database, self._moment = database, moment
        self._queues = queues
        self._sender = sender
        self._subscriptions = subscriptions
        self._sweep_cursor: tuple[str, UUID] = _START

    async def end_items(self, connection: Connection, items: Sequence[EndedItem]) -> None:
        """Records and counts ended items, in the transaction that removes their messages."""
        kinds: dict[tuple[str, UUID, str, str | None], list[EndedItem]] = {}
        for item in items:
            kind = (item.tenant, item.batch_id, item.status, item.reason)
            kinds.setdefault(kind, []).append(item)
        if not kinds:
            return
        numbers = [len(alike) for alike in kinds.values()]
        ended = [*chain.from_iterable(kinds.values())]
        firsts = [1 + before for before in accumulate(numbers[:-1], initial=0)]
        await connection.execute(
            SQL.end_items,
            self._moment(),
            [item.id for item in ended],
            *zip(*kinds, strict=True),
            firsts,
            numbers,
            [item.started_at for item in ended],
            [item.attempts for item in ended],
        )

    async def complete(self, batches: Collection[tuple[str, UUID]]) -> int:
        """Completes those of the batches whose items have all ended, after the commit; returns how
        many.

        Each publishes its event once. If the database is unavailable, the sweep repeats it.
        """
        try:
            return await self._complete(batches)
        except StoreUnavailable:
            return 0

    async def sweep(self, limit: int) -> int:
        """Examines some of the batches that are not completed, continuing where the last call
        stopped.

        Seals abandoned batches, completes those that were missed, and returns the number completed.
        """
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.uncompleted_batches,
                self._moment(),
                *self._sweep_cursor,
                BATCH_FILLING_SECONDS_MAX,
                limit,
            )
        )
        seen = [(row["tenant"], row["id"]) for row in found]
        self._sweep_cursor = seen[-1] if len(seen) == limit else _START
        abandoned = [(row["tenant"], row["id"]) for row in found if row["is_left"]]
        if abandoned:
            await self._database.run(
                lambda connection: connection.execute(
                    SQL.seal_abandoned_batches,
                    self._moment(),
                    *_columns(abandoned),
                    BATCH_FILLING_SECONDS_MAX,
                )
            )
        return await self._complete(seen) if seen else 0

    async def _complete(self, batches: Collection[tuple[str, UUID]]) -> int:
        found = iter(
            await self._database.run(
                lambda connection: connection.fetch(SQL.ended_batches, *_columns(sorted(batches)))
            )
        )
        completed = 0
        while ended := list(islice(found, COMPLETIONS_MAX)):
            for _ in range(ATTEMPTS_MAX):
                events = {(row["tenant"], row["id"]): await self._event(row) for row in ended}
                try:
                    completed += await self._complete_with(events)
                except NotFound:
                    self._subscriptions.forget()
                else:
                    break
        return completed

    async def _complete_with(self, events: Mapping[tuple[str, UUID], Parcel]) -> int:
        """Completes batches with their events in one transaction."""

        async def work(
            connection: Connection,
        ) -> tuple[Sequence[tuple[str, UUID]], Sequence[Group]]:
            rows = await connection.fetch(SQL.complete_batches, self._moment(), *_columns(events))
            names = [(row["tenant"], row["id"]) for row in rows]
            return names, await self._store_events(connection, [events[name] for name in names])

        completed, stored = await self._database.transact(work)
        self._sender.after_commit(stored)
        for name in completed:
            group = events[name].group
            if group.queue_id == _NO_QUEUE and group.queue:
                warn_missing_completion_queue(name[1], group.queue)
        return len(completed)

    async def _store_events(
        self, connection: Connection, parcels: Sequence[Parcel]
    ) -> Sequence[Group]:
        """Stores completion events and returns what was stored. Skips an event that is still in its
        queue because an earlier batch had the same id."""
        backlog = BacklogChange()
        stored: Sequence[Group] = ()
        with_queue = [parcel for parcel in parcels if parcel.group.queue_id != _NO_QUEUE]
        if with_queue:
            stored = await self._sender.store_parcels(connection, with_queue, new_id(), backlog)
        without_queue = [parcel for parcel in parcels if parcel.group.queue_id == _NO_QUEUE]
        copies = [copy for parcel in without_queue for copy in parcel.copies_of(parcel.group)]
        if copies:
            stored = [*stored, *await self._sender.store(connection, copies, new_id(), backlog)]
        await change_backlog(connection, backlog)
        return stored

    async def _event(self, row: asyncpg.Record) -> Parcel:
        """Returns the completion event of a batch, with its subscribers and its queue if that
        exists."""
        event = completion_event(
            row["id"],
            total=row["total"],
            completed=row["completed"],
            failed=row["failed"],
            run_id=row["run_id"],
        )
        tenant = row["tenant"]
        queue = row["completion_queue"]
        queue_id = None
        if queue is not None:
            with suppress(NotFound):
                queue_id = await self._queues.id_of(Scope(tenant), queue)
        return await self._sender.with_subscribers(
            Group(tenant, queue_id or _NO_QUEUE, queue or "", (event,), is_exempt=True)
        )


def _columns(batches: Iterable[tuple[str, UUID]]) -> tuple[list[str], list[UUID]]:
    known = list(batches)
    return [tenant for tenant, _ in known], [batch_id for _, batch_id in known]
