"""The audit log: who changed what. Verbs store the record in the transaction of their change.

`ACTOR` names who acts: the API sets it for each request, the command line for each command. What an
app's own code changes is recorded under the name of the app.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.audit import AuditRecord, NewAuditRecord, new_record
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

ACTOR: ContextVar[str | None] = ContextVar("audit_actor", default=None)
"""Who acts in this request or command; None for the code of an app."""

RECORDS_LISTED = 100
"""Number of records that a list returns unless the caller gives a limit."""


def act_as(store: Store, actor: str) -> None:
    """Names who changes what this store's process changes by itself."""
    store.audit.actor = actor


class RecordedChange:
    """What a record will say. Its states may be set until the change is stored; the record of a
    change that `is_void` is not stored."""

    def __init__(self, before: object, after: object) -> None:
        self.before = before
        self.after = after
        self.is_void = False


@asynccontextmanager
async def recorded(
    context: Context,
    action: str,
    subject: object,
    *,
    before: object = None,
    after: object = None,
    by: str | None = None,
) -> AsyncIterator[RecordedChange]:
    """Stores the change that is made inside together with a record of it, in one transaction. A
    refused change has no record. `by` names who acts if no request, command or app does."""
    change = RecordedChange(before, after)
    actor = ACTOR.get() or context.store.audit.actor or by
    if actor is None:
        yield change
        return
    record_id = new_id()

    def make() -> NewAuditRecord | None:
        if change.is_void:
            return None
        states = (change.before, change.after)
        return new_record(record_id, actor, action, _shown(action, subject), *states)

    async with context.store.audit.joined(context.scope, make):
        yield change


_PREFIXES = {
    "batch": Prefix.BATCH,
    "dead_letter": Prefix.DEAD_LETTER,
    "delivery": Prefix.DELIVERY,
    "firing": Prefix.FIRING,
    "message": Prefix.MESSAGE,
    "operation": Prefix.OPERATION,
    "schedule": Prefix.SCHEDULE,
}
"""The kind of a subject that is an id, by the first word of the action."""


def _shown(action: str, subject: object) -> str:
    if isinstance(subject, UUID):
        return public_id(_PREFIXES[action.partition(".")[0]], subject)
    return str(subject)


async def list_audit(
    context: Context, *, limit: int = RECORDS_LISTED, before: UUID | None = None
) -> tuple[AuditRecord, ...]:
    """The changes in a tenant, newest first, before a given record."""
    return await context.store.audit.list(context.scope, limit, before=before)
