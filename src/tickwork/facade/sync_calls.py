"""`app.sync` at run time: every call of an app without `await`, for threads and scripts.

There is no second app. A `Waiting` stands before an object of the app: it calls the same coroutine
functions, in the event loop that a process has in the background, and waits. What they return is
wrapped in the same way if it has calls of its own. The types are in `sync_app.pyi`, which
`python -m tests.kit.sync_stub` writes from the signatures of `WAITED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.facade.access import Audit, Keys, Tenants
from tickwork.facade.endpoints import Deliveries, Endpoints, Events, Limits
from tickwork.facade.entities import Entities, EntityHandle, SendHandle
from tickwork.facade.operate import (
    Alerts,
    Batches,
    DeadLetters,
    Messages,
    Nodes,
    Queues,
    Subscriptions,
    Webhooks,
)
from tickwork.facade.operations import Operations
from tickwork.facade.owner import Owner
from tickwork.facade.queue import Queue
from tickwork.facade.schedules import Calendars, Firings, Schedules
from tickwork.facade.services import Service
from tickwork.facade.workflows import RunHandle, Workflows
from tickwork.ops.background_loop import has_event_loop, wait_for
from tickwork.ops.batches import BatchHandle

if TYPE_CHECKING:
    from tickwork.facade.sync_app import SyncApp

WAITED: tuple[type[Any], ...] = (
    Schedules, Firings, Calendars, Queues, Messages, Batches, DeadLetters, Nodes, Webhooks, Events,
    Endpoints, Deliveries, Alerts, Limits, Workflows, Keys, Subscriptions, Audit, Tenants, Entities,
    Operations, Queue, BatchHandle, RunHandle, EntityHandle, SendHandle, Service, Owner,
)  # fmt: skip
"""What has calls to wait for, besides the app itself."""

NOT_WAITED = frozenset(
    {"schedule", "workflow", "http", "consumer", "on", "on_completed"}  # They declare.
    | {"run", "running", "background", "sync"}
)
"""What `app.sync` has not: it is called on the app."""


class Waiting:
    """An object of an app whose coroutine functions are called and waited for."""

    def __init__(self, engine: AppEngine, given: Any, path: str = "app") -> None:
        self._engine = engine
        self._given = given
        self._path = path

    def __repr__(self) -> str:
        return f"<{self._path.replace('app', 'app.sync', 1)}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or (self._path == "app" and name in NOT_WAITED):
            raise AttributeError(f"app.sync has no {name!r}; app.{name} has no await")
        found, path = getattr(self._given, name), f"{self._path}.{name}"
        if iscoroutinefunction(found):
            return self._waiting(found, path)
        return self._plain(found, path) if callable(found) else self._shown(found, path)

    def _waiting(self, verb: Callable[..., Any], path: str) -> Callable[..., Any]:
        @wraps(verb)
        def call(*args: Any, **options: Any) -> Any:
            if has_event_loop():
                field = f"{path.replace('app', 'app.sync', 1)}(…)"
                fault = f"would block the event loop of this thread; write: await {path}(…)"
                raise InvalidInput([FieldError(field, fault)])
            coroutine = verb(*map(_given, args), **_given_options(options))
            found = wait_for(coroutine, self._engine.stores.harness_loop)
            return self._shown(found, f"{path}(…)")

        return call

    def _plain(self, verb: Callable[..., Any], path: str) -> Callable[..., Any]:
        @wraps(verb)
        def call(*args: Any, **options: Any) -> Any:
            found = verb(*map(_given, args), **_given_options(options))
            return self._shown(found, f"{path}(…)")

        return call

    def _shown(self, found: Any, path: str) -> Any:
        """What a call returned: with calls to wait for, if it has any."""
        if isinstance(found, WAITED):
            return Waiting(self._engine, found, path)
        if isinstance(found, Sequence) and found and isinstance(found[0], WAITED):
            return [Waiting(self._engine, one, path) for one in found]
        return found


def waiting_app(engine: AppEngine, app: object) -> SyncApp:
    """The app, as callers without an event loop use it."""
    waiting: Any = Waiting(engine, app)
    called: SyncApp = waiting
    return called


def _given(argument: Any) -> Any:
    return argument._given if isinstance(argument, Waiting) else argument  # noqa: SLF001  our own


def _given_options(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _given(option) for name, option in options.items()}
