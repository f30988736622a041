"""Named limits on PostgreSQL. Whoever takes from one locks its row until the end of the
transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from tickwork.core.limits import is_name
from tickwork.core.model import Scope
from tickwork.core.queue.named_limit import LIMITS_MAX, NamedLimit, room
from tickwork.core.queue.rate_limit import seconds_until_next, spend
from tickwork.errors import NotFound, TooMany
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresLimits:
    """Limits by name."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def put(self, scope: Scope, limit: NamedLimit) -> NamedLimit:
        if scope.tenant is not None and not is_name(scope.tenant):
            raise NotFound("tenant", scope.tenant)
        values = (limit.name, limit.rate, limit.period_seconds, limit.concurrency)

        async def work(connection: Connection) -> None:
            await connection.execute(SQL.put_limit, scope.tenant, *values)
            found = await connection.fetch(SQL.list_limits, scope.tenant)
            if len(found) > LIMITS_MAX:
                raise TooMany(f"there are {LIMITS_MAX} limits already; delete some first")

        try:
            await self._database.transact(work)
        except asyncpg.ForeignKeyViolationError:
            raise NotFound("tenant", scope.tenant) from None
        return limit

    async def get(self, scope: Scope, name: str) -> NamedLimit:
        row = None
        if _can_exist(scope, name):
            row = await self._database.run(
                lambda connection: connection.fetchrow(SQL.get_limit, scope.tenant, name)
            )
        if row is None:
            raise NotFound("limit", name)
        return _limit(row)

    async def list(self, scope: Scope) -> tuple[NamedLimit, ...]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_limits, scope.tenant)
        )
        return tuple(map(_limit, found))

    async def delete(self, scope: Scope, name: str) -> None:
        deleted = "DELETE 0"
        if _can_exist(scope, name):
            deleted = await self._database.run(
                lambda connection: connection.execute(SQL.delete_limit, scope.tenant, name)
            )
        if deleted == "DELETE 0":
            raise NotFound("limit", name)

    async def take(self, scope: Scope, name: str) -> float:
        async def work(connection: Connection) -> float:
            found = await locked_limit(connection, self._moment, scope.tenant, name)
            if found is None or (rate := found.limit.rate_per_second) is None:
                return 0.0
            wait_seconds = seconds_until_next(found.spent_until, found.now, rate)
            if not wait_seconds:
                await found.spend(connection, 1)
            return wait_seconds

        return await self._database.transact(work, repeatable=False)


class LockedLimit(NamedTuple):
    """A limit whose row this transaction has locked."""

    tenant: str | None
    limit: NamedLimit
    spent_until: datetime | None
    now: datetime

    async def room(self, connection: Connection) -> int:
        """Number of messages that may be claimed now."""
        claimed = 0
        if self.limit.concurrency is not None:
            claimed = await connection.fetchval(SQL.count_limited, self.tenant, self.limit.name)
        return room(self.limit, self.spent_until, self.now, claimed)

    async def spend(self, connection: Connection, messages: int) -> None:
        """Charges messages to the rate."""
        rate = self.limit.rate_per_second
        if rate is not None:
            until = spend(self.spent_until, self.now, rate, messages)
            await connection.execute(SQL.spend_limit, self.tenant, self.limit.name, until)


async def locked_limit(
    connection: Connection, moment: Moment, tenant: str | None, name: str
) -> LockedLimit | None:
    """Locks a limit; None if there is none."""
    row = await connection.fetchrow(SQL.lock_limit, tenant, name, moment())
    return None if row is None else LockedLimit(tenant, _limit(row), row["spent_until"], row["now"])


def _limit(row: Any) -> NamedLimit:
    return NamedLimit(**{field: row[field] for field in NamedLimit.__struct_fields__})


def _can_exist(scope: Scope, name: str) -> bool:
    return is_name(name) and (scope.tenant is None or is_name(scope.tenant))
