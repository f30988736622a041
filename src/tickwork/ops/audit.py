"""The audit log: who changed what. Verbs record their changes right after they are stored.

`ACTOR` names who acts: the API sets it for each request, the command line for each command. What an
app's own code changes has no actor and is not recorded: its program is the record.
"""

from __future__ import annotations

from contextvars import ContextVar
from uuid import UUID

from tickwork.core.audit import AuditRecord, new_record
from tickwork.core.model import Scope
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

ACTOR: ContextVar[str | None] = ContextVar("audit_actor", default=None)
"""Who acts in this request or command; None for the code of an app."""

RECORDS_LISTED = 100
"""Number of records that a list returns unless the caller gives a limit."""


async def record_change(
    store: Store,
    scope: Scope,
    action: str,
    subject: object,
    *,
    before: object = None,
    after: object = None,
) -> None:
    """Records a change, if somebody acts."""
    actor = ACTOR.get()
    if actor is not None:
        record = new_record(new_id(), actor, action, str(subject), before, after)
        await store.audit.add(scope, record)


async def list_audit(
    store: Store, scope: Scope, *, limit: int = RECORDS_LISTED, before: UUID | None = None
) -> tuple[AuditRecord, ...]:
    """The changes in a tenant, newest first, before a given record."""
    return await store.audit.list(scope, limit, before=before)
