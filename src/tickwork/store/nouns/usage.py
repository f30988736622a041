"""What tenants used, by the hour."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.usage import UsageName, UsageRow, UsageWidth
from tickwork.store.ids import FIRST_TENANT, LAST_TENANT
from tickwork.store.steps import Noun, Statement, Steps, searches

_ADD = Statement("add_usage")
_LIST = Statement("list_usage", UsageRow)


class UsageRows(Noun):
    """What tenants used, by period."""

    @searches
    def list(
        self, scope: Scope, width: UsageWidth, since: datetime, until: datetime, limit: int
    ) -> Steps[tuple[UsageRow, ...]]:
        check_limit(limit)
        first = last = scope.tenant
        if first is None or last is None:
            first, last = FIRST_TENANT, LAST_TENANT
        elif not is_name(first):
            return ()
        seconds = int(width.width.length.total_seconds())
        rows = yield from _LIST.fetch(first, last, since, until, seconds, limit)
        return tuple(UsageRow(**row) for row in rows)


def add_usage(added: dict[UsageName, int]) -> Steps[None]:
    """Adds amounts to the rows of their hours. Only one process does so at a time."""
    rows = [(name.tenant, name.period, name.measure, amount) for name, amount in added.items()]
    yield from _ADD.fetch_each(rows)
