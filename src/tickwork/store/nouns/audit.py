"""The audit log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from uuid import UUID

import msgspec

from tickwork.core.audit import AuditRecord, NewAuditRecord
from tickwork.core.message.message_list import LAST_ID
from tickwork.core.model import Scope
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.tenants import check_exists
from tickwork.store.shared.joined_writes import joined
from tickwork.store.steps import NOW, Noun, Row, Statement, Steps, page, reads, writes

_ADD = Statement("add_audit_record")
_LIST = Statement("list_audit", AuditRecord)


class Audit(Noun):
    """Changes, newest first."""

    actor: str | None = None

    @writes(repeatable=True, is_single=True)
    def add(self, scope: Scope, record: NewAuditRecord | None) -> Steps[None]:
        if record is not None:
            yield from check_exists(own_tenant(scope))
            yield from _add(scope, record)

    def joined(
        self, scope: Scope, make: Callable[[], NewAuditRecord | None]
    ) -> AbstractAsyncContextManager[None]:
        return joined(
            self._port.inside(lambda: _add(scope, make())), lambda: self.add(scope, make())
        )

    @reads
    def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None
    ) -> Steps[tuple[AuditRecord, ...]]:
        return (yield from page(_LIST, _record, scope, before or LAST_ID, limit=limit))


def _add(scope: Scope, record: NewAuditRecord | None) -> Steps[None]:
    if record is not None:
        named = (record.id, own_tenant(scope), record.actor, record.action, record.subject)
        yield from _ADD.execute(NOW, *named, record.before, record.after)


def _record(row: Row) -> AuditRecord:
    """The states before and after are JSON."""
    states = {
        name: None if row[name] is None else msgspec.json.decode(row[name])
        for name in ("before", "after")
    }
    return AuditRecord(**{**row, **states})
