"""What the code of an app declares, brought into its store: queues, workflows, schedules."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from tickwork.app.declarations import Registry
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.when import Limits
from tickwork.core.workflow.queue import runs_queue
from tickwork.errors import TickworkError
from tickwork.ops.context import Context
from tickwork.ops.queues import declare_queue, queue_names
from tickwork.ops.schedules.declare import declare_schedules
from tickwork.ops.stores import Store
from tickwork.ops.types import SEEN_SECONDS, register_types
from tickwork.ops.workflows import ensure_workflow

_log = logging.getLogger("tickwork")


class Declared:
    """Creates what the registry of an app has. `open` gives the store of this event loop."""

    def __init__(
        self,
        registry: Registry,
        open: Callable[[], Awaitable[Store]],  # noqa: A002
        scope: Callable[[], Scope],
        limits: Callable[[], Limits],
    ) -> None:
        self._registry, self._open = registry, open
        self._scope, self._limits = scope, limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Task[None] | None = None

    def scope_of(self, name: str, *, is_owner: bool = False) -> Scope:
        """The scope of a queue. The system owns shared queues: it creates them and claims from
        them."""
        declared = self._registry.queues.get(name)
        return SYSTEM if is_owner and declared and declared.is_shared else self._scope()

    async def ensure_queue(self, name: str) -> None:
        """Creates a queue that was declared after the store was opened."""
        for queue in self._registry.missing(name):
            await self._create_queue(await self._open(), queue)

    async def create_late(self, store: Store) -> None:
        """Creates the queues and workflows that were declared after the store was opened."""
        if not self._registry.queues.keys() <= self._registry.created:
            for name in [*self._registry.queues]:
                await self.ensure_queue(name)
        await self._create_workflows(store)

    async def create_for_caller(self, store: Store, theirs: Store) -> None:
        """Creates what a caller's transaction may need: before it, or where only one transaction
        writes at a time, in it. That is forgotten with it, so it is created until it is stored."""
        if not store.writes_alone:
            await self.create_late(store)
            return
        registry, created = self._registry, {*self._registry.created}
        for name in [*registry.queues]:
            for queue in registry.missing(name):
                await self._create_queue(theirs, queue)
        await self._create_workflows(theirs)
        new, registry.created = registry.created - created, created
        if new:
            stored, seen = [
                {*await known.queues.list(self._scope()), *await known.queues.list(SYSTEM)}
                for known in (store, theirs)
            ]
            registry.created |= {queue.name for queue in stored & seen} & new

    async def create_queues(self, store: Store) -> None:
        """Creates all queues and workflows, and reads the names of all that are stored."""
        for name in [*self._registry.queues]:
            await self._create_queue(store, name)
        await self._create_workflows(store)
        await self.read_names(store)
        await self.register_types(store)

    async def read_names(self, store: Store) -> None:
        """Reads the names of all queues that are stored, now and when one is unknown."""
        self._loop = asyncio.get_running_loop()
        await self._read_names(store)

    async def create_schedules(self, store: Store) -> None:
        """Creates or changes the schedules of the app's functions."""
        declared = self._registry.schedules.values()
        context = Context(store, self._scope(), self._limits)
        await declare_schedules(context, declared, app=self._registry.app_name)

    async def create_again(self, store: Store) -> None:
        """Somebody deleted a declared queue, or created the database anew."""
        _log.warning("declared queues are gone: creating the app's queues and schedules again")
        await self.create_queues(store)
        await self.create_schedules(store)

    async def register_types(self, store: Store) -> None:
        """Stores what the app declares about the types of its messages. The app works without."""
        try:
            await register_types(Context(store, self._scope()), self._registry)
        except Exception as error:  # A type of the app may raise anything.
            _log.warning("the types of messages are not in the database: %s", error)

    @asynccontextmanager
    async def types_registered(self, store: Store) -> AsyncIterator[None]:
        """Registers the types, and again from time to time in the block: they are in use."""

        async def register() -> None:
            while True:
                await asyncio.sleep(SEEN_SECONDS)
                await self.register_types(store)

        await self.register_types(store)
        registering = asyncio.create_task(register())
        try:
            yield
        finally:
            registering.cancel()
            await asyncio.wait([registering])

    def read_names_soon(self) -> None:
        """Reads the names of the stored queues again, from any thread."""

        def start() -> None:
            self._reading = asyncio.create_task(read())

        async def read() -> None:
            with suppress(TickworkError):  # The next unknown name tries again.
                await self._read_names(await self._open())

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(start)

    async def _read_names(self, store: Store) -> None:
        names = await queue_names(Context(store, self._scope()))
        self._registry.stored = frozenset(names.values())

    async def _create_queue(self, store: Store, name: str) -> None:
        """A queue declared without settings keeps the stored ones."""
        registry = self._registry
        declared, scope = registry.queues[name], self.scope_of(name, is_owner=True)
        await declare_queue(
            Context(store, scope),
            name,
            declared.settings,
            app=registry.app_name,
            has_settings=declared.has_settings,
            has_handlers=any(handler.queue == name for handler in registry.handlers),
        )
        registry.created.add(name)

    async def _create_workflows(self, store: Store) -> None:
        created = self._registry.created
        for name, versions in self._registry.workflows.items():
            for version in (None, *versions):
                if (queue := runs_queue(name, version)) not in created:
                    pin = bool(version) and versions[version].pin
                    await ensure_workflow(store, name, version, pin=pin)
                    created.add(queue)
