"""The engine of one app: what it declared, its store in each event loop, and how it runs.

`Tickwork` shows users what they may call; this is what those calls share. Outside a handler a send
is stored when it returns. Inside one it is kept, and commits when the message is settled.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import structs

from tickwork import clock, wiring
from tickwork.app.declarations import Registry
from tickwork.app.handlers import check_queue_name
from tickwork.app.invocation import check_read, step_out
from tickwork.app.payloads import Payload
from tickwork.app.services import AsgiApp, ServiceDeclaration
from tickwork.channel.asgi import AsgiService
from tickwork.channel.channels import WebhookSink
from tickwork.core.http.call import ServiceTarget
from tickwork.core.limits import check_batch
from tickwork.core.model import NewMessage, Scope, Send
from tickwork.core.types.declared import UnknownTypes
from tickwork.core.when import Limits
from tickwork.engine.declared import Declared
from tickwork.engine.entity_calls import EntityCalls
from tickwork.entity.caller import CallNode
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.ops.audit import act_as
from tickwork.ops.batches import BatchMaker
from tickwork.ops.context import Context
from tickwork.ops.outside import Box, Outside
from tickwork.ops.queues import find_queue, with_nearest
from tickwork.ops.send import RegistryComposer, send_batch
from tickwork.ops.services import ServiceCaller
from tickwork.ops.stores import LoopStores, Store
from tickwork.ops.types import TypesOfOthers, check_messages, check_sends
from tickwork.ops.webhook_secret import rotate_signing_secret, signing_secret
from tickwork.service.http_application import HttpApplication

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tickwork.service.worker.worker import Worker


_log = logging.getLogger("tickwork")

_TOO_OLD = (
    "if your transaction began before the queue was created, repeat it; `await app.open()` "
    "creates declared queues beforehand"
)

_OPENS_FOR_CALLER: ContextVar[bool] = ContextVar("tickwork_opens_for_caller", default=False)


class AppEngine:
    """The shared parts of an app."""

    def __init__(self, flags: dict[str, Any], tenant: str, app_name: str) -> None:
        self._flags = flags
        self.tenant = tenant
        self.own_scope = Scope(tenant)
        self.registry = Registry(app_name)
        self.registry.home = self._home
        self.declared = Declared(self.registry, self.open, lambda: self.own_scope, self.limits)
        self.registry.on_unknown = self.declared.read_names_soon
        self.composer = RegistryComposer(self.registry)
        self.stores = LoopStores(self._open, lambda store: self.entities.end(store))
        self.entities = EntityCalls(self.registry, self.composer, self.open, self._call_node)
        self.unknown_types: Callable[[], UnknownTypes] = lambda: self.settings().unknown_types
        self.types_of_others = TypesOfOthers(
            self.registry, self.composer, self.open, lambda: self.scope, self.unknown_types
        )
        self.batch_maker = BatchMaker(
            self.stores, self.declared.ensure_queue, self.composer, self.types_of_others
        )
        self.service_caller = ServiceCaller(self._open_service)
        self.http_application = HttpApplication(self.registry.http_handlers, self.open, tenant)
        self.stand_ins: dict[str, AsgiApp] = {}
        """What answers for services under the test harness, by name."""
        self._is_running = False
        self.now: Callable[[], datetime] = clock.now
        self.secret_box: Callable[[], Box] = lambda: wiring.secret_box(self.settings())
        self.secret_reader: Callable[[], Box] = lambda: wiring.secret_box(
            self.settings(), make_key=False
        )
        self.webhook_sink: Callable[[], WebhookSink] = lambda: wiring.webhook_sink(self.settings())
        self.public_url: Callable[[], str | None] = lambda: self.settings().public_url

    # The store

    async def open(self) -> Store:
        """The store of this event loop, opened when it is first asked for. Its schema and the
        declared queues exist then; it is closed with the loop."""
        return await self.stores.get()

    async def ready(self) -> Store:
        """The store, with every queue that is declared by now."""
        check_read()
        store = await self.open()
        await self.declared.create_late(store)
        return store

    def scope_of(self, owner: str | None) -> Scope:
        """The scope of a call, or of one owner in it."""
        return self.scope if owner is None else structs.replace(self.scope, owner=owner)

    async def context(self, queue: str | None = None, *, owner: str | None = None) -> Context:
        """What the verbs of this app work with, for one owner if it is given. For a call that names
        a queue it raises `InvalidInput` unless that is a name, and `NotFound` with the nearest name
        if there is no such queue."""
        if queue is not None:
            check_queue_name("queue", queue)
        context = self.context_on(await self.ready(), owner)
        if queue is not None:
            try:
                await find_queue(context, queue)
            except NotFound as error:
                raise await with_nearest(context, error) from None
        return context

    def context_on(self, store: Store, owner: str | None) -> Context:
        scope, types = self.scope_of(owner), self.payload_sent
        outside, unknown = self.outside(), self.unknown_types
        return Context(store, scope, self.limits, types, self.now, outside, unknown)

    def payload_sent(self, queue: str, message_type: str | None) -> Payload[Any] | None:
        """The type of what is sent to a queue, as this app declares it. For calls of entities the
        type is a method: raises `InvalidInput` for one that their class does not have."""
        self.entities.check_method(queue, message_type)
        return self.registry.payload_sent(queue, message_type)

    async def close(self) -> None:
        """Finishes what was accepted, and closes the store of this event loop."""
        await self.service_caller.close()
        await self.http_application.close()
        await self.stores.close()
        self.registry.created.clear()

    @asynccontextmanager
    async def using(
        self,
        store: Store,
        now: Callable[[], datetime] = clock.now,
        *,
        secret_box: Callable[[], Box] | None = None,
        webhook_sink: Callable[[], WebhookSink] | None = None,
        public_url: Callable[[], str | None] | None = None,
    ) -> AsyncIterator[None]:
        """Works on the given store and clock, with the given secrets, receivers of webhooks and
        public URL, instead of its own, as the test harness does."""
        created, self.registry.created = self.registry.created, set()
        stored, self.now = self.registry.stored, now
        own = self.secret_box, self.secret_reader, self.webhook_sink, self.public_url
        self.secret_box, self.secret_reader = secret_box or own[0], secret_box or own[1]
        self.webhook_sink, self.public_url = webhook_sink or own[2], public_url or own[3]
        act_as(store, self._actor)
        try:
            await self.declared.create_queues(store)
            with self.stores.using(store):
                await self.declared.create_schedules(store)
                yield
        finally:
            await self.service_caller.close()
            self.stand_ins.clear()
            self.registry.created, self.registry.stored = created, stored
            self.now = clock.now
            self.secret_box, self.secret_reader, self.webhook_sink, self.public_url = own

    def verb_context(
        self, connection: object, *, owner: str | None = None
    ) -> AbstractAsyncContextManager[Context]:
        """What a verb works with: in the transaction of a caller's connection, if there is one."""
        return _VerbContext(self, connection, owner)

    async def send(
        self, queue: str, messages: Sequence[NewMessage], connection: object = None
    ) -> None:
        """Sends composed messages: now, inside a handler when its message is settled, or in the
        transaction of a caller's connection."""
        if connection is not None:
            messages = self.composer.caused(messages)
            async with self.verb_context(connection) as context:
                if not self.registry.knows_types(queue):
                    await check_sends(context, queue, messages)
                await send_batch(context, queue, messages)
            return
        if queue not in self.registry.created:
            await self.declared.ensure_queue(queue)
        handling = self.composer.handling()
        if (types := await self.types_of_others(queue)) is not None:
            check_messages(types, queue, messages)
        if handling is None:
            await send_batch(Context(await self.open(), self.own_scope), queue, messages)
            return
        if len(messages) != 1:  # A single message is checked when it is kept.
            check_batch(messages)
        for message in messages:
            handling.send(Send(queue, message))

    @property
    def scope(self) -> Scope:
        """The tenant of the message that is being handled; outside handlers that of the app."""
        handling = self.composer.handling()
        cause = None if handling is None else handling.cause
        return self.own_scope if cause is None else Scope(cause.tenant)

    def limits(self) -> Limits:
        """The limits of this installation."""
        return self.settings().schedule_limits

    def outside(self) -> Outside:
        """Which targets outside its schedules may have."""
        return Outside(
            self.check_url,
            self.public_url,
            self.secret_box,
            self.secret_reader,
            self.webhook_sink,
            owner_targets=None,
        )

    def check_url(self, url: str) -> None:
        """Raises `InvalidInput` for a URL that deliveries may not reach."""
        wiring.guard(self.settings()).check_url(url)

    async def signing_secret(self, *, rotate: bool = False) -> str:
        """The secret that webhooks of this tenant are signed with."""
        verb = rotate_signing_secret if rotate else signing_secret
        return await verb(await self.context())

    @property
    def given_settings(self) -> dict[str, Any]:
        """The settings that were given to `Tickwork(…)`."""
        return {name: value for name, value in self._flags.items() if value is not None}

    def settings(self, **flags: Any) -> wiring.Settings:
        """The settings of a process that runs this app."""
        try:
            return wiring.load_settings(
                self._flags | flags,
                environ=os.environ,
                folder=Path.cwd(),
                roles=wiring.RUN_ROLES,
            )
        except InvalidInput as error:
            # Flags of the command line are keyword arguments here.
            named = [
                FieldError(fault.field.removeprefix("--").replace("-", "_"), fault.message)
                for fault in error.errors
            ]
            raise InvalidInput(named) from None

    # Services

    def _open_service(self, service: ServiceDeclaration) -> ServiceTarget:
        """What answers for a service. Raises `NotFound` if nobody says where it is."""
        target = self.stand_ins.get(service.name, service.target)
        if callable(target):
            return AsgiService(service.name, target, step_out)
        url = target
        if url is None:
            known = wiring.read_topology(Path.cwd()).services
            url = next((entry.url for entry in known if entry.name == service.name), None)
        if url is None:
            hint = "add [[services]] with its name and url to tickwork.toml, or bind it in code"
            raise NotFound("service", service.name, hint)
        settings, is_in_code = self.settings(), target is not None
        return wiring.remote_service(settings, service.name, url, is_in_code=is_in_code)

    # Running

    @asynccontextmanager
    async def running(
        self,
        *,
        drain_seconds: float | None = None,
        roles: str | Iterable[str] | None = None,
        registry: CollectorRegistry | None = None,
        on_declared: Callable[[Store], Awaitable[None]] | None = None,
    ) -> AsyncIterator[Worker]:
        """Runs the roles of this process in the background; drains at the end. `on_declared` is
        called before any of them starts."""
        if isinstance(roles, str):
            roles = [part.strip() for part in roles.split(",")]
        chosen_roles = None if roles is None else [*roles]
        settings = self.settings(roles=chosen_roles, drain_seconds=drain_seconds)
        self.registry.check()
        if self._is_running:
            fault = "the app is running already; enter it once, or create another Tickwork(…)"
            raise InvalidInput([FieldError("app.running()", fault)])
        self._is_running = True
        try:
            store = await self.ready()
            await self.declared.create_schedules(store)
            if on_declared is not None:
                await on_declared(store)
            watched = await wiring.build_worker(
                store,
                self.registry,
                settings,
                self.declared.scope_of,
                self.composer,
                folder=Path.cwd(),
                serves=chosen_roles is not None and "api" in chosen_roles,
                declare_again=partial(self.declared.create_again, store),
                entities=await self.entities.consumers(store),
            )
            run = watched.running(drain_seconds=settings.drain_seconds, registry=registry)
            types = self.declared.types_registered(store)
            with self.registry.served():
                async with types, run as worker:
                    yield worker
        finally:
            self._is_running = False
            await self.close()

    async def _open(self) -> Store:
        async with AsyncExitStack() as failed:
            for_caller = _OPENS_FOR_CALLER.get()
            store = await wiring.open_store(self.settings(), for_caller=for_caller)
            failed.push_async_callback(store.close)
            act_as(store, self._actor)
            if for_caller:
                await self.declared.read_names(store)
            else:
                await self.declared.create_queues(store)
            failed.pop_all()
        return store

    async def open_for_caller(self) -> Store:
        """The store. If it is opened now, nothing is written to it: the caller's transaction may
        have the only lock for that."""
        token = _OPENS_FOR_CALLER.set(True)
        try:
            return await self.open()
        finally:
            _OPENS_FOR_CALLER.reset(token)

    @property
    def _actor(self) -> str:
        """Who changes what the app's code changes, in the audit log."""
        return f"app {self.registry.app_name}"

    def _home(self) -> object:
        return wiring.database_identity(self.settings(), environ=os.environ), self.tenant

    def _call_node(self) -> CallNode:
        return CallNode(lambda: wiring.open_store(self.settings()), wiring.node_name())


class _VerbContext:
    """What a verb works with. (A generator would take longer, for each send.)"""

    def __init__(self, engine: AppEngine, connection: object, owner: str | None) -> None:
        self._engine = engine
        self._connection, self._owner = connection, owner
        self._transaction: AbstractAsyncContextManager[Store] | None = None

    async def __aenter__(self) -> Context:
        engine = self._engine
        if self._connection is None:
            return await engine.context(owner=self._owner)
        check_read()
        store = await engine.open_for_caller()
        transaction = store.callers_transaction(self._connection)
        theirs = await transaction.__aenter__()
        try:
            await engine.declared.create_for_caller(store, theirs)
            self._transaction = transaction
        finally:
            if self._transaction is None:
                await transaction.__aexit__(*sys.exc_info())
        return engine.context_on(theirs, self._owner)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._transaction is not None:
            await self._transaction.__aexit__(kind, error, trace)
            missing = error.name if isinstance(error, NotFound) and error.kind == "queue" else None
            if missing is not None and missing in self._engine.registry.created:
                raise NotFound("queue", missing, _TOO_OLD) from None
