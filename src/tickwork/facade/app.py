"""`Tickwork`, the app object: declare queues and handlers, send, and run.

```python
app = Tickwork("sqlite:///tickwork.db")
emails = app.queue("emails", max_retries=3)

@app.on("emails", type="welcome")
async def welcome(message): ...

await emails.send({"to": "a@example.com"}, type="welcome")     # from anywhere
app.run()                                                      # a process that handles them
```
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack

from tickwork.app.app_name import functions_queue, read_app_name
from tickwork.app.firing import Firing, firing_handler
from tickwork.app.handlers import check_own_queue
from tickwork.app.http import HANDLER_SECONDS, declared_http_handler
from tickwork.app.invocation import current_handling
from tickwork.app.payloads import Payload, declared_payload
from tickwork.app.services import AsgiApp, declared_service
from tickwork.app.workflows import declared_workflow
from tickwork.core.options import FunctionFields, RequestOptions
from tickwork.core.options.run import RunOptions
from tickwork.engine.app_engine import AppEngine
from tickwork.engine.process import run
from tickwork.entity.entity import Entity
from tickwork.facade.access import Audit, Keys, Tenants
from tickwork.facade.endpoints import Deliveries, Endpoints, Events, Limits
from tickwork.facade.entities import Entities, EntityHandle, entity_handle
from tickwork.facade.handlers import DeclaresWorkflow, OnFiring, OnRequest
from tickwork.facade.operate import (
    Alerts,
    Batches,
    DeadLetters,
    History,
    Messages,
    Nodes,
    Queues,
    Subscriptions,
    Webhooks,
)
from tickwork.facade.operations import Operations
from tickwork.facade.overview import Types
from tickwork.facade.owner import Owner
from tickwork.facade.queue_app import QueueApp
from tickwork.facade.schedules import (
    Calendars,
    Firings,
    Schedules,
    declare_function,
)
from tickwork.facade.services import Service
from tickwork.facade.sync_calls import waiting_app
from tickwork.facade.workflows import Workflow, Workflows

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tickwork.facade.sync_app import SyncApp

T = TypeVar("T")


class Tickwork(QueueApp):
    """An app on one database.

    `database` is a URL: `sqlite:///tickwork.db` or `postgresql://…`. Without it the environment
    (`TICKWORK_DATABASE`) and `tickwork.toml` are asked. `name` distinguishes its scheduled
    functions from those of other apps on the database; by default it is the module that creates
    the app.
    """

    def __init__(
        self,
        database: str | None = None,
        *,
        database_direct: str | None = None,
        name: str | None = None,
        tenant: str = "default",
        min_interval_seconds: int | None = None,
    ) -> None:
        flags = {
            "database": database,
            "database_direct": database_direct,
            "min_interval_seconds": min_interval_seconds,
        }
        self._engine = AppEngine(flags, tenant, read_app_name(self, name))
        self.schedules = Schedules(self._engine)
        self.firings = Firings(self._engine)
        self.calendars = Calendars(self._engine)
        self.queues = Queues(self._engine)
        self.messages = Messages(self._engine)
        self.history = History(self._engine)
        self.batches = Batches(self._engine)
        self.dead_letters = DeadLetters(self._engine)
        self.operations = Operations(self._engine)
        self.nodes = Nodes(self._engine)
        self.webhooks = Webhooks(self._engine)
        self.events = Events(self._engine)
        self.endpoints = Endpoints(self._engine)
        self.deliveries = Deliveries(self._engine)
        self.alerts = Alerts(self._engine)
        self.limits = Limits(self._engine)
        self.workflows = Workflows(self._engine)
        self.keys = Keys(self._engine)
        self.subscriptions = Subscriptions(self._engine)
        self.audit = Audit(self._engine)
        self.tenants = Tenants(self._engine)
        self.entities = Entities(self._engine)
        self.types = Types(self._engine)

    @property
    def name(self) -> str:
        """The name of this app. Processes with the same name run the same functions."""
        return self._engine.registry.app_name

    @property
    def sync(self) -> SyncApp:
        """Every call of the app without `await`, for threads and scripts without an event loop:
        `app.sync.queue("emails").send({"to": "a@example.com"})`."""
        return waiting_app(self._engine, self)

    @property
    def tenant(self) -> str:
        """The tenant this app works for."""
        return self._engine.tenant

    # Declare

    def schedule(
        self,
        *,
        name: str | None = None,
        queue: str | None = None,
        isolation: Literal["task", "thread", "process"] | None = None,
        max_concurrency: int | None = None,
        cpu_seconds: float | None = None,
        memory_bytes: int | None = None,
        **fields: Unpack[FunctionFields],
    ) -> Callable[[OnFiring], OnFiring]:
        """Declares a function that runs on a schedule and gets a `Firing`.

        The fields are those of `schedules.create`; the name is by default the function's. `queue`
        is by default one that all functions of this app share.
        """
        target = functions_queue(self.name) if queue is None else queue
        check_own_queue("queue", target)
        given = {
            "isolation": isolation,
            "max_concurrency": max_concurrency,
            "cpu_seconds": cpu_seconds,
            "memory_bytes": memory_bytes,
        }
        options = {option: value for option, value in given.items() if value is not None}

        def declare(function: OnFiring) -> OnFiring:
            known_as = name or str(getattr(function, "__name__", ""))
            handler = firing_handler(function, known_as)
            payload = Payload[Any](declared_payload(function, Firing))
            registry = self._engine.registry
            with registry.atomic():
                registry.add_schedule(declare_function(known_as, target, fields, payload))
                self.queue(target)
                self._declare(
                    target,
                    known_as,
                    handler,
                    is_batch=False,
                    options=options,
                    payload=payload,
                    is_firing=True,
                )
            return function

        return declare

    def workflow(
        self,
        *,
        name: str | None = None,
        version: str | None = None,
        pin: bool = False,
        on_divergence: Literal["stop", "accept"] = "stop",
        max_concurrency: int | None = None,
    ) -> DeclaresWorkflow:
        """Declares a workflow: a coroutine function `content(step, params)`, or `content(step)`.

        Its runs survive crashes and deploys. Each run records its steps; after a crash the function
        is called again, and recorded steps return their results at once. So everything that has an
        effect, or may change from call to call, belongs into a step.

        Nodes that declare the `version` of a run execute it. If none has for a minute, the newest
        code of others does, which is the one declared last; with `pin` the run waits instead. A run
        whose record does not agree with the code stops before anything happens, and waits for code
        that does; with `on_divergence="accept"` it goes on with a warning. `max_concurrency` is the
        number of runs of a version that a node executes at a time; runs that wait do not count.
        """

        def declare(given: Callable[..., Any]) -> Workflow[Any, Any]:
            function = given.function if isinstance(given, Workflow) else given
            declared = declared_workflow(
                function,
                name=name,
                version=version,
                pin=pin,
                on_divergence=on_divergence,
                max_concurrency=max_concurrency,
            )
            self._engine.registry.add_workflow(declared)
            return Workflow(declared.name, function)

        return declare

    def http(
        self,
        method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"],
        path: str,
        *,
        key: Literal["read", "send", "consume", "manage", "admin"] | None,
        timeout_seconds: float = HANDLER_SECONDS,
        **options: Unpack[RequestOptions],
    ) -> Callable[[OnRequest], OnRequest]:
        """Declares a function that answers HTTP requests, and gets an `HttpRequest`.

        It returns a value, which is the JSON of the answer, None for an empty answer, or an
        `HttpResponse`. Processes with the role `http` serve it, on a port of their own. What it
        sends has the correlation id of the request.

        Args:
            method: Such as `POST`.
            path: Such as `/brands/{slug}`; `request.params["slug"]` is that part.
            key: The scope that the caller's API key needs, or None to let everybody in.
            timeout_seconds: Seconds that a request may take; then the answer is 504, and a plain
                function is stopped.
            options: `isolation`, and with `isolation="process"` its limits `cpu_seconds` and
                `memory_bytes`, as in `app.on`. What a handler sends there is stored when it has
                returned.
        """

        def declare(function: OnRequest) -> OnRequest:
            self._engine.registry.add_http_handler(
                declared_http_handler(
                    function,
                    method,
                    path,
                    key=key,
                    timeout_seconds=timeout_seconds,
                    options={**options},
                )
            )
            return function

        return declare

    # Work

    def entity(
        self, entity: type[Entity] | str, key: str, *, idempotency_key: str | None = None
    ) -> EntityHandle:
        """One entity to call: `await app.entity(Brand, "llc-tax").rename("LLC")`.

        Args:
            entity: A registered class, or the name of its type.
            key: Which one, 1 to 512 bytes.
            idempotency_key: A repeat with the same key returns the first result, for a day.
        """
        return entity_handle(self._engine, entity, key, idempotency_key)

    def owner(self, name: str) -> Owner:
        """One user of the tenant: `await app.owner("ann").schedules.pause("report")`. Its verbs
        reach only what belongs to that user; the rest is `NotFound`."""
        return Owner(self._engine, name)

    def service(
        self,
        name: str,
        target: AsgiApp | Tickwork | str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Service:
        """Binds a service to call: `await app.service("keys").get("/v1/brave")`.

        Args:
            name: How this app calls it.
            target: An ASGI application or an app with HTTP handlers, which is called in this
                process, or the URL of a service. Without it, `tickwork.toml` has the URL. It is
                given once.
            headers: Headers of every call, such as an API key.
            timeout_seconds: Seconds that a call may take; 30 by default.
        """
        services = self._engine.registry.services
        if isinstance(target, Tickwork):
            target = engine_of(target).http_application
        services[name] = declared_service(
            services, name, target, headers=headers, timeout_seconds=timeout_seconds
        )
        return Service(self._engine.service_caller, services[name])

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a coroutine inside a handler. The message is settled after it has finished."""
        handling = current_handling()
        if handling is None:
            return asyncio.get_running_loop().create_task(work)
        return handling.background(work)

    def now(self) -> datetime:
        """The current time in UTC; under the test harness the virtual time."""
        return self._engine.now()

    # Run

    async def open(self) -> None:
        """Opens the database and creates the declared queues. Other calls do this when needed."""
        await self._engine.ready()

    async def close(self) -> None:
        """Finishes what was accepted, and closes the database."""
        await self._engine.close()

    @asynccontextmanager
    async def running(
        self,
        *,
        drain_seconds: float | None = None,
        roles: str | Iterable[str] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> AsyncIterator[None]:
        """Runs workers and the scheduler in this event loop until the block ends, then drains.

        `roles` are some of `scheduler` and `worker`. `registry` receives the metrics. An app runs
        once at a time. Under the test harness this starts nothing: the test drives the app.
        """
        if self._engine.stores.is_in_harness:
            yield
            return
        run = self._engine.running(drain_seconds=drain_seconds, roles=roles, registry=registry)
        async with run:
            yield

    def run(
        self, *, on_started: Callable[[], None] = lambda: None, **options: Unpack[RunOptions]
    ) -> None:
        """Runs a process until SIGTERM or SIGINT, then drains.

        The options are the flags of `tickwork run`: `roles`, `host`, `port`, `http_port`,
        `log_format`, `log_level`, `metrics_host`, `metrics_port`, `drain_seconds`,
        `wait_seconds`.
        """
        run(self._engine, on_started, {**options})


def engine_of(app: Tickwork) -> AppEngine:
    """The engine of an app, for the command line and the test harness."""
    return app._engine  # noqa: SLF001  the package's own door
