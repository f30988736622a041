"""The entities of an app: their types, and who makes direct calls in each event loop."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from tickwork.app.declarations import Consumer, Registry
from tickwork.app.message import Composer
from tickwork.core.entity.call import queue_of
from tickwork.core.fields import shown
from tickwork.core.limits import ENTITIES_PREFIX
from tickwork.entity.caller import Caller, CallNode
from tickwork.entity.consumer import entity_consumer
from tickwork.entity.entity import EntityType
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.entities import ensure_entity_type
from tickwork.ops.stores import Store

if TYPE_CHECKING:
    from tickwork.service.node import Node

_log = logging.getLogger("tickwork")


class EntityCalls:
    """Makes direct calls. This process joins as a node, which `make_node` makes, with the first
    one. `open` gives the store of this event loop."""

    def __init__(
        self,
        registry: Registry,
        composer: Composer,
        open: Callable[[], Awaitable[Store]],  # noqa: A002
        make_node: Callable[[], CallNode],
    ) -> None:
        self.types: dict[str, EntityType] = {}
        self._registry, self._composer = registry, composer
        self._open, self._make_node = open, make_node
        self._callers: dict[Store, tuple[Caller, CallNode | None]] = {}

    def check_method(self, queue: str, method: object) -> None:
        """Raises `InvalidInput` for a method that a class of this app does not have. The queue is
        that of calls of its entities."""
        known = self.types.get(queue.removeprefix(ENTITIES_PREFIX))
        if known is None or not queue.startswith(ENTITIES_PREFIX) or method in known.methods:
            return
        hint = known.near(str(method)) or f"it has {', '.join(sorted(known.methods)) or 'none'}"
        fault = f"{known.name} has no method {shown(method)}; {hint}"
        raise InvalidInput([FieldError("target.method", fault)])

    async def store(self, type_name: str) -> Store:
        """The store, with the hidden queue of a type of entities."""
        store = await self._open()
        await self._create_queue(store, type_name)
        return store

    def caller(self, store: Store) -> Caller:
        """Makes direct calls on a store."""
        if store not in self._callers:
            node = self._make_node()
            self._callers[store] = Caller(store, node.id, self._composer, _report), node
        return self._callers[store][0]

    async def consumers(self, store: Store) -> list[Consumer]:
        """What handles the messages of this app's entities."""
        for name in self.types:
            await self._create_queue(store, name)
        caller = partial(self.caller, store)
        return [entity_consumer(store, type_, caller) for type_ in self.types.values()]

    @asynccontextmanager
    async def joined(
        self, store: Store, node: Node, on_blocked: Callable[[], Awaitable[None]]
    ) -> AsyncIterator[None]:
        """Makes direct calls on a store as a node that another keeps alive, as the test harness
        does. `on_blocked` runs before a call waits for its entity."""

        async def holder() -> UUID:
            return node.id

        caller = Caller(store, holder, self._composer, _report, on_blocked=on_blocked)
        self._callers[store] = caller, None
        try:
            yield
        finally:
            del self._callers[store]
            await caller.close()

    async def end(self, store: Store) -> None:
        """Ends the calls on a store that is to be closed."""
        caller, node = self._callers.pop(store, (None, None))
        if caller is not None:
            await caller.close()
        if node is not None:
            await node.stop()

    async def _create_queue(self, store: Store, type_name: str) -> None:
        queue = queue_of(type_name)
        if queue not in self._registry.created:
            await ensure_entity_type(store, type_name)
            self._registry.created.add(queue)


def _report(activity: str, error: Exception) -> None:
    _log.warning("%s: %s", activity, error)
