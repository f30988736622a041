"""Named limits on SQLite. No one else writes in the transaction that takes from one."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tickwork.core.limits import is_name
from tickwork.core.model import Claim, Scope
from tickwork.core.queue.named_limit import FULL_SECONDS, LIMITS_MAX, NamedLimit, room
from tickwork.core.queue.rate_limit import seconds_until_next, spend
from tickwork.errors import NotFound, TooMany
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.rows import Row


class SqliteLimits:
    """Limits by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, scope: Scope, limit: NamedLimit) -> NamedLimit:
        if scope.tenant is not None and not is_name(scope.tenant):
            raise NotFound("tenant", scope.tenant)
        values = (scope.tenant, limit.name, limit.rate, limit.period_seconds, limit.concurrency)

        def work(transaction: Transaction) -> None:
            execute = transaction.execute
            if scope.tenant is not None and not execute(SQL.get_tenant, (scope.tenant,)).fetchone():
                raise NotFound("tenant", scope.tenant)
            execute(SQL.put_limit, values)
            if len(execute(SQL.list_limits, (scope.tenant,)).fetchall()) > LIMITS_MAX:
                raise TooMany(f"there are {LIMITS_MAX} limits already; delete some first", "limits")

        await self._database.change(work)
        return limit

    async def get(self, scope: Scope, name: str) -> NamedLimit:
        found = None
        if _can_exist(scope, name):
            found = await self._database.read(
                lambda transaction: locked_limit(transaction, scope.tenant, name)
            )
        if found is None:
            raise NotFound("limit", name)
        return found.limit

    async def list(self, scope: Scope) -> tuple[NamedLimit, ...]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_limits, (scope.tenant,)).fetchall()
        )
        return tuple(map(_limit, found))

    async def delete(self, scope: Scope, name: str) -> None:
        def work(transaction: Transaction) -> int:
            return transaction.execute(SQL.delete_limit, (scope.tenant, name)).rowcount

        if not _can_exist(scope, name) or not await self._database.change(work):
            raise NotFound("limit", name)

    async def take(self, scope: Scope, name: str, claim: Claim) -> float:
        def work(transaction: Transaction) -> float:
            found = locked_limit(transaction, scope.tenant, name)
            if found is None:
                return 0.0
            limit, named = found.limit, (scope.tenant, name)
            if limit.concurrency is not None:
                (used,) = transaction.execute(
                    SQL.count_limited, (*named, claim.id.bytes)
                ).fetchone()
                if used >= limit.concurrency:
                    return FULL_SECONDS
            if limit.rate_per_second is not None:
                now = from_microseconds(transaction.now)
                wait_seconds = seconds_until_next(found.spent_until, now, limit.rate_per_second)
                if wait_seconds:
                    return wait_seconds
                found.spend(transaction, 1)
            if limit.concurrency is not None:
                transaction.execute(SQL.delete_ended_uses, named)
                transaction.execute(SQL.use_limit, (*named, claim.id.bytes, claim.number))
            return 0.0

        return await self._database.write(work)


class LockedLimit(NamedTuple):
    """A limit that only this transaction changes."""

    tenant: str | None
    limit: NamedLimit
    spent_until: datetime | None

    def room(self, transaction: Transaction) -> int:
        """Number of messages that may be claimed now."""
        claimed = 0
        if self.limit.concurrency is not None:
            named = (self.tenant, self.limit.name, None)
            (claimed,) = transaction.execute(SQL.count_limited, named).fetchone()
        return room(self.limit, self.spent_until, from_microseconds(transaction.now), claimed)

    def spend(self, transaction: Transaction, messages: int) -> None:
        """Charges messages to the rate."""
        rate = self.limit.rate_per_second
        if rate is not None:
            until = spend(self.spent_until, from_microseconds(transaction.now), rate, messages)
            values = (self.tenant, self.limit.name, to_microseconds(until))
            transaction.execute(SQL.spend_limit, values)


def locked_limit(transaction: Transaction, tenant: str | None, name: str) -> LockedLimit | None:
    """A limit; None if there is none."""
    row = transaction.execute(SQL.get_limit, (tenant, name)).fetchone()
    if row is None:
        return None
    spent_until = None if row[-1] is None else from_microseconds(row[-1])
    return LockedLimit(tenant, _limit(row), spent_until)


def _limit(row: Row) -> NamedLimit:
    name, rate, period_seconds, concurrency, _ = row
    return NamedLimit(name=name, rate=rate, period_seconds=period_seconds, concurrency=concurrency)


def _can_exist(scope: Scope, name: str) -> bool:
    return is_name(name) and (scope.tenant is None or is_name(scope.tenant))
