"""Consumes the hidden queues of an app's workflows: each message is a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from tickwork.app.declarations import Consumer, hidden_consumer
from tickwork.app.message import ClaimedMessage, Message
from tickwork.app.workflows import WorkflowDeclaration
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.batch import BATCH_COMPLETED, CompletedBatch
from tickwork.core.message.outcome import Committed, Outcome, Snoozed, Succeeded
from tickwork.core.message.system_events import run_diverged_event
from tickwork.core.model import SYSTEM, Scope, slot_key
from tickwork.core.model import Message as Stored
from tickwork.core.schedule.result_message import is_result, result_run
from tickwork.core.workflow.children import ChildCall, child_uid, map_batch_id
from tickwork.core.workflow.control import (
    accept_divergence,
    can_revive,
    children_ended,
    revive,
    suspended,
)
from tickwork.core.workflow.model import NewRun, Run, RunEnd, RunHistory, RunStatus
from tickwork.core.workflow.queue import RUNS_SETTINGS, runs_queue
from tickwork.errors import Conflict, NotFound, StoreUnavailable
from tickwork.ops.schedules.lookup import ensure_hidden_queue
from tickwork.service.observe import Observer
from tickwork.service.worker.found_consumers import FindConsumers
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.workflow.execution import (
    AGAIN_SECONDS,
    DIVERGED_SECONDS_MAX,
    DIVERGED_SECONDS_MIN,
    Diverged,
    Execution,
)
from tickwork.workflow.maps import MapFunctions, child_declaration
from tickwork.workflow.replay import FoundMap, find_map
from tickwork.workflow.versions import VERSION_GRACE_SECONDS, OrphanedVersions, own_queues

IN_FLIGHT_MAX = 1_000
"""Number of runs of a workflow that a node executes at a time, unless it is set."""

PAUSED_SECONDS = 10.0
"""Seconds until an item of a map looks again whose run is paused or has diverged."""

_log = logging.getLogger("tickwork")

Versions = Mapping[str | None, WorkflowDeclaration]
"""The declared versions of a workflow; the last one is the newest."""


class Runner:
    """Executes the runs of one workflow."""

    def __init__(
        self,
        store: Store,
        versions: Versions,
        *,
        monotonic: Callable[[], float],
        observer: Observer | None = None,
        **options: Any,
    ) -> None:
        self._store, self._monotonic = store, monotonic
        self._versions, self._newest = versions, [*versions.values()][-1]
        self._observer, self._options = observer or Observer(), options
        self._functions = MapFunctions()

    async def handle(self, queue: str, message: Message[Any]) -> None:
        """Executes one run of a queue and settles its message."""
        assert isinstance(message, ClaimedMessage)
        message.settle(await self._execute(queue, message))

    async def _execute(self, queue: str, message: ClaimedMessage[Any]) -> Outcome:
        stored = message.stored
        try:
            if stored.type == BATCH_COMPLETED:
                return await self._wake_parent(stored)
            is_other = stored.schedule_id is not None or is_result(stored)
            if isinstance(message.body, dict) and not is_other:
                return await self._execute_child(queue, message)
            history = await self._history(stored, message.body)
            if history is None:
                return Snoozed(0.0)  # Another worker has it.
            run = history.run
            if not self._is_code_of(run, queue):
                return await self._route(stored, run)
            declared = self._declared(run.version)
            if run.version is None and declared.version is not None:
                assign = self._store.workflows.assign_version
                if not await assign(SYSTEM, stored.current_claim, run.uid, declared.version):
                    return Snoozed(0.0)
                known = structs.replace(run, version=declared.version)
                history = structs.replace(history, run=known)
        except (Conflict, NotFound):
            return Succeeded()  # The run was pruned or deleted.
        except StoreUnavailable:
            return Snoozed(AGAIN_SECONDS)
        return await self._run(message, history, declared)

    async def _run(
        self, message: ClaimedMessage[Any], history: RunHistory, declared: WorkflowDeclaration
    ) -> Outcome:
        try:
            return await self._execution(message, history, declared).execute()
        except Diverged as error:
            diverged = error
        run, scope = history.run, Scope(history.run.tenant)
        try:
            if not declared.accepts_divergence:
                return await self._diverged(message, run, diverged)
            accept = accept_divergence(str(diverged))
            run = await self._store.workflows.change(scope, run.id, accept)
            _log.warning("run %s goes on although it diverges: %s", run.id, diverged)
            accepted = await self._store.workflows.history(scope, run.id)
            return await self._execution(message, accepted, declared).execute()
        except Diverged as error:
            return await self._diverged(message, run, error)
        except (NotFound, StoreUnavailable):
            return Snoozed(AGAIN_SECONDS)

    def _execution(
        self, message: ClaimedMessage[Any], history: RunHistory, declared: WorkflowDeclaration
    ) -> Execution:
        return Execution(
            self._store,
            message,
            history,
            declared,
            monotonic=self._monotonic,
            on_map=self._functions.note,
            **self._options,
        )

    async def _diverged(
        self, message: ClaimedMessage[Any], run: Run, diverged: Diverged
    ) -> Outcome:
        """The run waits until a node has code that agrees, or somebody accepts this code."""
        claim, divergence = message.stored.current_claim, str(diverged)
        is_new = run.diverged_at is None
        if is_new or not str(run.divergence).startswith(diverged.difference):
            event = run_diverged_event(run, claim, divergence)
            if not await self._store.workflows.diverge(SYSTEM, claim, run.uid, divergence, event):
                return Snoozed(0.0)  # Another worker has it.
        if is_new:
            self._observer.run_diverged(run, divergence)
        seconds = DIVERGED_SECONDS_MIN
        if run.diverged_at is not None:
            passed = (await self._store.now() - run.diverged_at).total_seconds()
            seconds = min(max(passed / 2, seconds), DIVERGED_SECONDS_MAX)
        return suspended(run, seconds)

    def _is_code_of(self, run: Run, queue: str) -> bool:
        """Whether this node may execute a run: it declares its version, or has taken over the
        queue of that version because nobody does."""
        if run.version is None or run.version in self._versions:
            return True
        return queue == runs_queue(run.workflow, run.version)

    async def _route(self, stored: Stored, run: Run) -> Outcome:
        """Sends a run to the nodes that have its version."""
        queue = runs_queue(run.workflow, run.version)
        await ensure_hidden_queue(self._store, queue, RUNS_SETTINGS)
        await self._store.workflows.route(SYSTEM, stored.current_claim, queue)
        return Snoozed(0.0)  # The message is no longer ours, which the store notices.

    async def _wake_parent(self, stored: Stored) -> Outcome:
        """The items of a map have ended; their run goes on."""
        event = msgspec.json.decode(stored.body, type=CompletedBatch)
        if event.run_id is not None:
            await self._store.workflows.change(Scope(stored.tenant), event.run_id, children_ended)
        return Succeeded()

    async def _execute_child(self, queue: str, message: ClaimedMessage[Any]) -> Outcome:
        """Runs an item of a map, unless its parent has ended, or has started again."""
        stored, scope = message.stored, Scope(message.stored.tenant)
        call = msgspec.json.decode(stored.body, type=ChildCall)
        parent = await self._store.workflows.get(scope, call.run_id)
        uid = child_uid(call.batch_id, call.number)
        adopted = await self._store.workflows.adopt(
            SYSTEM,
            stored.current_claim,
            NewRun(
                id=public_id(Prefix.RUN, uid),
                uid=uid,
                message_id=stored.id,
                workflow=parent.workflow,
                version=parent.version,
                params=bytes(call.item),
                correlation_id=stored.correlation_id,
                parent_id=parent.id,
                parent_step=call.label,
            ),
        )
        if adopted is None:
            return Snoozed(0.0)  # Another worker has it.
        if parent.status.is_final or map_batch_id(parent, call.step, call.round) != call.batch_id:
            end = RunEnd(uid=uid, status=RunStatus.CANCELLED, error="its parent does not wait")
            return Committed((end,))
        declared = self._declared(parent.version)
        waiting = suspended(adopted.run, PAUSED_SECONDS)
        if parent.paused or parent.is_diverged or not self._is_code_of(parent, queue):
            return waiting
        work, divergence = await self._find(scope, call, declared)
        if divergence is not None:
            # Its run waits for its items and would not notice: it wakes, and says so.
            await self._store.workflows.change(scope, call.run_id, children_ended)
            return waiting
        history = await self._revived(scope, stored, adopted)
        if work is None:
            text = f"this code does not call step.map({call.name!r}, …) any more"
            return await self._diverged(message, history.run, Diverged(text))
        return await self._run(message, history, child_declaration(declared, call, work))

    async def _find(self, scope: Scope, call: ChildCall, declared: WorkflowDeclaration) -> FoundMap:
        """What the items of a map call: known to this node, or found by replaying its run."""
        if (known := self._functions.get(call.batch_id)) is not None:
            return FoundMap(known, None)
        history = await self._store.workflows.history(scope, call.run_id)
        found = await find_map(self._store, history, declared, call.step)
        if found.work is not None and found.divergence is None:
            self._functions.note(call.batch_id, found.work)
        return found

    async def _history(self, stored: Stored, body: object) -> RunHistory | None:
        """The record of the run that a message stands for. The message of a slot, or of the
        result of a firing, starts it."""
        scope = Scope(stored.tenant)
        if (new := self._started(stored)) is None:
            history = await self._store.workflows.history(scope, str(body))
            return await self._revived(scope, stored, history)
        adopted = await self._store.workflows.adopt(SYSTEM, stored.current_claim, new)
        return None if adopted is None else await self._revived(scope, stored, adopted)

    def _started(self, stored: Stored) -> NewRun | None:
        """The run that a message starts; None for the message of a run that exists."""
        newest = self._newest
        if is_result(stored):
            return structs.replace(result_run(stored, newest.name), version=newest.version)
        if stored.schedule_id is None:
            return None
        run_id = slot_key(
            None, stored.schedule_id, stored.slot, 0 if stored.is_replay else stored.run
        )
        return NewRun(
            id=str(run_id),
            uid=new_id(),
            message_id=stored.id,
            workflow=newest.name,
            version=newest.version,
            params=stored.body,
            correlation_id=stored.correlation_id,
        )

    async def _revived(self, scope: Scope, stored: Stored, history: RunHistory) -> RunHistory:
        """The record of a run. After the replay of a dead letter it goes on where it died, and
        tries again what failed."""
        run = history.run
        if run.message_id == stored.id or not can_revive(run):
            return history
        again = revive(stored.id, history.steps)
        await self._store.workflows.change(scope, run.id, again)
        return await self._store.workflows.history(scope, run.id)

    def _declared(self, version: str | None) -> WorkflowDeclaration:
        """The code of a version, or the newest one."""
        return self._versions.get(version, self._newest)


class WorkflowConsumers(NamedTuple):
    """The consumers of the workflows that an app declares, and those of versions that nobody else
    has, which come and go."""

    consumers: list[Consumer]
    find: FindConsumers


def workflow_consumers(
    store: Store,
    workflows: Mapping[str, Versions],
    *,
    monotonic: Callable[[], float],
    grace_seconds: float = VERSION_GRACE_SECONDS,
    observer: Observer | None = None,
    **options: Any,
) -> WorkflowConsumers:
    """The consumers of the workflows that an app declares."""
    runners = {
        name: Runner(store, versions, monotonic=monotonic, observer=observer, **options)
        for name, versions in workflows.items()
    }
    consumers = [
        run_consumer(runners[name], versions, queue)
        for name, versions in workflows.items()
        for queue in own_queues(name, versions)
    ]

    def take_over(name: str, queue: str) -> Consumer:
        return run_consumer(runners[name], workflows[name], queue)

    orphans = OrphanedVersions(
        store, workflows, take_over, monotonic=monotonic, grace_seconds=grace_seconds
    )
    return WorkflowConsumers(consumers, orphans.find)


def run_consumer(runner: Runner, versions: Versions, queue: str) -> Consumer:
    """The consumer of a queue of runs."""

    async def handle(message: Message[Any]) -> None:
        await runner.handle(queue, message)

    concurrency = [*versions.values()][-1].max_concurrency or IN_FLIGHT_MAX
    made = hidden_consumer(queue, RUNS_SETTINGS, handle, concurrency)
    return structs.replace(made, is_built_in=False)
