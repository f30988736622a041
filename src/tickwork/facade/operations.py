"""`app.operations`: work on many things, which nodes carry on in batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tickwork.core.answers.ids import GivenId
from tickwork.core.answers.operation import OperationView
from tickwork.core.fields import read_id
from tickwork.core.operation import CANARY_TIMEOUT_SECONDS
from tickwork.engine.app_engine import AppEngine
from tickwork.ops.operations import verbs


class Operations:
    """Work on many things, which nodes carry on in batches: start, look, stop."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    async def start(
        self,
        kind: str,
        selection: Mapping[str, Any],
        *,
        canary: int = 0,
        canary_timeout_seconds: float = CANARY_TIMEOUT_SECONDS,
        rate_per_second: float | None = None,
    ) -> OperationView:
        """Starts work on everything that the selection matches now, and returns at once. Nodes
        carry it on, also if this process ends; what comes later is left alone.

        With `canary` that many go first, and the rest only if all of them succeed within
        `canary_timeout_seconds`. With `rate_per_second` that many are done in a second.
        """
        started = await verbs.begin(
            await self._engine.context(),
            kind,
            selection,
            canary=canary,
            canary_timeout_seconds=canary_timeout_seconds,
            rate_per_second=rate_per_second,
        )
        return OperationView.of(started)

    async def list(
        self, *, open_only: bool = False, limit: int = verbs.OPERATIONS_LISTED
    ) -> tuple[OperationView, ...]:
        """Operations, newest first; with `open_only` those that are not finished."""
        context = await self._engine.context()
        found = await verbs.list_operations(context, limit=limit, is_open=open_only)
        return tuple(map(OperationView.of, found))

    async def get(self, operation_id: GivenId) -> OperationView:
        """One operation: how far it is and what became of it. Raises `NotFound`."""
        context, wanted = await self._engine.context(), read_id("operation_id", operation_id)
        return OperationView.of(await verbs.get_operation(context, wanted))

    async def stop(self, operation_id: GivenId) -> OperationView:
        """Stops an operation: nothing more is done. Raises `Conflict` if it is finished."""
        context, wanted = await self._engine.context(), read_id("operation_id", operation_id)
        return OperationView.of(await verbs.stop_operation(context, wanted))
