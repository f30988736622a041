"""Calendars: days off under a name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from tickwork.core.fields import NAME_LENGTH_MAX, text_faults
from tickwork.core.limits import is_name
from tickwork.core.model import Scope
from tickwork.core.schedule.model import Calendar
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.tenants import check_exists
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Noun, Row, Statement, Steps, changes, reads

_PUT = Statement("put_calendar", Calendar, days=Kind.TEXTS)
_GET = Statement("get_calendar", Calendar, days=Kind.TEXTS)
_LIST = Statement("list_calendars", Calendar, days=Kind.TEXTS)
_LOCK = Statement("lock_calendar", is_used=Kind.FLAG)
_DELETE = Statement("delete_calendar")


class Calendars(Noun):
    """Days off by name."""

    @changes
    def put(self, scope: Scope, name: str, days: Sequence[date]) -> Steps[Calendar]:
        if faults := text_faults("name", name, NAME_LENGTH_MAX):
            raise InvalidInput(faults)
        tenant, texts = own_tenant(scope), sorted({day.isoformat() for day in days})
        yield from check_exists(tenant)
        row = yield from _PUT.fetch_row(NOW, tenant, name, texts)
        assert row is not None
        return _calendar(row)

    @reads
    def get(self, scope: Scope, name: str) -> Steps[Calendar]:
        named, row = (own_tenant(scope), name), None
        if all(map(is_name, named)):
            row = yield from _GET.fetch_row(*named)
        if row is None:
            raise NotFound("calendar", name)
        return _calendar(row)

    @reads
    def list(self, scope: Scope) -> Steps[tuple[Calendar, ...]]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        rows = yield from _LIST.fetch(tenant)
        return tuple(map(_calendar, rows))

    @changes
    def delete(self, scope: Scope, name: str) -> Steps[None]:
        named, row = (own_tenant(scope), name), None
        if all(map(is_name, named)):
            row = yield from _LOCK.fetch_row(*named)
        if row is None:
            raise NotFound("calendar", name)
        if row["is_used"]:
            raise Conflict(f"calendar {name} is used by schedules; change or delete them first")
        yield from _DELETE.execute(*named)


def _calendar(row: Row) -> Calendar:
    return Calendar(**{**row, "days": tuple(row["days"])})
