"""How messages fared: notes of settlements are rolled up to rows of minutes and hours."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.model import Scope
from tickwork.core.queue.performance import (
    Histogram,
    Measure,
    Noted,
    Performance,
    PeriodName,
    PeriodPerformance,
    Width,
    roll_up,
)
from tickwork.core.usage import usage_of
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.usage import add_usage
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Noun, Row, Statement, Steps, searches, writes

_LOCK = Statement("lock_roll_up", is_free=Kind.FLAG)
_PICK = Statement("pick_ended_counts")
_READ = Statement("read_ended_counts", Noted)
_DELETE = Statement("delete_ended_counts")
_ROLLED_UP = Statement("rolled_up", PeriodName)
_PUT = Statement("put_performance")
_LIST = Statement("list_performance", PeriodPerformance)

_HISTOGRAM = msgspec.json.Decoder(dict[int, int])


class PerformanceRows(Noun):
    """How messages of each queue and type fared, by period."""

    @writes(repeatable=False)
    def roll_up(self, scope: Scope, limit: int) -> Steps[int]:
        check_system(scope)
        check_limit(limit)
        if not (yield from _LOCK.fetch_value()):
            return 0
        places = [row["place"] for row in (yield from _PICK.fetch(limit))]
        if places:
            noted = [_read_note(row) for row in (yield from _READ.fetch(places))]
            yield from self._add(roll_up(noted))
            yield from add_usage(usage_of(noted))
            yield from _DELETE.execute(places)
        return len(places)

    @searches
    def list(
        self,
        scope: Scope,
        width: Width,
        since: datetime,
        until: datetime,
        limit: int,
        *,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002
    ) -> Steps[tuple[PeriodPerformance, ...]]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not all(name is None or is_name(name) for name in (tenant, queue, type)):
            return ()
        rows = yield from _LIST.fetch(tenant, width.stored, since, until, queue, type, limit)
        return tuple(
            PeriodPerformance(row["period"], row["queue"], row["type"] or None, _read(row))
            for row in rows
        )

    def _add(self, added: dict[PeriodName, Performance]) -> Steps[None]:
        names = [(name.width, name.period, name.tenant, name.queue, name.type) for name in added]
        known = {
            PeriodName(
                Width(row["width"]), row["period"], row["tenant"], row["queue"], row["type"]
            ): _read(row)
            for row in (yield from _ROLLED_UP.fetch_each(names))
        }
        rows: list[tuple[object, ...]] = []
        for values, (name, performance) in zip(names, added.items(), strict=True):
            total = known.get(name, Performance()).plus(performance)
            counts = (total.done, total.failed, total.discarded)
            rows.append((*values, *counts, _written(total.waits), _written(total.runs)))
        yield from _PUT.fetch_each(rows)


def _read_note(row: Row) -> Noted:
    return Noted(**{**row, "measure": Measure(row["measure"])})


def _read(row: Row) -> Performance:
    return Performance(
        done=row["done"],
        failed=row["failed"],
        discarded=row["discarded"],
        waits=_HISTOGRAM.decode(row["waits"]),
        runs=_HISTOGRAM.decode(row["runs"]),
    )


def _written(histogram: Histogram) -> str:
    return msgspec.json.encode(dict(sorted(histogram.items()))).decode()
