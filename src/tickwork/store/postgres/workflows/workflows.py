"""Runs of workflows on PostgreSQL: the contract's methods.

Every transaction that changes a run from outside locks its message first, and then the run. A
worker's records lock the message, too, so both come one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
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
from tickwork.store.ids import Moment, new_id, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange, change_backlog
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.workflows.checkpoints import (
    Fenced,
    FencedEnd,
    claim_columns,
    end_runs,
    record,
    record_one,
)
from tickwork.store.postgres.workflows.histories import Asked, Histories, find_runs
from tickwork.store.shared.columns import read_run, run_values
from tickwork.store.shared.group_commit import Coalescer

LOOKS_MAX = 3
"""Maximum number of searches for the message of a run, which a restart may replace."""


class _FencedRun(NamedTuple):
    claim: Claim
    run: NewRun


class _Changed(NamedTuple):
    """A change that was carried out, and what to do after the commit."""

    run: Run
    sent: Sequence[Group] = ()
    queues_to_wake: frozenset[UUID] = frozenset()


class PostgresWorkflows:
    """Runs, their steps and events."""

    def __init__(self, database: Database, moment: Moment, sender: Sender) -> None:
        self._database = database
        self._moment = moment
        self._sender = sender
        self._checkpoints: Coalescer[Fenced, int | None] = Coalescer(self._record, flights_max=2)
        self._ends: Coalescer[FencedEnd, bool] = Coalescer(self._end)
        self._adopted: Coalescer[_FencedRun, bool] = Coalescer(self._adopt)
        self._histories = Histories(database, moment)

    async def start(
        self, scope: Scope, runs: Sequence[NewRun], on_conflict: ConflictPolicy
    ) -> tuple[Run, ...]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            raise NotFound("tenant", tenant)
        queues = {
            queue: await self._sender.group(scope, queue, ())
            for queue in {runs_queue(run.workflow, run.version) for run in runs}
        }

        async def work(connection: Connection) -> tuple[list[Run], list[Group], set[UUID]]:
            inserted = await connection.fetch(
                SQL.create_runs, self._moment(), tenant, *_new_columns(runs)
            )
            new = {row["id"] for row in inserted}
            sent, woken = list[Group](), set[UUID]()
            known = [run for run in runs if run.id not in new]
            existing = await self._find(connection, tenant, known)
            for run in sorted(runs, key=lambda run: run.id):
                if run.id in new:
                    if run.event is not None:
                        await self._add_event(connection, run.uid, 1, run)
                    continue
                found = existing.get(run.id)
                if found is None or is_repeat(found, run):
                    continue
                check_conflict(found, run, on_conflict)
                if on_conflict is ConflictPolicy.RESTART_IF_FINISHED:
                    changed = await self._change_in(
                        connection, tenant, run.id, restart(run.message_id, new=run)
                    )
                    sent += changed.sent
                    woken |= changed.queues_to_wake
            groups = [
                structs.replace(
                    group,
                    messages=tuple(
                        run_message(run)
                        for run in runs
                        if runs_queue(run.workflow, run.version) == queue and run.id in new
                    ),
                )
                for queue, group in queues.items()
            ]
            if groups := [group for group in groups if group.messages]:
                sent += await self._send(connection, groups)
            all_of = await self._find(connection, tenant, runs)
            return [all_of[run.id] for run in runs], sent, woken

        stored, sent, woken = await self._database.transact(work)
        self._sender.after_commit(sent)
        self._sender.wake(woken)
        return tuple(stored)

    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        if not is_own_claim(scope, claim):
            return None
        is_adopted = await self._adopted.submit(_FencedRun(claim, run))
        return await self.history(Scope(claim.tenant), run.id) if is_adopted else None

    async def get(self, scope: Scope, run_id: str) -> Run:
        return (await self._read(scope, run_id)).run

    async def history(self, scope: Scope, run_id: str, *, with_steps: bool = True) -> RunHistory:
        return await self._read(scope, run_id, with_steps=with_steps, with_events=True)

    async def page(self, scope: Scope, run_id: str, window: RunWindow) -> RunPage:
        tenant, found = own_tenant(scope), None
        if is_name(tenant) and is_name(run_id):
            found = await self._histories.page(tenant, run_id, window)
        if found is None:
            raise NotFound("run", run_id)
        return found

    async def _read(self, scope: Scope, run_id: str, **what: bool) -> RunHistory:
        tenant, found = own_tenant(scope), None
        if is_name(tenant) and is_name(run_id):
            found = await self._histories.read(Asked(tenant, run_id, **what))
        if found is None:
            raise NotFound("run", run_id)
        return found

    async def results(self, scope: Scope, uids: Sequence[UUID]) -> tuple[RunResult, ...]:
        tenant = own_tenant(scope)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.run_results, uids, tenant)
        )
        return tuple(RunResult(**{**row, "status": RunStatus(row["status"])}) for row in found)

    async def checkpoint(self, scope: Scope, claim: Claim, checkpoint: Checkpoint) -> int | None:
        if not is_own_claim(scope, claim):
            return None
        return await self._checkpoints.submit(Fenced(claim, checkpoint))

    async def end(self, scope: Scope, claim: Claim, end: RunEnd) -> bool:
        if not is_own_claim(scope, claim):
            return False
        return await self._ends.submit(FencedEnd(claim, end))

    async def assign_version(self, scope: Scope, claim: Claim, uid: UUID, version: str) -> bool:
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        found = await self._database.run(
            lambda connection: connection.fetchval(SQL.assign_version, *fence, uid, version)
        )
        return found is not None

    async def diverge(self, scope: Scope, claim: Claim, uid: UUID, divergence: str | None) -> bool:
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        found = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.diverge_run, self._moment(), *fence, uid, divergence
            )
        )
        return found is not None

    async def route(self, scope: Scope, claim: Claim, queue: str) -> bool:
        if not is_own_claim(scope, claim):
            return False
        queue_id = (await self._sender.group(Scope(claim.tenant), queue, ())).queue_id
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        found = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.route_run_message, self._moment(), *fence, queue_id
            )
        )
        self._sender.wake({queue_id})
        return found is not None

    async def claimed(self, scope: Scope, runs: Sequence[Run]) -> dict[UUID, UUID]:
        tenant = own_tenant(scope)
        by_message = {run.message_id: run.uid for run in runs}
        rows = await self._database.run(
            lambda connection: connection.fetch(SQL.run_holders, tenant, [*by_message])
        )
        return {by_message[row["id"]]: row["holder"] for row in rows}

    async def change(self, scope: Scope, run_id: str, decide: Decision) -> Run:
        tenant = own_tenant(scope)
        if not is_name(tenant) or not is_name(run_id):
            raise NotFound("run", run_id)

        async def work(connection: Connection) -> _Changed:
            return await self._change_in(connection, tenant, run_id, decide)

        changed = await self._database.change(work, repeatable=False)
        self._sender.after_commit(changed.sent)
        self._sender.wake(changed.queues_to_wake)
        return changed.run

    async def drain(self) -> None:
        """Waits until no checkpoint is being stored."""
        await self._checkpoints.drain()
        await self._ends.drain()
        await self._adopted.drain()

    async def _record(self, fenced: Sequence[Fenced]) -> list[int | None]:
        if len(fenced) == 1 and fenced[0].checkpoint.event is None:
            return [await self._database.run(lambda connection: record_one(connection, fenced[0]))]
        recorded = await self._database.run(lambda connection: record(connection, fenced))
        found = (recorded.get(index) for index in range(len(fenced)))
        return [None if recorded_step is None else recorded_step.signals for recorded_step in found]

    async def _end(self, ends: Sequence[FencedEnd]) -> list[bool]:
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

    async def _find(
        self, connection: Connection, tenant: str, runs: Sequence[NewRun]
    ) -> dict[str, Run]:
        """The stored runs with the ids of these."""
        if not runs:
            return {}
        found = await find_runs(connection, self._moment, {(tenant, run.id) for run in runs})
        return {run_id: value.run for (_, run_id), value in found.items()}

    async def _change_in(
        self, connection: Connection, tenant: str, run_id: str, decide: Decision
    ) -> _Changed:
        run, queue_id = await self._lock(connection, tenant, run_id)
        now = self._moment() or await connection.fetchval(SQL.read_clock)
        change = decide(run, queue_id is not None, now)
        if change.undone is not None:
            (found,) = await connection.fetch(SQL.count_undone_steps, run.uid)
            check_undone(change, tuple(found))
        signals = run.signals + 1
        if change.event and not await self._add_event(connection, run.uid, signals, change):
            return _Changed(run)  # It has an event with this id.
        changed = structs.replace(change.run, signals=signals)
        await connection.execute(SQL.update_run, tenant, run_id, *run_values(changed))
        if change.steps_from is not None:
            await connection.execute(SQL.forget_steps, run.uid, change.steps_from)
        if change.forgotten:
            await connection.execute(SQL.forget_undone_steps, run.uid, change.forgotten)
        if change.accepts:
            accepted = await connection.fetchval(SQL.accept_steps, run.uid)
            changed = structs.replace(changed, accepted=accepted)
        for key in change.retried:
            await connection.execute(SQL.retry_step, run.uid, key, now)
        if change.drops_events:
            await connection.execute(SQL.forget_events, run.uid)
        sent: Sequence[Group] = ()
        if change.sends:
            queue = runs_queue(changed.workflow, changed.version)
            group = await self._sender.group(Scope(tenant), queue, [run_message(changed)])
            sent = await self._send(connection, [group])
        statement = SQL.take_run_message if change.takes else SQL.wake_run_message
        if queue_id is not None and (change.takes or change.wakes):
            await connection.execute(statement, self._moment(), tenant, run.message_id)
            return _Changed(changed, sent, frozenset({queue_id}))
        return _Changed(changed, sent)

    async def _lock(
        self, connection: Connection, tenant: str, run_id: str
    ) -> tuple[Run, UUID | None]:
        """Locks a run after its message; the queue of the message is None if it is gone."""
        for _ in range(LOOKS_MAX):
            row = await connection.fetchrow(SQL.get_run, tenant, run_id)
            if row is None:
                break
            seen = row["message_id"]
            queue_id = await connection.fetchval(SQL.lock_run_message, tenant, seen)
            row = await connection.fetchrow(SQL.lock_run, tenant, run_id)
            if row is not None and row["message_id"] == seen:
                return read_run(row), queue_id
        raise NotFound("run", run_id)

    async def _add_event(
        self, connection: Connection, uid: UUID, number: int, of: NewRun | RunChange
    ) -> bool:
        event = of.event
        assert event is not None
        if await connection.fetchval(SQL.count_waiting_events, uid) >= EVENTS_MAX:
            raise TooMany(f"{EVENTS_MAX} events wait for the run already")
        values = (uid, number, event.type, event.id, event.data)
        return await connection.fetchval(SQL.add_run_event, self._moment(), *values) is not None

    async def _send(self, connection: Connection, groups: Sequence[Group]) -> list[Group]:
        backlog = BacklogChange()
        stored = await self._sender.store(connection, groups, new_id(), backlog)
        await change_backlog(connection, backlog)
        return stored

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
        asked = (
            tenant,
            selection.workflow,
            selection.status,
            *(before or (None, None)),
            limit,
        )
        fetch, parent_id = self._database.fetch_with_custom_plan, selection.parent_id
        if parent_id is None:
            found = await fetch(SQL.list_runs, *asked, selection.is_diverged)
            return tuple(map(read_run, found))
        if not is_name(parent_id):
            return ()
        found = await fetch(SQL.list_child_runs, *asked, parent_id, selection.is_diverged)
        return tuple(map(read_run, found))

    async def troubled(self, scope: Scope, *, since: datetime, limit: int) -> tuple[RunFacts, ...]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        asked = (tenant, since, limit)
        found = await self._database.fetch_with_custom_plan(SQL.troubled_runs, *asked)
        return tuple(RunFacts(*row) for row in found)


def _new_columns(runs: Sequence[NewRun]) -> tuple[list[Any], ...]:
    return (
        [run.id for run in runs],
        [run.uid for run in runs],
        [run.message_id for run in runs],
        [run.workflow for run in runs],
        [run.version for run in runs],
        [0 if run.event is None else 1 for run in runs],
        [run.correlation_id for run in runs],
        [run.deadline_seconds for run in runs],
        [run.params for run in runs],
    )
