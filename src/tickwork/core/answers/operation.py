"""Operations as a user sees them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tickwork.core.answers.ids import Id, Prefix, fields_as_in
from tickwork.core.operation import (
    OperationKind,
    OperationReason,
    OperationState,
    StoredOperation,
)


class OperationView(Struct, frozen=True, kw_only=True):
    """Work on many things that nodes carry on in batches, and how far it is.

    `total` is how many things it selected at its start. It is done with `done + failed + skipped`
    of them; what was skipped had changed meanwhile, so that there was nothing to do.
    """

    id: Id
    kind: OperationKind
    state: OperationState
    reason: Annotated[OperationReason | None, Meta(description="Why it was stopped.")]
    error: Annotated[
        str | None, Meta(description="Why it failed, or the error of one thing that did.")
    ]
    selection: Annotated[Any, Meta(description="What it acts on, frozen at its start.")]
    total: int
    is_estimate: bool
    done: int
    failed: int
    skipped: int
    canary: int
    canary_timeout_seconds: float
    rate_per_second: float | None
    started_by: str | None
    started_at: datetime
    stopped_by: str | None
    finished_at: datetime | None
    tenant: str | None

    @classmethod
    def of(cls, operation: StoredOperation) -> OperationView:
        """The answer for a stored operation."""
        fields = fields_as_in(operation, cls)
        fields |= {
            "kind": OperationKind(operation.kind),
            "state": OperationState(operation.state),
            "reason": None if operation.reason is None else OperationReason(operation.reason),
            "selection": msgspec.json.decode(operation.selection),
        }
        return cls(id=Id.of(Prefix.OPERATION, operation.id), **fields)
