"""Streams of tenants: system events, and the changes in the audit log."""

from __future__ import annotations

from uuid import UUID

import msgspec

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.core.stream import StreamEvent
from tickwork.store.steps import Noun, Statement, Steps, reads

_LIST = Statement("list_stream", StreamEvent)
_LIST_WHOLE = Statement("list_whole_stream", StreamEvent)


class Stream(Noun):
    """What happened, oldest first."""

    @reads
    def after(self, scope: Scope, after: UUID, limit: int) -> Steps[tuple[StreamEvent, ...]]:
        check_limit(limit)
        if scope.tenant is None:
            rows = yield from _LIST_WHOLE.fetch(after, limit)
        elif is_name(scope.tenant):
            rows = yield from _LIST.fetch(scope.tenant, after, limit)
        else:
            return ()
        return tuple(
            StreamEvent(**{**row, "data": msgspec.json.decode(row["data"])}) for row in rows
        )
