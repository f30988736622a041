"""Operations on runs of workflows: restart, cancel, terminate. They begin with the newest run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.fields import Reader, choice_error
from tickwork.core.message.error_summary import summary
from tickwork.core.workflow.model import Doing, RunStatus
from tickwork.ops.context import Context
from tickwork.ops.operations.items import Canary, Item, OnItems, Which, read_limit
from tickwork.ops.workflow_views import DIVERGED
from tickwork.ops.workflows import cancel_run, list_runs, restart_run, terminate_run

_OPEN = (str(RunStatus.RUNNING), *map(str, Doing), DIVERGED)
_ENDED = tuple(str(status) for status in RunStatus if status.is_final)
_LAST_UID = UUID(int=2**128 - 1)
_POSITION = msgspec.json.Decoder(tuple[datetime, UUID])


class RunsSelection(Which, frozen=True, kw_only=True, omit_defaults=True):
    """The runs of a workflow, or of all, that have a status."""

    workflow: str | None = None
    status: str


class _OnRuns(OnItems):
    """What the kinds have in common."""

    selection = RunsSelection

    def __init__(
        self, verb: Callable[[Context, str], Awaitable[object]], statuses: Sequence[str], usual: str
    ) -> None:
        self._verb = verb
        self._statuses = statuses
        self._usual = usual

    def read(self, reader: Reader, until: datetime) -> RunsSelection:
        status = reader.value("status") if reader.has("status") else self._usual
        if (fault := choice_error(status, self._statuses)) is not None:
            reader.fault("status", fault)
        workflow = reader.text("workflow") if reader.has("workflow") else None
        limit = read_limit(reader)
        return RunsSelection(until=until, limit=limit, workflow=workflow, status=str(status))

    async def list(
        self, context: Context, which: RunsSelection, position: str | None, limit: int
    ) -> Sequence[Item]:
        before = (which.until, _LAST_UID) if position is None else _POSITION.decode(position)
        found = await list_runs(
            context, workflow=which.workflow, status=which.status, limit=limit, before=before
        )
        return [
            Item(
                run.id,
                run.uid,
                msgspec.json.encode((run.created_at, run.uid)).decode(),
                is_new=max(run.finished_at or run.created_at, run.diverged_at or run.created_at)
                > which.until,
            )
            for run in found
        ]

    async def change(self, context: Context, item: Item) -> None:
        await self._verb(context, item.id)

    async def canaries(self, context: Context, uids: Sequence[UUID]) -> Sequence[Canary]:
        found = await context.store.workflows.results(context.scope, uids)
        wanted = {RunStatus.COMPLETED} if self._verb is _restart else {*RunStatus}
        return [
            Canary(
                is_over=run.status.is_final,
                is_bad=run.status.is_final and run.status not in wanted,
                error=summary(f"run {run.id} {run.status}: {run.error or 'it has no error'}"),
            )
            for run in found
        ]


async def _restart(context: Context, run_id: str) -> Any:
    return await restart_run(context, run_id)


async def _cancel(context: Context, run_id: str) -> Any:
    return await cancel_run(context, run_id)


async def _terminate(context: Context, run_id: str) -> Any:
    return await terminate_run(context, run_id)


RESTART = _OnRuns(_restart, (*_ENDED, DIVERGED), str(RunStatus.FAILED))
CANCEL = _OnRuns(_cancel, _OPEN, str(RunStatus.RUNNING))
TERMINATE = _OnRuns(_terminate, _OPEN, str(RunStatus.RUNNING))
