"""Workflows as an app uses them: `app.workflows` starts runs, and a `RunHandle` controls one.

Each call is done when it returns, also inside a handler.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from tickwork.app.invocation import causation_now, correlation_now, current_handling
from tickwork.app.workflows import WorkflowDeclaration, payload_of
from tickwork.core.answers.run import RestartPlan, RunView
from tickwork.core.fields import shown
from tickwork.core.model import ContentType
from tickwork.core.options import Given, OnConflict, StartOptions
from tickwork.core.workflow.model import STEPS_MAX
from tickwork.core.workflow.queue import runs_queue
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops import workflows
from tickwork.ops.workflow_views import restart_plan
from tickwork.ops.workflows import RunStart

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from tickwork.workflow.step import Step

    P_contra = TypeVar("P_contra", contravariant=True, default=Any)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    P_contra = TypeVar("P_contra", contravariant=True)
    R_co = TypeVar("R_co", covariant=True)

P = TypeVar("P")
R = TypeVar("R")


class Workflow(Generic[P_contra, R_co]):
    """A declared workflow: what `@app.workflow()` returns, to start runs of it.

    `P` is the type of its params, and None for a function without them; `R` that of its result. A
    call of it is a call of its function, as a test of the function alone needs it.
    """

    def __init__(self, name: str, function: Callable[..., Coroutine[Any, Any, R_co]]) -> None:
        update_wrapper(self, function)
        self.name, self.function = name, function

    def __repr__(self) -> str:
        return f"Workflow({self.name!r})"

    def __call__(
        self, step: Step, *params: P_contra, **named: P_contra
    ) -> Coroutine[Any, Any, R_co]:
        return self.function(step, *params, **named)


AnyWorkflow = Workflow[Any, Any] | Callable[..., Any] | str
"""A declared workflow, its function, or its name."""


def _check_effect(what: str) -> None:
    handling = current_handling()
    if handling is not None:
        handling.check_effect(what)


class RunHandle(Generic[R_co]):
    """One run of a workflow, by its id. Making a handle asks nobody.

    `R` is the type of its result.
    """

    def __init__(self, engine: AppEngine, run_id: str) -> None:
        self._engine, self.id = engine, run_id

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    async def status(self, *, steps_from: int = 0, steps_limit: int = STEPS_MAX) -> RunView:
        """The run with its steps and events. Of many steps, `steps_limit` are read after the first
        `steps_from`; `steps_total` is their number. Raises `NotFound`."""
        engine = self._engine
        return await workflows.get_run(
            await engine.context(),
            self.id,
            steps_from=steps_from,
            steps_limit=steps_limit,
        )

    async def result(self, *, timeout_seconds: float | None = None) -> R_co:
        """Waits for the run to end, and returns what its body returned.

        Raises `RunFailed` if it failed or was cancelled or terminated, and `TimeoutError` after
        `timeout_seconds`. Under a test harness runs go on only while it drains.
        """
        engine = self._engine

        def check() -> None:
            if timeout_seconds is None and current_handling() is None:
                engine.stores.check_not_in_harness("run.result()")

        run = await workflows.wait_for_result(
            await engine.context(),
            self.id,
            timeout_seconds=timeout_seconds,
            on_wait=check,
        )
        declared = engine.registry.workflow(run.workflow, run.version)
        payload = payload_of(Any) if declared is None else declared.result
        result: R_co = payload.decode(run.result or b"null", ContentType.JSON)
        return result

    async def send_event(
        self,
        type: str,  # noqa: A002  the name of the field
        data: Any = None,
        *,
        id: str | None = None,  # noqa: A002  the name of the field
        connection: object = None,
    ) -> None:
        """Sends an event to the run. It is kept until the run waits for its type; the same `id`
        counts once. With your own `connection` it is sent if the transaction that is open on it
        commits. Raises `NotFound` for an unknown run, `Conflict` for one that has ended."""
        _check_effect("sends an event")
        async with self._engine.verb_context(connection) as context:
            await workflows.send_event(context, self.id, type, data, event_id=id)

    async def pause(self) -> None:
        """Lets the run start no step until it is resumed."""
        _check_effect("pauses a run")
        await workflows.pause_run(await self._engine.context(), self.id)

    async def resume(self) -> None:
        """Lets a paused run go on."""
        _check_effect("resumes a run")
        await workflows.resume_run(await self._engine.context(), self.id)

    async def cancel(self, *, compensate: bool = False) -> None:
        """Ends the run at its next checkpoint; with `compensate` its steps are undone first."""
        _check_effect("cancels a run")
        engine = self._engine
        await workflows.cancel_run(await engine.context(), self.id, compensate=compensate)

    async def terminate(self) -> None:
        """Ends the run at once. Nothing is compensated."""
        _check_effect("terminates a run")
        await workflows.terminate_run(await self._engine.context(), self.id)

    async def restart(self, *, from_step: str | None = None, dry_run: bool = False) -> RestartPlan:
        """Starts the run again: from its beginning, or from a step with the results before it,
        except for those of steps that were undone. Returns which steps run again, and which effects
        happen again; with `dry_run` that is all it does."""
        _check_effect("restarts a run")
        engine = self._engine
        restart = workflows.plan_restart if dry_run else workflows.restart_run
        context = await engine.context()
        return restart_plan(await restart(context, self.id, from_step=from_step))

    async def accept(self) -> None:
        """Lets a diverged run go on with today's code from here. What it has recorded is kept, and
        need not be asked for. Raises `Conflict` if the run has not diverged."""
        _check_effect("accepts a run")
        await workflows.accept_run(await self._engine.context(), self.id)


class Workflows:
    """Starts runs of workflows, and finds them."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    @overload
    async def start(
        self,
        workflow: Workflow[P, R],
        params: Given[P],
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]: ...

    @overload
    async def start(
        self,
        workflow: Workflow[None, R],
        params: None = None,
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[R]: ...

    @overload
    async def start(
        self,
        workflow: str,
        params: Any = None,
        *,
        id: str | None = None,
        connection: object = None,
        **options: Unpack[StartOptions],
    ) -> RunHandle[Any]: ...

    async def start(
        self,
        workflow: AnyWorkflow,
        params: Any = None,
        *,
        id: str | None = None,  # noqa: A002  the name of the field
        on_conflict: OnConflict = "error",
        deadline_seconds: float | None = None,
        correlation_id: str | None = None,
        connection: object = None,
    ) -> RunHandle[Any]:
        """Starts a run and returns its handle. The run is stored when this returns; with your own
        `connection`, if the transaction that is open on it commits.

        `id` is unique in the tenant; without it the run gets one. If there is a run with the id,
        `on_conflict` raises `Conflict`, uses it, or restarts it once it has ended. A run that has
        not ended after `deadline_seconds` fails.
        """
        _check_effect("starts a run")
        start = self._start(
            workflow,
            params,
            id=id,
            deadline_seconds=deadline_seconds,
            correlation_id=correlation_id,
        )
        engine = self._engine
        async with engine.verb_context(connection) as context:
            (run,) = await workflows.start_runs(context, [start], on_conflict)
        return RunHandle(engine, run.id)

    @overload
    async def start_many(
        self,
        workflow: Workflow[P, R],
        params: Iterable[Given[P]],
        *,
        ids: Iterable[str] | None = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[R]]: ...

    @overload
    async def start_many(
        self,
        workflow: str,
        params: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        **options: Unpack[StartOptions],
    ) -> list[RunHandle[Any]]: ...

    async def start_many(
        self,
        workflow: AnyWorkflow,
        params: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        on_conflict: OnConflict = "error",
        deadline_seconds: float | None = None,
        correlation_id: str | None = None,
    ) -> list[RunHandle[Any]]:
        """Starts up to 1,000 runs, one for each of the params, all or none."""
        _check_effect("starts runs")
        all_params, all_ids = [*params], None if ids is None else [*ids]
        if all_ids is not None and len(all_ids) != len(all_params):
            fault = f"must be as many as params: {len(all_params)}, not {len(all_ids)}"
            raise InvalidInput([FieldError("ids", fault)])
        starts = [
            self._start(
                workflow,
                param,
                id=None if all_ids is None else all_ids[index],
                deadline_seconds=deadline_seconds,
                correlation_id=correlation_id,
            )
            for index, param in enumerate(all_params)
        ]
        engine = self._engine
        runs = await workflows.start_runs(await engine.context(), starts, on_conflict)
        return [RunHandle(engine, run.id) for run in runs]

    @overload
    async def send_event(
        self,
        workflow: Workflow[P, R],
        run_id: str,
        type: str,
        data: Any = None,
        *,
        params: Given[P],
        id: str | None = None,
    ) -> RunHandle[R]: ...

    @overload
    async def send_event(
        self,
        workflow: Workflow[None, R],
        run_id: str,
        type: str,
        data: Any = None,
        *,
        params: None = None,
        id: str | None = None,
    ) -> RunHandle[R]: ...

    @overload
    async def send_event(
        self,
        workflow: str,
        run_id: str,
        type: str,
        data: Any = None,
        *,
        params: Any = None,
        id: str | None = None,
    ) -> RunHandle[Any]: ...

    async def send_event(
        self,
        workflow: AnyWorkflow,
        run_id: str,
        type: str,  # noqa: A002  the name of the field
        data: Any = None,
        *,
        params: Any = None,
        id: str | None = None,  # noqa: A002  the name of the field
    ) -> RunHandle[Any]:
        """Sends an event to a run, and starts the run with it if there is none."""
        _check_effect("sends an event")
        engine = self._engine
        start = self._start(workflow, params, id=run_id, event=workflows.read_event(type, data, id))
        await workflows.send_event_or_start(await engine.context(), start)
        return RunHandle(engine, run_id)

    async def names(self) -> tuple[str, ...]:
        """The workflows that apps on this database have declared."""
        return await workflows.list_workflows(await self._engine.ready())

    def get(self, run_id: str) -> RunHandle[Any]:
        """The handle of a run; asks nobody. Its type is yours to say: `run: RunHandle[int] = …`."""
        return RunHandle(self._engine, run_id)

    async def list(
        self,
        workflow: Workflow[Any, Any] | str | None = None,
        *,
        status: str | None = None,
        parent: str | None = None,
        limit: int = workflows.RUNS_LISTED,
    ) -> tuple[RunView, ...]:
        """The newest runs, of one workflow or with one status, without their steps. With `parent`,
        the id of a run: the items of its maps."""
        engine = self._engine
        name = None if workflow is None else self._name(workflow)
        found = await workflows.list_runs(
            await engine.context(),
            workflow=name,
            status=status,
            parent=parent,
            limit=limit,
        )
        return await workflows.summaries(await engine.context(), found)

    def _start(self, workflow: AnyWorkflow, params: Any, **fields: Any) -> RunStart:
        name, declared = self._name(workflow), self._declared(workflow)
        payload = self._engine.registry.payload_sent(runs_queue(name), None)
        if declared is not None:
            payload = declared.params
        try:
            encoded = (payload or payload_of(Any)).encode(params)
        except InvalidInput as error:
            faults = (FieldError("params", fault.message) for fault in error.errors)
            raise InvalidInput(faults) from None
        version = None if declared is None else declared.version
        if fields.get("correlation_id") is None:
            fields["correlation_id"] = correlation_now()
            fields["causation_id"] = causation_now()
        return RunStart(workflow=name, params=encoded, version=version, **fields)

    def _name(self, workflow: AnyWorkflow) -> str:
        if isinstance(workflow, str):
            return workflow
        declared = self._declared(workflow)
        if declared is None:
            fault = f"{shown(workflow)} is not declared; decorate it with @app.workflow()"
            raise InvalidInput([FieldError("workflow", fault)])
        return declared.name

    def _declared(self, workflow: AnyWorkflow) -> WorkflowDeclaration | None:
        """The version that a function is; of a name the newest one."""
        registry = self._engine.registry
        if isinstance(workflow, str):
            return registry.workflow(workflow)
        function = workflow.function if isinstance(workflow, Workflow) else workflow
        return registry.workflow_of(function)
