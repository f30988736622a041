"""Tenants and queues on SQLite."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec

from tickwork.core.limits import check_queue, check_tenant, is_name
from tickwork.core.model import Counts, Queue, QueueSettings, Scope, Tenant
from tickwork.errors import Conflict, NotFound
from tickwork.store.ids import new_id
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL


class Found(NamedTuple):
    """A queue as its row has it."""

    id: bytes
    tenant: str | None
    name: str
    settings: str
    paused: int


def find_queue(transaction: Transaction, scope: Scope, name: str) -> Found:
    """The queue of a name, looked up in the transaction that uses it.

    A tenant's own comes before a shared one; two plain lookups are faster than one with both.
    """
    row = None
    values = (scope.tenant, name)
    with suppress(UnicodeEncodeError):  # Nothing can have a name with a lone surrogate.
        row = transaction.execute(SQL.get_queue, values).fetchone()
        if row is None and not scope.is_system:
            row = transaction.execute(SQL.get_shared_queue, values).fetchone()
    if row is None:
        raise NotFound("queue", name)
    return Found(*row)


class SqliteTenants:
    """The owners."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, tenant: Tenant) -> None:
        check_tenant(scope, tenant)
        values = (tenant.id, tenant.weight, tenant.suspended)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.put_tenant, values)

        await self._database.write(work)

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        row = None
        if is_name(tenant_id) and (scope.is_system or scope.tenant == tenant_id):
            row = await self._database.read(
                lambda transaction: transaction.execute(SQL.get_tenant, (tenant_id,)).fetchone()
            )
        if row is None:
            raise NotFound("tenant", tenant_id)
        id_, weight, suspended = row
        return Tenant(id=id_, weight=weight, suspended=suspended == 1)


class SqliteQueues:
    """Queues by name. A name is looked up by whoever uses it, in the same transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, name: str, settings: QueueSettings) -> Queue:
        check_queue(name, settings)
        if scope.tenant is not None and not is_name(scope.tenant):
            raise NotFound("tenant", scope.tenant)
        values = (
            new_id().bytes,
            scope.tenant,
            name,
            msgspec.json.encode(settings).decode(),
            settings.max_retries,
            settings.retention_seconds,
        )

        def work(transaction: Transaction) -> rows.Row:
            execute = transaction.execute
            if scope.tenant is not None and not execute(SQL.get_tenant, (scope.tenant,)).fetchone():
                raise NotFound("tenant", scope.tenant)
            row: rows.Row = execute(SQL.put_queue, values).fetchone()
            return row

        return rows.queue(await self._database.write(work))

    async def get(self, scope: Scope, name: str) -> Queue:
        return rows.queue(
            await self._database.read(lambda transaction: find_queue(transaction, scope, name))
        )

    async def list(self, scope: Scope) -> tuple[Queue, ...]:
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_queues, (scope.tenant,)).fetchall()
        )
        return tuple(rows.queue(row) for row in found)

    async def delete(self, scope: Scope, name: str) -> None:
        def work(transaction: Transaction) -> None:
            queue = _own(transaction, scope, name)
            if transaction.execute(SQL.delete_queue, (queue.id,)).rowcount == 0:
                raise Conflict(
                    f"queue {name} still has messages or dead letters; purge and discard them first"
                )

        await self._database.write(work)

    async def pause(self, scope: Scope, name: str) -> None:
        await self._set_paused(scope, name, paused=True)

    async def resume(self, scope: Scope, name: str) -> None:
        await self._set_paused(scope, name, paused=False)

    async def purge(self, scope: Scope, name: str) -> int:
        def work(transaction: Transaction) -> int:
            values = (find_queue(transaction, scope, name).id, scope.tenant)
            ready = transaction.execute(SQL.purge_ready, values).rowcount
            return ready + transaction.execute(SQL.purge_held, values).rowcount

        return await self._database.write(work)

    async def counts(self, scope: Scope, name: str) -> Counts:
        def work(transaction: Transaction) -> Counts:
            queue = find_queue(transaction, scope, name)
            values = (queue.id, scope.tenant, transaction.now)
            return Counts(*transaction.execute(SQL.count_messages, values).fetchone())

        return await self._database.read(work)

    async def _set_paused(self, scope: Scope, name: str, *, paused: bool) -> None:
        def work(transaction: Transaction) -> None:
            queue = _own(transaction, scope, name)
            transaction.execute(SQL.pause_queue, (queue.id, paused))

        await self._database.write(work)


def _own(transaction: Transaction, scope: Scope, name: str) -> Found:
    """The queue, if it is the scope's own to change; a shared one is the system's."""
    queue = find_queue(transaction, scope, name)
    if queue.tenant != scope.tenant:
        raise Conflict(f"queue {name} is shared; only the system may change it")
    return queue
