"""Operations. A batch and the progress it makes are written in one transaction, fenced by the
version of the operation: with another one the whole transaction is rolled back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.message.dead_letter import Pace, Replayed, Selection
from tickwork.core.message.message_list import LAST_ID
from tickwork.core.model import Scope
from tickwork.core.operation import LEASE_SECONDS, OperationTaken, StoredOperation
from tickwork.errors import Conflict, NotFound
from tickwork.store.nouns.dead_letters import discard_steps, replay_steps
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.joined_writes import joined
from tickwork.store.steps import (
    NOW,
    Noun,
    Port,
    Row,
    Statement,
    Steps,
    changes,
    changes_once,
    read_clock,
    reads,
    writes,
)

_ADD = Statement("add_operation")
_GET = Statement("get_operation", StoredOperation)
_LIST = Statement("list_operations", StoredOperation)
_LIST_OF_TENANT = Statement("list_tenant_operations", StoredOperation)
_NEXT_DUE = Statement("next_operation_due", due_at=Kind.TIME)
_CLAIM = Statement("claim_operation", StoredOperation)
_SAVE = Statement("save_operation")
_STOP = Statement("stop_operation", StoredOperation)
_GO_ON = Statement("go_on_with_operation", StoredOperation)

Decided = Callable[[int], StoredOperation]
"""The operation after a batch that did so many things."""


class Operations(Noun):
    """Long work on many rows."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    @changes
    def start(self, scope: Scope, operation: StoredOperation) -> Steps[StoredOperation]:
        new = structs.replace(operation, tenant=scope.tenant)
        values = [getattr(new, name) for name in StoredOperation.__struct_fields__]
        yield from _ADD.execute(*values)
        return new

    @reads
    def get(self, scope: Scope, operation_id: UUID) -> Steps[StoredOperation]:
        return (yield from _get(scope, operation_id))

    @reads
    def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None, is_open: bool = False
    ) -> Steps[tuple[StoredOperation, ...]]:
        check_limit(limit)
        values = (before or LAST_ID, is_open, limit)
        if scope.tenant is None:
            rows = yield from _LIST.fetch(*values)
        elif is_name(scope.tenant):
            rows = yield from _LIST_OF_TENANT.fetch(scope.tenant, *values)
        else:
            return ()
        return tuple(map(_read, rows))

    @reads
    def next_due_seconds(self, scope: Scope) -> Steps[float | None]:
        check_system(scope)
        row = yield from _NEXT_DUE.fetch_row()
        if row is None:
            return None
        now = yield from read_clock()
        due_at: datetime = row["due_at"]
        return max(0.0, (due_at - now).total_seconds())

    # Not repeated: after a lost answer the operation is due again when its lease ends.
    @writes(repeatable=False)
    def claim(
        self, scope: Scope, operation_id: UUID | None = None
    ) -> Steps[StoredOperation | None]:
        if operation_id is None:
            check_system(scope)
        row = yield from _CLAIM.fetch_row(NOW, LEASE_SECONDS, scope.tenant, operation_id)
        return None if row is None else _read(row)

    @writes(repeatable=False)
    def save(self, scope: Scope, operation: StoredOperation) -> Steps[StoredOperation]:
        return (yield from _save(scope, operation))

    def joined(self, scope: Scope, operation: StoredOperation) -> AbstractAsyncContextManager[None]:
        async def save_alone() -> None:
            await self.save(scope, operation)

        return joined(self._port.inside(lambda: _save_only(scope, operation)), save_alone)

    @changes
    def stop(self, scope: Scope, operation_id: UUID, by: str | None) -> Steps[StoredOperation]:
        row = yield from _STOP.fetch_row(NOW, scope.tenant, operation_id, by)
        if row is None:
            known = yield from _get(scope, operation_id)
            raise _refused(known, "is finished already")
        return _read(row)

    @changes
    def go_on(self, scope: Scope, operation_id: UUID) -> Steps[StoredOperation]:
        row = yield from _GO_ON.fetch_row(NOW, scope.tenant, operation_id)
        if row is None:
            known = yield from _get(scope, operation_id)
            raise _refused(known, "does not wait for anybody")
        return _read(row)

    # Not repeated: a second run would take other dead letters.
    @changes_once
    def replay(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        pace: Pace,
        after: Callable[[Sequence[Replayed]], StoredOperation],
    ) -> Steps[StoredOperation]:
        replayed = yield from replay_steps(self._paths, scope, queue, selection, pace)
        return (yield from _save(scope, after(replayed)))

    @changes_once
    def discard(
        self, scope: Scope, queue: str, selection: Selection, after: Decided
    ) -> Steps[StoredOperation]:
        discarded = yield from discard_steps(self._paths, scope, queue, selection)
        return (yield from _save(scope, after(discarded)))


def _get(scope: Scope, operation_id: UUID) -> Steps[StoredOperation]:
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        row = yield from _GET.fetch_row(scope.tenant, operation_id)
    if row is None:
        raise NotFound("operation", operation_id)
    return _read(row)


def _save(scope: Scope, operation: StoredOperation) -> Steps[StoredOperation]:
    """Stores what a batch has changed. Raises `OperationTaken` if its version is another one."""
    row = yield from _SAVE.fetch_row(
        scope.tenant,
        operation.id,
        operation.version,
        operation.state,
        operation.done,
        operation.failed,
        operation.skipped,
        operation.position,
        operation.canaries,
        operation.paced_until,
        operation.due_at,
        operation.reason,
        operation.error,
        operation.finished_at,
    )
    if row is None:
        raise OperationTaken
    return structs.replace(operation, version=row["version"])


def _save_only(scope: Scope, operation: StoredOperation) -> Steps[None]:
    yield from _save(scope, operation)


def _read(row: Row) -> StoredOperation:
    # What an UPDATE of SQLite returns of a REAL column is a whole number if it can be one.
    rate, timeout = row["rate_per_second"], row["canary_timeout_seconds"]
    known = StoredOperation(**row)
    return structs.replace(
        known,
        rate_per_second=None if rate is None else float(rate),
        canary_timeout_seconds=float(timeout),
    )


def _refused(operation: StoredOperation, why: str) -> Conflict:
    shown = public_id(Prefix.OPERATION, operation.id)
    return Conflict(f"operation {shown} {why}: it is {operation.state}")
