"""Workflows and entities over HTTP: `client.workflows`, `client.entity(…)`, `client.entities`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import uuid4

from msgspec import structs

from tickwork.client.answers import Items
from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Pause,
    Plan,
    Repeat,
    Runner,
    answer,
    as_plan,
    at,
    given,
    listed,
    nothing,
    part,
    runner_of,
    verb,
)
from tickwork.clock import monotonic
from tickwork.core.answers.entity import AlarmBody, CallAnswer, StorageEntry
from tickwork.core.answers.run import RestartPlan, RunView
from tickwork.core.answers.wait import Wait
from tickwork.core.entity.model import CountedType, EntityRecord
from tickwork.core.workflow.model import STEPS_MAX
from tickwork.errors import EntityBusy, FieldError, InvalidInput, RunFailed

OnConflict = Literal["error", "use_existing", "restart_if_finished"]

ANY_WORKFLOW = "-"
"""Stands for a run's workflow in a path: the id of a run is unique."""

CALL_SECONDS = 30.0
"""Seconds that the server waits for the result of an entity's method."""

POLL_SECONDS_MIN = 0.05
POLL_SECONDS_MAX = 1.0

_RUN = answer(RunView)
_RESTART = part(RunView, lambda run: run.restart)
_ENDED = ("completed", "failed", "cancelled", "terminated")


def _run(run_id: str, *parts: str) -> str:
    return at("v1", "workflows", ANY_WORKFLOW, "runs", run_id, *parts)


def why_run(run_id: str) -> Call[Wait]:
    """What a run waits for."""
    return Call("GET", _run(run_id, "why"), answer(Wait))


def _more(found: RunView, steps_limit: int) -> dict[str, int] | None:
    """What to ask for the steps or events that an answer left out; None if it has all. Steps come
    first."""
    steps_left = steps_limit - len(found.steps)
    if found.steps_next is not None and steps_left > 0:
        return {
            "steps_from": found.steps_next,
            "steps_limit": steps_left,
            "events_from": len(found.events),
        }
    if found.events_next is not None:
        return {"steps_limit": 0, "events_from": found.events_next}
    return None


def _joined(found: RunView, following: RunView, *, reads_steps: bool) -> RunView | None:
    """Both parts of a run; None if it was restarted between them, or nothing was left to read."""
    if following.generation != found.generation or not (following.steps or following.events):
        return None
    return structs.replace(
        found,
        steps=(*found.steps, *following.steps),
        steps_next=following.steps_next if reads_steps else found.steps_next,
        events=(*found.events, *following.events),
        events_next=following.events_next,
    )


class Run(Noun[M]):
    """One run of a workflow, by its id. Making it asks nobody."""

    def __init__(self, runner: Runner, run_id: str) -> None:
        super().__init__(runner)
        self.id = run_id

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @verb
    def status(self, *, steps_from: int = 0, steps_limit: int = STEPS_MAX) -> Plan[RunView]:
        """The run with its steps and events. Of many steps, `steps_limit` are read after the first
        `steps_from`; `steps_total` is their number. Raises `NotFound`.

        An answer ends after 4 MB. Of a run with more, the others are read one after another. If the
        run is restarted meanwhile, its steps end there, and `steps_next` says so.
        """
        query = {"steps_from": steps_from, "steps_limit": steps_limit}
        found: RunView = yield Call("GET", _run(self.id), _RUN, query=query)
        while True:
            more = _more(found, steps_limit)
            if more is None:
                return found
            following: RunView = yield Call("GET", _run(self.id), _RUN, query=more)
            joined = _joined(found, following, reads_steps=more["steps_limit"] > 0)
            if joined is None:
                return found
            found = joined

    @verb
    def result(self, *, timeout_seconds: float | None = None) -> Plan[Any]:
        """Waits for the run to end, and returns what its body returned.

        Raises `RunFailed` if it failed or was cancelled or terminated, and `TimeoutError` after
        `timeout_seconds`.
        """
        pause, started = POLL_SECONDS_MIN, monotonic()
        while True:
            found: RunView = yield Call("GET", _run(self.id), _RUN, query={"steps_limit": 0})
            if found.status == "completed":
                return found.result
            if found.status in _ENDED:
                raise RunFailed(self.id, found.status, found.error)
            if timeout_seconds is not None and monotonic() - started > timeout_seconds:
                raise TimeoutError(f"run {self.id} has not ended within {timeout_seconds:g} s")
            yield Pause(pause)
            pause = min(pause * 2, POLL_SECONDS_MAX)

    @verb
    def send_event(
        self,
        type: str,  # noqa: A002  the name of the field
        data: Any = None,
        *,
        id: str | None = None,  # noqa: A002  the name of the field
    ) -> Call[None]:
        """Sends an event to the run. It is kept until the run waits for its type; the same `id`
        counts once. Raises `NotFound` for an unknown run, `Conflict` for one that has ended."""
        body = {"type": type, "data": data, "id": id or uuid4().hex}
        return Call("POST", _run(self.id, "events"), nothing, body=body, repeat=Repeat.SAFE)

    @verb
    def pause(self) -> Call[None]:
        """Lets the run start no step until it is resumed."""
        return Call("POST", _run(self.id, "pause"), nothing, repeat=Repeat.SAFE)

    @verb
    def resume(self) -> Call[None]:
        """Lets a paused run go on."""
        return Call("POST", _run(self.id, "resume"), nothing, repeat=Repeat.SAFE)

    @verb
    def cancel(self, *, compensate: bool = False) -> Call[None]:
        """Ends the run at its next checkpoint; with `compensate` its steps are undone first."""
        return Call("POST", _run(self.id, "cancel"), nothing, body={"compensate": compensate})

    @verb
    def terminate(self) -> Call[None]:
        """Ends the run at once. Nothing is compensated."""
        return Call("POST", _run(self.id, "terminate"), nothing)

    @verb
    def restart(
        self, *, from_step: str | None = None, dry_run: bool = False
    ) -> Call[RestartPlan | None]:
        """Starts the run again: from its beginning, or from a step with the results before it,
        except for those of steps that were undone. Returns which steps run again, and which effects
        happen again; with `dry_run` that is all it does."""
        body = given(from_step=from_step, dry_run=dry_run or None)
        return Call("POST", _run(self.id, "restart"), _RESTART, body=body)

    @verb
    def accept(self) -> Call[None]:
        """Lets a diverged run go on with today's code from here. Raises `Conflict` if it has not
        diverged."""
        return Call("POST", _run(self.id, "accept"), nothing)

    @verb
    def why(self) -> Call[Wait]:
        """What the run waits for, since when, until when, and what happens next."""
        return why_run(self.id)


def _starts(
    params: Iterable[Any], ids: Iterable[str] | None, common: Mapping[str, object]
) -> list[dict[str, object]]:
    """One body for each of the params."""
    all_params, all_ids = [*params], None if ids is None else [*ids]
    if all_ids is not None and len(all_ids) != len(all_params):
        fault = f"must be as many as params: {len(all_params)}, not {len(all_ids)}"
        raise InvalidInput([FieldError("ids", fault)])
    return [
        {"params": param, **common, **({} if all_ids is None else {"id": all_ids[index]})}
        for index, param in enumerate(all_params)
    ]


class Workflows(Noun[M]):
    """Starts runs of workflows, and finds them."""

    @verb
    def names(self) -> Call[tuple[str, ...]]:
        """The workflows that apps on the server's database have declared."""
        return Call("GET", at("v1", "workflows"), part(Items[str], lambda found: found.items))

    @verb
    def start(
        self,
        workflow: str,
        params: Any = None,
        *,
        id: str | None = None,  # noqa: A002  the name of the field
        on_conflict: OnConflict = "error",
        deadline_seconds: float | None = None,
        correlation_id: str | None = None,
    ) -> Plan[Run[M]]:
        """Starts a run and returns its handle. The run is stored when this returns.

        `id` is unique in the tenant; without it the run gets one. If there is a run with the id,
        `on_conflict` raises `Conflict`, uses it, or restarts it once it has ended. A run that has
        not ended after `deadline_seconds` fails.
        """
        body = {
            "params": params,
            "on_conflict": on_conflict,
            **given(id=id, deadline_seconds=deadline_seconds, correlation_id=correlation_id),
        }
        path = at("v1", "workflows", workflow, "runs")
        made: RunView = yield Call("POST", path, _RUN, body=body, repeat=Repeat.KEYED)
        return Run(runner_of(self), made.id)

    @verb
    def start_many(
        self,
        workflow: str,
        params: Iterable[Any],
        *,
        ids: Iterable[str] | None = None,
        on_conflict: OnConflict = "error",
        deadline_seconds: float | None = None,
        correlation_id: str | None = None,
    ) -> Plan[list[Run[M]]]:
        """Starts up to 1,000 runs, one for each of the params, all or none."""
        common = given(
            on_conflict=on_conflict,
            deadline_seconds=deadline_seconds,
            correlation_id=correlation_id,
        )
        bodies = _starts(params, ids, common)
        made: Items[RunView] = yield Call(
            "POST",
            at("v1", "workflows", workflow, "runs"),
            answer(Items[RunView]),
            body=bodies,
            repeat=Repeat.KEYED,
        )
        return [Run(runner_of(self), item.id) for item in made.items]

    def get(self, run_id: str) -> Run[M]:
        """The handle of a run; asks nobody."""
        return Run(runner_of(self), run_id)

    @listed
    def list(
        self,
        workflow: str | None = None,
        *,
        status: str | None = None,
        parent: str | None = None,
        limit: int | None = None,
    ) -> Pages[RunView]:
        """Runs, newest first, of one workflow or with one status, without their steps. With
        `parent`, the runs that a run started by `step.map`."""
        path = at("v1", "workflows", workflow or ANY_WORKFLOW, "runs")
        return Pages(path, RunView, limit, {"status": status, "parent": parent})


def _entity(type_: str, key: str, *parts: str) -> str:
    return at("v1", "entities", type_, key, *parts)


def _called(
    type_: str, key: str, method: str, args: object, idempotency_key: str | None
) -> Plan[Any]:
    """Calls a method and waits for its result. A repeat has the same idempotency key."""
    headers = {"Idempotency-Key": idempotency_key or uuid4().hex}
    for _ in range(2):
        found: CallAnswer = yield Call(
            "POST",
            _entity(type_, key, method),
            answer(CallAnswer),
            body={"args": args},
            headers=headers,
            repeat=Repeat.KEYED,
            wait_seconds=CALL_SECONDS,
        )
        if found.done:
            return found.result
    raise EntityBusy(type_, key, f"did not run {method} in time; it may still run")


class EntityHandle(Noun[M]):
    """One entity to call: `await client.entity("Brand", "llc-tax").rename("LLC")`. It has the
    methods that the class marks with `@exposed`."""

    def __init__(self, runner: Runner, type_: str, key: str, idempotency_key: str | None) -> None:
        super().__init__(runner)
        self._type = type_
        self._key = key
        self._idempotency_key = idempotency_key

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*args: Any, **kwargs: Any) -> Any:
            if args and kwargs:
                fault = "give arguments by position or by name, not both"
                raise InvalidInput([FieldError("args", fault)])
            given_args: object = kwargs or [*args]
            plan = _called(self._type, self._key, method, given_args, self._idempotency_key)
            return runner_of(self).run(as_plan(plan))

        return call


class Entities(Noun[M]):
    """The entities of the tenant: call them, look inside, change."""

    @verb
    def call(
        self,
        entity: str,
        key: str,
        method: str,
        args: Sequence[Any] | Mapping[str, Any] = (),
        *,
        idempotency_key: str | None = None,
    ) -> Plan[Any]:
        """Calls a method that the class marks with `@exposed`, and returns its result after it was
        committed. Raises `EntityBusy` if it has not run after a minute."""
        plain: object = {**args} if isinstance(args, Mapping) else [*args]
        return _called(entity, key, method, plain, idempotency_key)

    @listed
    def types(self, *, limit: int | None = None) -> Pages[CountedType]:
        """The types of entities by name, and how many entities of each there are, counted up to
        1,000."""
        return Pages(at("v1", "entities"), CountedType, limit)

    @listed
    def list(
        self, entity: str, *, prefix: str = "", limit: int | None = None
    ) -> Pages[EntityRecord]:
        """The entities of a type by key, those whose key begins with `prefix`."""
        return Pages(at("v1", "entities", entity), EntityRecord, limit, {"prefix": prefix})

    @verb
    def get(self, entity: str, key: str) -> Call[EntityRecord]:
        """The size, the alarm and the schedules of an entity. Raises `NotFound`."""
        return Call("GET", _entity(entity, key), answer(EntityRecord))

    @verb
    def delete(self, entity: str, key: str) -> Call[None]:
        """Deletes the storage, the alarm and the schedules of an entity."""
        return Call("DELETE", _entity(entity, key), nothing)

    @listed
    def storage(
        self, entity: str, key: str, *, prefix: str = "", limit: int | None = None
    ) -> Pages[StorageEntry]:
        """Keys and values of an entity's storage, in the order of the keys' bytes."""
        return Pages(_entity(entity, key, "storage"), StorageEntry, limit, {"prefix": prefix})

    @verb
    def get_value(self, entity: str, key: str, name: str) -> Call[Any]:
        """One value of an entity's storage. Raises `NotFound`."""
        value = part(StorageEntry, lambda found: found.value)
        return Call("GET", _entity(entity, key, "storage", name), value)

    @verb
    def put_value(self, entity: str, key: str, name: str, value: Any) -> Call[None]:
        """Stores a value in an entity's storage, between its calls."""
        return Call("PUT", _entity(entity, key, "storage", name), nothing, body={"value": value})

    @verb
    def delete_value(self, entity: str, key: str, name: str) -> Call[None]:
        """Deletes a key of an entity's storage, between its calls."""
        return Call("DELETE", _entity(entity, key, "storage", name), nothing)

    @verb
    def get_alarm(self, entity: str, key: str) -> Call[datetime]:
        """When the alarm is set to fire. Raises `NotFound` if none is set."""
        return Call("GET", _entity(entity, key, "alarm"), part(AlarmBody, lambda found: found.at))

    @verb
    def set_alarm(self, entity: str, key: str, at: datetime | str) -> Call[None]:
        """Sets the alarm, or replaces it. A time in the past is now."""
        return Call("PUT", _entity(entity, key, "alarm"), nothing, body={"at": at})

    @verb
    def delete_alarm(self, entity: str, key: str) -> Call[None]:
        """Deletes the alarm. Raises `NotFound` if none is set."""
        return Call("DELETE", _entity(entity, key, "alarm"), nothing)

    @verb
    def why(self, entity: str, key: str) -> Call[tuple[Wait, ...]]:
        """What the alarm and the calls of an entity wait for, the first ones first."""
        waits = part(Items[Wait], lambda found: found.items)
        return Call("GET", _entity(entity, key, "why"), waits)
