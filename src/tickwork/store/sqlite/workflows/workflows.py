"""Runs of workflows on SQLite: what they record under their claims."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from tickwork.core.limits import is_own_claim
from tickwork.core.model import Claim, Scope
from tickwork.core.workflow.model import Checkpoint, NewRun, RunEnd, RunHistory, RunStatus
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.run_histories import AskedRun, read_histories
from tickwork.store.nouns.workflows import Workflows
from tickwork.store.shared.effects import Fenced
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.workflows import checkpoints
from tickwork.store.steps import NOW, Port, Statement, Steps, writes

_CLAIMED = Statement("claimed_rowid")
_CREATE = Statement("create_run")


class SqliteWorkflows(Workflows):
    """Runs, their steps and events."""

    def __init__(self, port: Port, paths: HotPaths, database: Database) -> None:
        super().__init__(port, paths)
        self._database = database
        self._checkpoints: Coalescer[Fenced[Checkpoint], int | None] = Coalescer(
            self._record, flights_max=2
        )

    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        return await self._adopt(claim, run) if is_own_claim(scope, claim) else None

    async def checkpoint(self, scope: Scope, claim: Claim, checkpoint: Checkpoint) -> int | None:
        if not is_own_claim(scope, claim):
            return None
        return await self._checkpoints.submit(Fenced(claim, checkpoint))

    async def end(self, scope: Scope, claim: Claim, end: RunEnd) -> bool:
        if not is_own_claim(scope, claim):
            return False

        def work(transaction: Transaction) -> bool:
            if checkpoints.claimed(transaction, claim, end.uid) is None:
                return False
            finished_at = None if end.status is RunStatus.RUNNING else transaction.now
            values = (end.result, end.error, end.failed_step, end.params, finished_at)
            transaction.execute(SQL.end_run, (end.uid.bytes, str(end.status), *values))
            if end.params is not None:
                transaction.execute(SQL.forget_steps, (end.uid.bytes, 0))
                transaction.execute(SQL.forget_received_events, (end.uid.bytes, transaction.now))
            return True

        return await self._database.write(work)

    @writes(repeatable=True)
    def _adopt(self, claim: Claim, run: NewRun) -> Steps[RunHistory | None]:
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        if (yield from _CLAIMED.fetch_row(*fence)) is None:
            return None
        yield from _CREATE.execute(
            *(NOW, claim.tenant, claim.id, run.id, run.uid, run.workflow, run.version),
            *(run.correlation_id, run.params, run.parent_id, run.parent_step),
        )
        (history,) = yield from read_histories([AskedRun(claim.tenant, run.id, True, True)])
        return history

    def _record(self, fenced: Sequence[Fenced[Checkpoint]]) -> Awaitable[list[int | None]]:
        def work(transaction: Transaction) -> list[int | None]:
            answers = [checkpoints.record(transaction, given) for given in fenced]
            return [None if recorded is None else recorded.signals for recorded in answers]

        return self._database.write(work, rows=len(fenced))
