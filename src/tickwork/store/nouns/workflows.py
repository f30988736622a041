"""Runs of workflows. Recording and ending them under a claim is in each store.

Every transaction that changes a run from outside locks its message first, and then the run. A
worker's records lock the message, too, so both come one after the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.health_facts import RunFacts
from tickwork.core.limits import check_limit, is_name, is_own_claim
from tickwork.core.model import Claim, NewMessage, Scope, StoredQueue
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
    RunActivity,
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
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.run_histories import (
    AskedRun,
    find_run,
    read_activity,
    read_histories,
    read_page,
    read_run,
)
from tickwork.store.shared.columns import Kind, run_values
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.steps import (
    NOW,
    Noun,
    Port,
    Statement,
    Steps,
    Wake,
    changes_once,
    page,
    read_clock,
    reads,
    searches,
    writes,
)

LOOKS_MAX = 3
"""Maximum number of searches for the message of a run, which a restart may replace."""

RUNS_READ_MAX = 100
"""Maximum number of runs that are read at once. While one group is replayed, the next is read."""

_CREATE = Statement("create_runs")
_LIST = Statement("list_runs", Run)
_LIST_CHILDREN = Statement("list_child_runs", Run)
_TROUBLED = Statement("troubled_runs", RunFacts)
_RESULTS = Statement("run_results", RunResult)
_ACTIVITIES = Statement("run_activities", uid=Kind.ID, holder=Kind.ID)
_ASSIGN_VERSION = Statement("assign_version", uid=Kind.ID)
_DIVERGE = Statement("diverge_run", uid=Kind.ID)
_ROUTE = Statement("route_run_message", id=Kind.ID)
_LOCK = Statement("lock_run", Run)
_LOCK_MESSAGE = Statement("lock_run_message", queue_id=Kind.ID)
_UPDATE = Statement("update_run")
_COUNT_UNDONE = Statement("count_undone_steps")
_FORGET_STEPS = Statement("forget_steps")
_FORGET_UNDONE = Statement("forget_undone_steps")
_ACCEPT_STEPS = Statement("accept_steps")
_RETRY_STEP = Statement("retry_step")
_FREE_STEPS = Statement("free_steps")
_FORGET_EVENTS = Statement("forget_events")
_COUNT_WAITING_EVENTS = Statement("count_waiting_events")
_ADD_EVENT = Statement("add_run_event")
_TAKE_MESSAGE = Statement("take_run_message")
_WAKE_MESSAGE = Statement("wake_run_message")


class Workflows(Noun, ABC):
    """Runs, their steps and events."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths
        self._histories: Coalescer[AskedRun, RunHistory | None] = Coalescer(
            self._read_histories, flights_max=2, rows_max=RUNS_READ_MAX
        )

    @writes(repeatable=True)
    def start(
        self, scope: Scope, runs: Sequence[NewRun], on_conflict: ConflictPolicy
    ) -> Steps[tuple[Run, ...]]:
        tenant = own_tenant(scope)
        if not is_name(tenant):
            raise NotFound("tenant", tenant)
        queues: dict[str, StoredQueue] = {}
        for name in {runs_queue(run.workflow, run.version) for run in runs}:
            queues[name] = yield from self._paths.queue(Scope(tenant), name)
        rows = yield from _CREATE.fetch_each([*map(_new_values, runs)], NOW, tenant)
        new = {row["id"] for row in rows}
        for run in sorted(runs, key=lambda run: run.id):
            if run.id not in new:
                yield from self._meet(tenant, run, on_conflict)
            elif run.event is not None:
                yield from _add_event(run.uid, 1, run)
        for name, queue in queues.items():
            messages = [
                run_message(run)
                for run in runs
                if run.id in new and runs_queue(run.workflow, run.version) == name
            ]
            if messages:
                yield from self._paths.send(queue, {tenant: messages})
        histories = yield from read_histories([AskedRun(tenant, run.id) for run in runs])
        return tuple(history.run for history in histories if history is not None)

    async def get(self, scope: Scope, run_id: str) -> Run:
        return (await self._read(scope, run_id)).run

    async def history(self, scope: Scope, run_id: str, *, with_steps: bool = True) -> RunHistory:
        return await self._read(scope, run_id, with_steps=with_steps, with_events=True)

    @reads
    def page(self, scope: Scope, run_id: str, window: RunWindow) -> Steps[RunPage]:
        tenant, page = own_tenant(scope), None
        if is_name(tenant) and is_name(run_id):
            page = yield from read_page(tenant, run_id, window)
        if page is None:
            raise NotFound("run", run_id)
        return page

    @reads
    def results(self, scope: Scope, uids: Sequence[UUID]) -> Steps[tuple[RunResult, ...]]:
        rows = yield from _RESULTS.fetch_each([(uid,) for uid in uids], own_tenant(scope))
        return tuple(RunResult(**{**row, "status": RunStatus(row["status"])}) for row in rows)

    @searches
    def list(
        self,
        scope: Scope,
        selection: RunSelection,
        limit: int,
        *,
        before: tuple[datetime, UUID] | None = None,
    ) -> Steps[tuple[Run, ...]]:
        check_limit(limit)
        tenant, parent_id = own_tenant(scope), selection.parent_id
        names = (tenant, selection.workflow or tenant, tenant if parent_id is None else parent_id)
        if not all(map(is_name, names)):
            return ()
        values = (
            *(tenant, selection.workflow, selection.status, *(before or (None, None)), limit),
            *(() if parent_id is None else (parent_id,)),
            *(selection.is_diverged, selection.doing, NOW),
        )
        statement = _LIST if parent_id is None else _LIST_CHILDREN
        return tuple(map(read_run, (yield from statement.fetch(*values))))

    @searches
    def troubled(self, scope: Scope, *, since: datetime, limit: int) -> Steps[tuple[RunFacts, ...]]:
        return (yield from page(_TROUBLED, lambda row: RunFacts(**row), scope, since, limit=limit))

    @writes(repeatable=True, is_single=True)
    def assign_version(self, scope: Scope, claim: Claim, uid: UUID, version: str) -> Steps[bool]:
        if not is_own_claim(scope, claim):
            return False
        return (yield from _ASSIGN_VERSION.fetch_row(*_fence(claim), uid, version)) is not None

    @writes(repeatable=True)
    def diverge(
        self,
        scope: Scope,
        claim: Claim,
        uid: UUID,
        divergence: str | None,
        event: NewMessage | None = None,
    ) -> Steps[bool]:
        if not is_own_claim(scope, claim):
            return False
        if (yield from _DIVERGE.fetch_row(NOW, *_fence(claim), uid, divergence)) is None:
            return False
        if event is not None:
            yield from self._paths.publish_events({claim.tenant: [event]})
        return True

    @writes(repeatable=True)
    def route(self, scope: Scope, claim: Claim, queue: str) -> Steps[bool]:
        if not is_own_claim(scope, claim):
            return False
        queue_id = (yield from self._paths.queue(Scope(claim.tenant), queue)).id
        row = yield from _ROUTE.fetch_row(NOW, *_fence(claim), queue_id)
        yield Wake(frozenset({queue_id}))
        return row is not None

    @reads
    def activities(self, scope: Scope, uids: Sequence[UUID]) -> Steps[dict[UUID, RunActivity]]:
        asked = [(uid,) for uid in uids]
        rows = yield from _ACTIVITIES.fetch_each(asked, NOW, own_tenant(scope))
        return {row["uid"]: read_activity(row) for row in rows}

    @changes_once
    def change(self, scope: Scope, run_id: str, decide: Decision) -> Steps[Run]:
        tenant = own_tenant(scope)
        if not is_name(tenant) or not is_name(run_id):
            raise NotFound("run", run_id)
        return (yield from self._change(tenant, run_id, decide))

    @abstractmethod
    async def adopt(self, scope: Scope, claim: Claim, run: NewRun) -> RunHistory | None:
        """As the contract says."""

    @abstractmethod
    async def checkpoint(self, scope: Scope, claim: Claim, checkpoint: Checkpoint) -> int | None:
        """As the contract says."""

    @abstractmethod
    async def end(self, scope: Scope, claim: Claim, end: RunEnd) -> bool:
        """As the contract says."""

    async def _read(self, scope: Scope, run_id: str, **what: bool) -> RunHistory:
        tenant, history = own_tenant(scope), None
        if is_name(tenant) and is_name(run_id):
            history = await self._histories.submit(AskedRun(tenant, run_id, **what))
        if history is None:
            raise NotFound("run", run_id)
        return history

    @reads
    def _read_histories(self, asked: Sequence[AskedRun]) -> Steps[Sequence[RunHistory | None]]:
        return (yield from read_histories(asked))

    def _meet(self, tenant: str, run: NewRun, on_conflict: ConflictPolicy) -> Steps[None]:
        """Decides about a run to start whose id exists."""
        existing = yield from find_run(tenant, run.id)
        if existing is None or is_repeat(existing, run):
            return
        check_conflict(existing, run, on_conflict)
        if on_conflict is ConflictPolicy.RESTART_IF_FINISHED:
            yield from self._change(tenant, run.id, restart(run.message_id, new=run))

    def _change(self, tenant: str, run_id: str, decide: Decision) -> Steps[Run]:
        run, queue_id = yield from _lock(tenant, run_id)
        now = yield from read_clock()
        change = decide(run, queue_id is not None, now)
        if change.undone is not None:
            counts = yield from _COUNT_UNDONE.fetch_row(run.uid)
            assert counts is not None
            check_undone(change, (counts["begun"], counts["done"]))
        signals = run.signals + 1
        if change.event is not None and not (yield from _add_event(run.uid, signals, change)):
            return run  # It has an event with this id.
        changed = structs.replace(change.run, signals=signals)
        yield from _UPDATE.execute(tenant, run_id, *run_values(changed))
        changed = yield from _change_record(changed, change, now)
        if change.sends:
            name = runs_queue(changed.workflow, changed.version)
            queue = yield from self._paths.queue(Scope(tenant), name)
            messages: dict[str, Sequence[NewMessage]] = {tenant: [run_message(changed)]}
            yield from self._paths.send(queue, messages)
        if queue_id is not None and (change.takes or change.wakes):
            statement = _TAKE_MESSAGE if change.takes else _WAKE_MESSAGE
            yield from statement.execute(NOW, tenant, run.message_id)
            yield Wake(frozenset({queue_id}))
        return changed


def _fence(claim: Claim) -> tuple[object, ...]:
    return claim.tenant, claim.id, claim.number, claim.holder


def _new_values(run: NewRun) -> tuple[object, ...]:
    return (
        run.id, run.uid, run.message_id, run.workflow, run.version, 0 if run.event is None else 1,
        run.correlation_id, run.deadline_seconds, run.params,
    )  # fmt: skip


def _lock(tenant: str, run_id: str) -> Steps[tuple[Run, UUID | None]]:
    """Locks a run after its message; the queue of the message is None if it is gone."""
    for _ in range(LOOKS_MAX):
        seen = yield from find_run(tenant, run_id)
        if seen is None:
            break
        queue_id = yield from _LOCK_MESSAGE.fetch_value(tenant, seen.message_id)
        row = yield from _LOCK.fetch_row(tenant, run_id)
        if row is not None and row["message_id"] == seen.message_id:
            return read_run(row), queue_id
    raise NotFound("run", run_id)


def _change_record(run: Run, change: RunChange, now: datetime) -> Steps[Run]:
    """Changes the steps and events of a run."""
    if change.steps_from is not None:
        yield from _FORGET_STEPS.execute(run.uid, change.steps_from)
    yield from _FORGET_UNDONE.fetch_each([(key,) for key in change.forgotten], run.uid)
    if change.accepts:
        accepted = yield from _ACCEPT_STEPS.fetch_value(run.uid)
        run = structs.replace(run, accepted=accepted)
    for key in change.retried:
        yield from _RETRY_STEP.execute(run.uid, key, now)
    yield from _FREE_STEPS.fetch_each([(key,) for key in change.freed], run.uid)
    if change.drops_events:
        yield from _FORGET_EVENTS.execute(run.uid)
    return run


def _add_event(uid: UUID, number: int, of: NewRun | RunChange) -> Steps[bool]:
    """Adds the event; False if the run has one with its id."""
    event = of.event
    assert event is not None
    if (yield from _COUNT_WAITING_EVENTS.fetch_value(uid)) >= EVENTS_MAX:
        raise TooMany(f"{EVENTS_MAX} events wait for the run already")
    values = (uid, number, event.type, event.id, event.data)
    return (yield from _ADD_EVENT.execute(NOW, *values)) == 1
