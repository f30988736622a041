"""Named limits. Whoever takes from one locks its row until the end of the transaction."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tickwork.core.limits import is_name
from tickwork.core.model import Claim, Scope
from tickwork.core.queue.named_limit import FULL_SECONDS, LIMITS_MAX, NamedLimit, room
from tickwork.core.queue.rate_limit import seconds_until_next, spend
from tickwork.errors import NotFound, TooMany
from tickwork.store.nouns.tenants import check_exists
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Noun, Row, Statement, Steps, changes, reads, writes

_GET = Statement("get_limit", spent_until=Kind.TIME)
_LIST = Statement("list_limits", spent_until=Kind.TIME)
_LOCK = Statement("lock_limit", spent_until=Kind.TIME, now=Kind.TIME)
_PUT = Statement("put_limit")
_DELETE = Statement("delete_limit")
_SPEND = Statement("spend_limit")
_COUNT = Statement("count_limited")
_USE = Statement("use_limit")
_DELETE_ENDED = Statement("delete_ended_uses")


class Limits(Noun):
    """Limits by name."""

    @changes
    def put(self, scope: Scope, limit: NamedLimit) -> Steps[NamedLimit]:
        if scope.tenant is not None:
            yield from check_exists(scope.tenant)
        values = (limit.name, limit.rate, limit.period_seconds, limit.concurrency)
        yield from _PUT.execute(scope.tenant, *values)
        if len((yield from _LIST.fetch(scope.tenant))) > LIMITS_MAX:
            raise TooMany(f"there are {LIMITS_MAX} limits already; delete some first", "limits")
        return limit

    @reads
    def get(self, scope: Scope, name: str) -> Steps[NamedLimit]:
        row = None
        if _can_exist(scope, name):
            row = yield from _GET.fetch_row(scope.tenant, name)
        if row is None:
            raise NotFound("limit", name)
        return _limit(row)

    @reads
    def list(self, scope: Scope) -> Steps[tuple[NamedLimit, ...]]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        rows = yield from _LIST.fetch(scope.tenant)
        return tuple(map(_limit, rows))

    @changes
    def delete(self, scope: Scope, name: str) -> Steps[None]:
        count = 0
        if _can_exist(scope, name):
            count = yield from _DELETE.execute(scope.tenant, name)
        if count == 0:
            raise NotFound("limit", name)

    @writes(repeatable=False)
    def take(self, scope: Scope, name: str, claim: Claim) -> Steps[float]:
        locked = yield from lock_limit(scope.tenant, name)
        if locked is None:
            return 0.0
        limit, named = locked.limit, (scope.tenant, name)
        if limit.concurrency is not None:
            used = yield from _COUNT.fetch_value(*named, claim.id)
            if used >= limit.concurrency:
                return FULL_SECONDS
        if limit.rate_per_second is not None:
            wait_seconds = seconds_until_next(locked.spent_until, locked.now, limit.rate_per_second)
            if wait_seconds:
                return wait_seconds
            yield from locked.spend(1)
        if limit.concurrency is not None:
            yield from _DELETE_ENDED.execute(*named)
            yield from _USE.execute(*named, claim.id, claim.number)
        return 0.0


class LockedLimit(NamedTuple):
    """A limit whose row this transaction has locked."""

    tenant: str | None
    limit: NamedLimit
    spent_until: datetime | None
    now: datetime

    def room(self) -> Steps[int]:
        """Number of messages that may be claimed now."""
        claimed = 0
        if self.limit.concurrency is not None:
            claimed = yield from _COUNT.fetch_value(self.tenant, self.limit.name, None)
        return room(self.limit, self.spent_until, self.now, claimed)

    def spend(self, messages: int) -> Steps[None]:
        """Charges messages to the rate."""
        rate = self.limit.rate_per_second
        if rate is not None:
            until = spend(self.spent_until, self.now, rate, messages)
            yield from _SPEND.execute(self.tenant, self.limit.name, until)


def lock_limit(tenant: str | None, name: str) -> Steps[LockedLimit | None]:
    """Locks a limit; None if there is none."""
    row = yield from _LOCK.fetch_row(tenant, name, NOW)
    return None if row is None else LockedLimit(tenant, _limit(row), row["spent_until"], row["now"])


def _limit(row: Row) -> NamedLimit:
    return NamedLimit(**{field: row[field] for field in NamedLimit.__struct_fields__})


def _can_exist(scope: Scope, name: str) -> bool:
    return is_name(name) and (scope.tenant is None or is_name(scope.tenant))
