"""Traces: what belongs to one correlation."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.trace import TraceRecord
from tickwork.store.ids import own_tenant
from tickwork.store.steps import Noun, Statement, Steps, reads

_FIND = Statement("find_trace", TraceRecord)


class Traces(Noun):
    """Records by their correlation."""

    @reads
    def find(
        self, scope: Scope, correlation_id: str, limit: int, *, first: UUID | None = None
    ) -> Steps[tuple[TraceRecord, ...]]:
        check_limit(limit)
        if not is_name(correlation_id):
            return ()
        rows = yield from _FIND.fetch(own_tenant(scope), correlation_id, first, limit)
        return tuple(TraceRecord(**row) for row in rows)
