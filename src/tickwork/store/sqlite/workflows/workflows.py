"""Runs of workflows on SQLite: the contract's methods."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.health_facts import RunFacts
from tickwork.core.limits import check_limit, is_name, is_own_claim
from tickwork.core.model import Claim, Scope
from tickwork.core.workflow.control import (
    Decision,
    RunChange,
    check_conflict,
    check_undone,
    deadline_of,
    is_repeat,
    restart,
)
from tickwork.core.workflow.model import (
    EVENTS_MAX,
    Checkpoint,
    ConflictPolicy,
    NewRun,
    Run,
    RunEnd,
    RunHistory,
    RunPage,
    RunResult,
    RunSelection,
    RunStatus,
    RunWindow,
)
from tickwork.core.workflow.queue import run_message, runs_queue
from tickwork.errors import NotFound, TooMany
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import run_values
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.send import Parcel
from tickwork.store.sqlite.workflows import checkpoints
from tickwork.store.sqlite.workflows.checkpoints import Fenced
from tickwork.store.sqlite.workflows.histories import Asked, Histories, find_run, read_history


class SqliteWorkflows:
    """Runs, their steps and events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checkpoints: Coalescer[Fenced, int | None] = Coalescer(self._record, flights_max=2)
        self._histories = Histories(database)

    async def start(
        self, scope: Scope, runs: Sequence[NewRun], on_conflict: ConflictPolicy
    ) -> tuple[Run, ...]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            raise NotFound("tenant", tenant)

        def work(transaction: Transaction) -> tuple[Run, ...]:
            for run in runs:
                queue = runs_queue(run.workflow, run.version)
                parcel = Parcel(Scope(tenant), queue, [run_message(run)])
                parcel.find(transaction)
                if _create(transaction, tenant, run):
                    parcel.store(transaction)
                    continue
                existing = _get(transaction, tenant, run.id)
                if is_repeat(existing, run):
                    continue
                check_conflict(existing, run, on_conflict)
                if on_conflict is ConflictPolicy.RESTART_IF_FINISHED:
                    _change(transaction, tenant, run.id, restart(run.message_id, new=run))
            return tuple(_get(transaction, tenant, run.id) for run in runs)

        return await self._database.write(work, rows=2 * len(runs))

    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        if not is_own_claim(scope, claim):
            return None
        fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)

        def work(transaction: Transaction) -> RunHistory | None:
            if transaction.execute(SQL.claimed_rowid, fence).fetchone() is None:
                return None
            _create(transaction, claim.tenant, structs.replace(run, message_id=claim.id))
            return read_history(transaction, Asked(claim.tenant, run.id, True, True))

        return await self._database.write(work)

    async def get(self, scope: Scope, run_id: str) -> Run:
        return (await self._read(scope, run_id)).run

    async def history(self, scope: Scope, run_id: str, *, with_steps: bool = True) -> RunHistory:
        return await self._read(scope, run_id, with_steps=with_steps, with_events=True)

    async def page(self, scope: Scope, run_id: str, window: RunWindow) -> RunPage:
        found = await self._histories.page(own_tenant(scope), run_id, window)
        if found is None:
            raise NotFound("run", run_id)
        return found

    async def _read(self, scope: Scope, run_id: str, **what: bool) -> RunHistory:
        found = await self._histories.read(Asked(own_tenant(scope), run_id, **what))
        if found is None:
            raise NotFound("run", run_id)
        return found

    def _record(self, fenced: Sequence[Fenced]) -> asyncio.Future[list[int | None]]:
        def work(transaction: Transaction) -> list[int | None]:
            answers = [checkpoints.record(transaction, given) for given in fenced]
            return [None if recorded is None else recorded.signals for recorded in answers]

        return self._database.write(work, rows=len(fenced))

    async def troubled(self, scope: Scope, *, since: datetime, limit: int) -> tuple[RunFacts, ...]:
        check_limit(limit)
        values = (own_tenant(scope), checkpoints.stored(since), limit)
        if not is_name(values[0]):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.troubled_runs, values).fetchall()
        )
        return tuple(
            RunFacts(workflow, status, runs, from_microseconds(first))
            for workflow, status, runs, first in found
        )

    async def list(
        self,
        scope: Scope,
        selection: RunSelection,
        limit: int,
        *,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[Run, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant) or (selection.workflow and not is_name(selection.workflow)):
            return ()
        position = [
            None if value is None else checkpoints.stored(value) for value in before or [None] * 2
        ]
        asked = (
            tenant,
            selection.workflow,
            selection.status and str(selection.status),
            *position,
            limit,
        )
        statement, parent_id = SQL.list_runs, selection.parent_id
        if parent_id is not None:
            statement, asked = SQL.list_child_runs, (*asked, parent_id)
        asked = (*asked, selection.is_diverged)
        if parent_id is not None and not is_name(parent_id):
            return ()
        found = await self._database.read(
            lambda transaction: transaction.execute(statement, asked).fetchall()
        )
        return tuple(map(checkpoints.run, found))

    async def results(self, scope: Scope, uids: Sequence[UUID]) -> tuple[RunResult, ...]:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> tuple[RunResult, ...]:
            found = (
                transaction.execute(SQL.run_results, (uid.bytes, tenant)).fetchone() for uid in uids
            )
            return tuple(
                RunResult(UUID(bytes=row[0]), row[1], RunStatus(row[2]), *row[3:])
                for row in found
                if row is not None
            )

        return await self._database.read(work)

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

    async def assign_version(self, scope: Scope, claim: Claim, uid: UUID, version: str) -> bool:
        if not is_own_claim(scope, claim):
            return False

        def work(transaction: Transaction) -> bool:
            if checkpoints.claimed(transaction, claim, uid) is None:
                return False
            transaction.execute(SQL.assign_version, (uid.bytes, version))
            return True

        return await self._database.write(work)

    async def diverge(self, scope: Scope, claim: Claim, uid: UUID, divergence: str | None) -> bool:
        if not is_own_claim(scope, claim):
            return False

        def work(transaction: Transaction) -> bool:
            if checkpoints.claimed(transaction, claim, uid) is None:
                return False
            transaction.execute(SQL.diverge_run, (uid.bytes, divergence, transaction.now))
            return True

        return await self._database.write(work)

    async def route(self, scope: Scope, claim: Claim, queue: str) -> bool:
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)

        def work(transaction: Transaction) -> bool:
            found = transaction.execute(SQL.claimed_rowid, fence).fetchone()
            if found is None:
                return False
            queue_id = Parcel(Scope(claim.tenant), queue, []).find(transaction).id
            transaction.execute(SQL.route_run_message, (found[0], queue_id, transaction.now))
            transaction.queues_to_wake.add(UUID(bytes=queue_id))
            return True

        return await self._database.write(work)

    async def claimed(self, scope: Scope, runs: Sequence[Run]) -> dict[UUID, UUID]:
        tenant = own_tenant(scope)

        def work(transaction: Transaction) -> dict[UUID, UUID]:
            holders = {}
            for run in runs:
                named = (tenant, run.message_id.bytes)
                row = transaction.execute(SQL.run_holders, named).fetchone()
                if row is not None:
                    holders[run.uid] = UUID(bytes=row[0])
            return holders

        return await self._database.read(work)

    async def change(self, scope: Scope, run_id: str, decide: Decision) -> Run:
        tenant = own_tenant(scope)
        return await self._database.change(
            lambda transaction: _change(transaction, tenant, run_id, decide)
        )


def _get(transaction: Transaction, tenant: str, run_id: str) -> Run:
    run = find_run(transaction, tenant, run_id)
    if run is None:
        raise NotFound("run", run_id)
    return run


def _create(transaction: Transaction, tenant: str, new: NewRun) -> bool:
    """Stores a run; False if its id exists."""
    deadline = deadline_of(new, from_microseconds(transaction.now))
    values = (
        tenant, new.id, new.uid.bytes, new.message_id.bytes, new.workflow, new.version,
        0 if new.event is None else 1, new.correlation_id,
        None if deadline is None else checkpoints.stored(deadline), transaction.now, new.params,
        new.parent_id, new.parent_step,
    )  # fmt: skip
    if transaction.execute(SQL.create_run, values).rowcount == 0:
        return False
    if new.event is not None:
        _add_event(transaction, new.uid, 1, new)
    return True


def _change(transaction: Transaction, tenant: str, run_id: str, decide: Decision) -> Run:
    run = _get(transaction, tenant, run_id)
    named = (tenant, run.message_id.bytes)
    row = transaction.execute(SQL.run_message_queue, named).fetchone()
    change = decide(run, row is not None, from_microseconds(transaction.now))
    if change.undone is not None:
        found = transaction.execute(SQL.count_undone_steps, (run.uid.bytes,)).fetchone()
        check_undone(change, found)
    signals = run.signals + 1
    if change.event is not None and not _add_event(transaction, run.uid, signals, change):
        return run  # It has an event with this id.
    changed = structs.replace(change.run, signals=signals)
    values = (tenant, run_id, *map(checkpoints.stored, run_values(changed)))
    transaction.execute(SQL.update_run, values)
    if change.steps_from is not None:
        transaction.execute(SQL.forget_steps, (run.uid.bytes, change.steps_from))
    for key in change.forgotten:
        transaction.execute(SQL.forget_undone_steps, (run.uid.bytes, key))
    if change.accepts:
        (accepted,) = transaction.execute(SQL.accept_steps, (run.uid.bytes,)).fetchone()
        changed = structs.replace(changed, accepted=accepted)
    for key in change.retried:
        transaction.execute(SQL.retry_step, (run.uid.bytes, key, transaction.now))
    if change.drops_events:
        transaction.execute(SQL.forget_events, (run.uid.bytes,))
    if change.sends:
        queue = runs_queue(changed.workflow, changed.version)
        Parcel(Scope(tenant), queue, [run_message(changed)]).store(transaction)
    if row is not None and (change.takes or change.wakes):
        statement = SQL.take_run_message if change.takes else SQL.wake_run_message
        transaction.execute(statement, (transaction.now, *named))
        transaction.queues_to_wake.add(UUID(bytes=row[0]))
    return changed


def _add_event(transaction: Transaction, uid: UUID, number: int, of: NewRun | RunChange) -> bool:
    """Adds the event; False if the run has one with its id."""
    event = of.event
    assert event is not None
    (waiting,) = transaction.execute(SQL.count_waiting_events, (uid.bytes,)).fetchone()
    if waiting >= EVENTS_MAX:
        raise TooMany(f"{EVENTS_MAX} events wait for the run already")
    values = (transaction.now, uid.bytes, number, event.type, event.id, event.data)
    return transaction.execute(SQL.add_run_event, values).rowcount == 1
