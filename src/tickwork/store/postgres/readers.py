"""Readers on PostgreSQL: roles that see the rows of one tenant, by row-level security.

Each reader has a policy of its own on each table that has rows of tenants. Nobody else has one: a
table with row-level security shows its rows to its owner, which is the role of Tickwork's own
processes, and to readers. Tables with keys, secrets and stored answers are not granted at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import TypeAlias

import asyncpg

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.errors import FieldError, InvalidInput, NotFound, StoreUnavailable
from tickwork.store.access_contract import Reader
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL

Work: TypeAlias = Callable[[Connection], Awaitable[None]]

_OWN = "tenant = /*tenant_id*/"
_OWN_OR_SHARED = f"{_OWN} OR tenant IS NULL"

CONDITIONS = MappingProxyType(
    {
        "tickwork_tenants": "id = /*tenant_id*/",
        "tickwork_audit": _OWN,
        "tickwork_batch_counts": _OWN,
        "tickwork_batch_items": _OWN,
        "tickwork_batches": _OWN,
        "tickwork_calendars": _OWN,
        "tickwork_dead_letters": _OWN,
        "tickwork_deliveries": _OWN,
        "tickwork_delivery_attempts": (
            "EXISTS (SELECT FROM tickwork_deliveries AS d WHERE d.id = delivery_id)"
        ),
        "tickwork_endpoints": _OWN,
        "tickwork_firings": _OWN,
        "tickwork_limits": _OWN_OR_SHARED,
        "tickwork_limit_uses": _OWN,
        "tickwork_messages": _OWN,
        "tickwork_published": _OWN,
        "tickwork_queues": _OWN_OR_SHARED,
        "tickwork_schedules": _OWN,
        "tickwork_stream_events": _OWN,
        "tickwork_subscriptions": _OWN,
        "tickwork_tallies": _OWN,
    }
)
"""The tables that a reader sees, and which rows of them. The attempts at a delivery have no tenant:
they are those of the deliveries that the reader sees."""


class PostgresReaders:
    """Roles that may read one tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def grant(self, scope: Scope, reader: Reader) -> None:
        check_system(scope)

        async def work(connection: Connection) -> None:
            found = await connection.fetchrow(SQL.describe_role, reader.role, reader.tenant)
            if found is None:
                raise NotFound("role", reader.role)
            if not found["has_tenant"]:
                raise NotFound("tenant", reader.tenant)
            fault = _fault(found)
            if fault is not None:
                raise InvalidInput([FieldError(*fault)])
            for table, condition in CONDITIONS.items():
                known = {
                    "/*table*/": table,
                    "/*condition*/": condition,
                    "/*policy*/": found["policy"],
                    "/*role*/": found["role"],
                    "/*tenant_id*/": found["tenant"],
                }
                await connection.execute(_filled(SQL.grant_table, known))
            schema = {"/*role*/": found["role"], "/*schema*/": found["schema"]}
            await connection.execute(_filled(SQL.grant_schema, schema))

        await self._change(work)

    async def revoke(self, scope: Scope, role: str) -> None:
        check_system(scope)

        async def work(connection: Connection) -> None:
            if role not in {row["role"] for row in await connection.fetch(SQL.list_readers)}:
                raise NotFound("reader", role)
            found = await connection.fetchrow(SQL.describe_role, role, "")
            assert found is not None
            for table in CONDITIONS:
                known = {
                    "/*table*/": table,
                    "/*policy*/": found["policy"],
                    "/*role*/": found["role"],
                }
                await connection.execute(_filled(SQL.revoke_table, known))

        await self._change(work)

    async def _change(self, work: Work) -> None:
        """Changes policies. That needs an exclusive lock on each table, for a moment."""

        async def bounded(connection: Connection) -> None:
            await connection.execute(SQL.bound_lock_wait)
            await work(connection)

        try:
            await self._database.change(bounded, repeatable=False)
        except StoreUnavailable as error:
            if isinstance(error.__cause__, asyncpg.LockNotAvailableError):
                text = "a table is in use by a long transaction; nothing was changed, try again"
                raise StoreUnavailable(text) from error
            raise

    async def list(self, scope: Scope) -> tuple[Reader, ...]:
        check_system(scope)
        found = await self._database.run(lambda connection: connection.fetch(SQL.list_readers))
        return tuple(Reader(row["role"], row["tenant"]) for row in found)


def _fault(found: asyncpg.Record) -> tuple[str, str] | None:
    if not found["is_owner"]:
        text = "must be the URL of the role that owns Tickwork's tables, which its processes use"
        return "database", text
    if found["is_unbound"]:
        text = (
            "must not be a superuser, have BYPASSRLS, or be a member of the role that owns "
            "Tickwork's tables: row-level security does not hold it"
        )
        return "role", text
    return None


def _filled(statement: str, known: dict[str, str]) -> str:
    for mark, text in known.items():
        statement = statement.replace(mark, text)
    return statement
