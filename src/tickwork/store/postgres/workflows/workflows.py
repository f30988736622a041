"""Runs of workflows on PostgreSQL: what many runs record in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tickwork.core.limits import is_own_claim
from tickwork.core.model import Claim, Scope
from tickwork.core.workflow.model import Checkpoint, NewRun, RunEnd, RunHistory
from tickwork.store.ids import Moment
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.workflows import Workflows
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.workflows.checkpoints import (
    claim_columns,
    end_runs,
    record,
    record_one,
)
from tickwork.store.shared.effects import Fenced
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.steps import Port


class _FencedRun(NamedTuple):
    claim: Claim
    run: NewRun


class PostgresWorkflows(Workflows):
    """Runs, their steps and events."""

    def __init__(self, port: Port, paths: HotPaths, database: Database, moment: Moment) -> None:
        super().__init__(port, paths)
        self._database, self._moment = database, moment
        self._checkpoints: Coalescer[Fenced[Checkpoint], int | None] = Coalescer(
            self._record, flights_max=2
        )
        self._ends: Coalescer[Fenced[RunEnd], bool] = Coalescer(self._end)
        self._adopted: Coalescer[_FencedRun, bool] = Coalescer(self._adopt)

    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        if not is_own_claim(scope, claim):
            return None
        is_adopted = await self._adopted.submit(_FencedRun(claim, run))
        return await self.history(Scope(claim.tenant), run.id) if is_adopted else None

    async def checkpoint(self, scope: Scope, claim: Claim, checkpoint: Checkpoint) -> int | None:
        if not is_own_claim(scope, claim):
            return None
        return await self._checkpoints.submit(Fenced(claim, checkpoint))

    async def end(self, scope: Scope, claim: Claim, end: RunEnd) -> bool:
        if not is_own_claim(scope, claim):
            return False
        return await self._ends.submit(Fenced(claim, end))

    async def drain(self) -> None:
        """Waits until no checkpoint is being stored."""
        await self._checkpoints.drain()
        await self._ends.drain()
        await self._adopted.drain()

    async def _record(self, fenced: Sequence[Fenced[Checkpoint]]) -> list[int | None]:
        if len(fenced) == 1 and fenced[0].effect.event is None:
            return [await self._database.run(lambda connection: record_one(connection, fenced[0]))]
        recorded = await self._database.run(lambda connection: record(connection, fenced))
        found = (recorded.get(index) for index in range(len(fenced)))
        return [None if recorded_step is None else recorded_step.signals for recorded_step in found]

    async def _end(self, ends: Sequence[Fenced[RunEnd]]) -> list[bool]:
        ended = await self._database.run(
            lambda connection: end_runs(connection, self._moment, ends)
        )
        return [index in ended for index in range(len(ends))]

    async def _adopt(self, adopted: Sequence[_FencedRun]) -> list[bool]:
        runs = [adoption.run for adoption in adopted]
        columns = [
            [getattr(run, name) for run in runs]
            for name in (
                *("id", "uid", "workflow", "version", "correlation_id"),
                *("params", "parent_id", "parent_step"),
            )
        ]
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.adopt_runs,
                self._moment(),
                *claim_columns([adoption.claim for adoption in adopted]),
                *columns,
            )
        )
        valid = {row["number"] - 1 for row in found}
        return [index in valid for index in range(len(adopted))]
