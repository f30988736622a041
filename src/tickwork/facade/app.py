"""The app object: what an app declares, and the doors to its store and its workers.

```python
app = Tickwork("sqlite:///tickwork.db")
emails = app.queue("emails", max_retries=3)

@app.on("emails", type="welcome")
async def welcome(message): ...

await emails.send({"to": "a@example.com"}, type="welcome")     # from anywhere
app.run()                                                      # a process that handles them
```

Outside a handler a send is stored when it returns. Inside one it is kept, and commits with the
end of the message that is being handled.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

from tickwork import wiring
from tickwork.app.declarations import (
    HandlerDeclaration,
    QueueDeclaration,
    Registry,
    handler_options,
)
from tickwork.app.handlers import check_queue_name, check_type_name, queue_settings
from tickwork.app.handling import current_handling
from tickwork.app.message import Message, MessageBatch
from tickwork.app.payloads import Payload, declared_payload
from tickwork.core.limits import check_batch
from tickwork.core.message.batch import BATCH_COMPLETED
from tickwork.core.model import SYSTEM, NewMessage, Scope, Send
from tickwork.core.when import Limits
from tickwork.errors import FieldError, InvalidInput
from tickwork.facade.queue import Queue
from tickwork.facade.schedules import (
    FUNCTIONS_QUEUE,
    HANDLER_OPTIONS,
    Calendars,
    Schedules,
    declaration,
    wrapped,
)
from tickwork.ops.batches import BatchMaker, RunningBatch, check_batch_arguments, completion_handler
from tickwork.ops.queues import check_queues_exist, has_queue, put_queue
from tickwork.ops.schedules.declare import declare_schedules
from tickwork.ops.send import RegistryComposer, send_batch
from tickwork.ops.stores import LoopStores, Store
from tickwork.service.process_lifecycle import announce, run_until_stopped
from tickwork.service.worker.worker import Worker

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

T = TypeVar("T")
Handler = TypeVar("Handler", bound=Callable[..., Any])


class Tickwork:
    """An app on one database."""

    def __init__(
        self,
        database: str | None = None,
        *,
        database_direct: str | None = None,
        tenant: str = "default",
        min_interval_seconds: int | None = None,
    ) -> None:
        self._flags = {
            "database": database,
            "database_direct": database_direct,
            "min_interval_seconds": min_interval_seconds,
        }
        self.tenant, self._scope = tenant, Scope(tenant)
        self.registry = Registry()
        self._stores = LoopStores(self._open)
        self._is_running = False
        self.registry.home = self._home
        self.composer = RegistryComposer(self.registry)
        self._batches = BatchMaker(self._stores, self._ensure, self.composer)
        self.schedules = Schedules(self._with_queues, self._scope, self._limits)
        self.calendars = Calendars(self.open, self._scope)

    # Declaring

    @overload
    def queue(
        self, name: str, *, payload: type[T], shared: bool = False, **settings: Any
    ) -> Queue[T]: ...

    @overload  # Nothing, or what has no name for type checkers: a union, an `Annotated[…]`.
    def queue(
        self, name: str, *, payload: object = None, shared: bool = False, **settings: Any
    ) -> Queue[Any]: ...

    def queue(
        self, name: str, *, payload: Any = None, shared: bool = False, **settings: Any
    ) -> Queue[Any]:
        """A queue; whoever says its settings says them for all that name it."""
        check_queue_name("name", name)
        if not settings and not shared and payload is None and name in self.registry.queues:
            return Queue(self, name)
        self.registry.add_queue(
            QueueDeclaration(
                name=name,
                settings=queue_settings(name, settings),
                payload=Payload(Any if payload is None else payload),
                is_shared=shared,
                says_settings=bool(settings),
            )
        )
        return Queue(self, name)

    def consumer(self, queue: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declares a function that is given the queue's messages in batches."""
        return self._declare(queue, None, is_batch=True, options=options)

    def on(
        self,
        queue: str,
        type: str | None = None,  # noqa: A002  the word that everybody uses for it
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Declares a function that is given the queue's messages of a type, one by one; without a
        type, those that no other handler is for."""
        return self._declare(queue, type, is_batch=False, options=options)

    def on_completed(self, queue: str, **options: Any) -> Callable[[Handler], Handler]:
        """Declares a coroutine function that is given every batch that `batch` made for the queue
        and that has ended, each once; like every handler, again if it fails."""
        check_queue_name("queue", queue)

        def declare(function: Handler) -> Handler:
            told = completion_handler(function, self.open, options)
            with self.registry.whole():
                completions = self.registry.add_completion(queue)
                self._declare(completions, BATCH_COMPLETED, is_batch=False, options=options)(told)
            return function

        return declare

    def schedule(self, *, name: str | None = None, **fields: Any) -> Callable[[Handler], Handler]:
        """Declares a function that runs on a schedule, and is given the `Firing`; the fields are
        those of `schedules.create`, and the name is the function's if none is given."""
        options = {each: fields.pop(each) for each in HANDLER_OPTIONS if each in fields}

        def declare(function: Handler) -> Handler:
            known_as = name or function.__name__
            handler = wrapped(function, known_as, options.get("isolation"))
            with self.registry.whole():
                self.registry.add_schedule(declaration(known_as, fields))
                self.queue(FUNCTIONS_QUEUE)
                self._declare(FUNCTIONS_QUEUE, known_as, is_batch=False, options=options)(handler)
            return function

        return declare

    def _declare(
        self, queue: str, type_: str | None, *, is_batch: bool, options: dict[str, Any]
    ) -> Callable[[Handler], Handler]:
        check_queue_name("queue", queue)
        check_type_name(type_)

        def declare(function: Handler) -> Handler:
            declared = declared_payload(function, MessageBatch if is_batch else Message)
            is_coroutine = asyncio.iscoroutinefunction(function)
            self.registry.add_handler(
                HandlerDeclaration(
                    queue=queue,
                    function=function,
                    payload=Payload(declared),
                    is_batch=is_batch,
                    type=type_,
                    **handler_options(options, is_coroutine=is_coroutine),
                )
            )
            return function

        return declare

    # Doing

    async def batch(
        self,
        queue: str,
        items: Iterable[object],
        *,
        completion_queue: str | None = None,
        batch_id: UUID | None = None,
        detached: bool = False,
        **options: Any,
    ) -> RunningBatch:
        """Makes a message of each item, counted together; the options are those of every one.

        In a handler it commits with the end of its message. `detached` is for more items than
        fit into one transaction: stored at once, and the same batch when the message is handled
        again. With a `batch_id` of your own a batch is made once, however often it is asked for.
        """
        check_batch_arguments(items, batch_id)
        await check_queues_exist(
            self.open, self.registry, self._scope, queue=queue, completion_queue=completion_queue
        )
        return await self._batches.make(
            self._scope,
            queue,
            items,
            completion_queue=completion_queue or self.registry.completions.get(queue),
            batch_id=batch_id,
            detached=detached,
            options=options,
        )

    def background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts work inside a handler; the handler is settled when it has ended."""
        handling = current_handling()
        if handling is None:
            return asyncio.get_running_loop().create_task(work)
        return handling.background(work)

    # Running

    async def open(self) -> Store:
        """The store, opened when it is first asked for; its schema and queues are there then.
        Each event loop has one of its own, which is closed with it."""
        return await self._stores.get()

    async def _open(self) -> Store:
        async with AsyncExitStack() as failed:
            store = await wiring.open_store(self._settings())
            failed.push_async_callback(store.close)
            await self._declare_queues(store)
            failed.pop_all()
        return store

    async def close(self) -> None:
        """Finishes what was accepted, and lets go of the database."""
        await self._stores.close()
        self.registry.made.clear()

    @asynccontextmanager
    async def lent(self, store: Store) -> AsyncIterator[None]:
        """Works on this store meanwhile, and not on its own database."""
        made, self.registry.made = self.registry.made, set()
        try:
            await self._declare_queues(store)
            with self._stores.using(store):
                await self._declare_schedules(store)
                yield
        finally:
            self.registry.made = made

    @asynccontextmanager
    async def running(
        self,
        *,
        drain_seconds: float | None = None,
        roles: str | Iterable[str] | None = None,
        registry: CollectorRegistry | None = None,
    ) -> AsyncIterator[Worker]:
        """Does meanwhile what its roles say: with `worker`, handles messages. The numbers of it
        are in the registry, if one is given. Once at a time."""
        if isinstance(roles, str):
            roles = [each.strip() for each in roles.split(",")]
        chosen_roles = None if roles is None else [*roles]
        settings = self._settings(roles=chosen_roles, drain_seconds=drain_seconds)
        self.registry.check()
        self._stores.check_not_in_harness("app.running()")
        if self._is_running:
            fault = "the app runs already; enter it once, or make another Tickwork(…) for it"
            raise InvalidInput([FieldError("app.running()", fault)])
        self._is_running = True
        try:
            store = await self._with_queues()
            await self._declare_schedules(store)
            watched = await wiring.build_worker(
                store,
                self.registry,
                settings,
                self.scope_of,
                self.composer,
                folder=Path.cwd(),
                serves=chosen_roles is not None and "api" in chosen_roles,
            )
            drain_seconds = settings.drain_seconds
            run = watched.running(drain_seconds=drain_seconds, registry=registry)
            with self.registry.served():
                async with run as worker:
                    yield worker
        finally:
            self._is_running = False
            await self.close()

    def run(
        self,
        *,
        on_started: Callable[[], None] = lambda: None,
        **settings: Any,
    ) -> None:
        """A process that does so until it is told to stop (SIGTERM, SIGINT), then drains; the
        settings are those of `tickwork run`, such as `drain_seconds` and `metrics_port`."""

        def hosted() -> AbstractAsyncContextManager[None]:
            chosen = self._settings(**settings)
            running = partial(self.running, drain_seconds=chosen.drain_seconds, roles=chosen.roles)
            return wiring.hosted(chosen, running)

        def started() -> None:
            chosen = self._settings(**settings)
            handled = [each.queue for each in self.registry.handlers]
            announce(handled, chosen.roles, chosen.log_format)
            on_started()

        run_until_stopped(hosted, started)

    def _home(self) -> object:
        return wiring.database_identity(self._settings(), environ=os.environ), self.tenant

    def _settings(self, **flags: Any) -> wiring.Settings:
        try:
            return wiring.load_settings(
                self._flags | flags,
                environ=os.environ,
                folder=Path.cwd(),
                roles=wiring.RUN_ROLES,
            )
        except InvalidInput as error:
            # What is a flag elsewhere is an argument of ours.
            named = [
                FieldError(each.field.removeprefix("--").replace("-", "_"), each.message)
                for each in error.errors
            ]
            raise InvalidInput(named) from None

    async def _declare_queues(self, store: Store) -> None:
        for name in [*self.registry.queues]:
            await self._declare_queue(store, name)

    async def _declare_schedules(self, store: Store) -> None:
        declared = self.registry.schedules.values()
        await declare_schedules(store, self._scope, declared, limits=self._limits())

    def _limits(self) -> Limits:
        return Limits(min_interval_seconds=self._settings().min_interval_seconds)

    async def _with_queues(self) -> Store:
        """The store, with every queue that is declared by now."""
        store = await self.open()
        for name in [*self.registry.queues]:
            await self._ensure(name)
        return store

    async def _ensure(self, name: str) -> None:
        """A queue that was declared after the store was opened is made now."""
        for each in self.registry.missing(name):
            await self._declare_queue(await self.open(), each)

    async def _declare_queue(self, store: Store, name: str) -> None:
        """Who says nothing about a queue leaves it as it is: only its owner knows its settings."""
        declared, scope = self.registry.queues[name], self.scope_of(name, is_owner=True)
        if declared.says_settings or not await has_queue(store, scope, name):
            await put_queue(store, scope, name, declared.settings)
        self.registry.made.add(name)

    def scope_of(self, name: str, *, is_owner: bool = False) -> Scope:
        """On whose behalf: a shared queue is the system's to make, and to hand out from."""
        declared = self.registry.queues.get(name)
        return SYSTEM if is_owner and declared and declared.is_shared else self._scope

    async def send_messages(self, queue: str, messages: Sequence[NewMessage]) -> None:
        """Sends what is composed already: now, or in a handler with its end."""
        await self._ensure(queue)
        handling = self.composer.handling()
        if handling is not None:
            if len(messages) != 1:  # One alone is looked at when it is kept.
                check_batch(messages)
            for message in messages:
                handling.send(Send(queue, message))
            return
        store = await self.open()
        await send_batch(store, self._scope, queue, messages)
