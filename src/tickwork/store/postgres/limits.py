"""Named limits on PostgreSQL. Whoever takes from one locks its row until the end of the
transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from tickwork.core.limits import is_name
from tickwork.core.model import Claim, Scope
from tickwork.core.queue.named_limit import FULL_SECONDS, LIMITS_MAX, NamedLimit, room
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
                raise TooMany(f"there are {LIMITS_MAX} limits already; delete some first", "limits")

        try:
            await self._database.change(work)
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
        async def work(connection: Connection) -> bool:
            return await connection.execute(SQL.delete_limit, scope.tenant, name) != "DELETE 0"

        if not _can_exist(scope, name) or not await self._database.change(work):
            raise NotFound("limit", name)

    async def take(self, scope: Scope, name: str, claim: Claim) -> float:
        async def work(connection: Connection) -> float:
            found = await locked_limit(connection, self._moment, scope.tenant, name)
            if found is None:
                return 0.0
            limit, named = found.limit, (scope.tenant, name)
            if limit.concurrency is not None:
                used = await connection.fetchval(SQL.count_limited, *named, claim.id)
                if used >= limit.concurrency:
                    return FULL_SECONDS
            if limit.rate_per_second is not None:
                wait_seconds = seconds_until_next(
                    found.spent_until, found.now, limit.rate_per_second
                )
                if wait_seconds:
                    return wait_seconds
                await found.spend(connection, 1)
            if limit.concurrency is not None:
                await connection.execute(SQL.delete_ended_uses, *named)
                await connection.execute(SQL.use_limit, *named, claim.id, claim.number)
            return 0.0

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
            claimed = await connection.fetchval(
                SQL.count_limited, self.tenant, self.limit.name, None
            )
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
