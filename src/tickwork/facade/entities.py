"""`app.entities` and `app.entity(…)`: declare entities, call them, and look inside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, overload

import msgspec

from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.answers.wait import Wait
from tickwork.core.entity.call import (
    CALL_WAIT_SECONDS_MAX,
    arguments_of,
    check_idempotency_key,
    check_key,
    encode_call,
    queue_of,
    read_call,
)
from tickwork.core.entity.model import CountedType, EntityRecord
from tickwork.core.fields import read_instant
from tickwork.core.model import Send
from tickwork.engine.app_engine import AppEngine
from tickwork.entity.entity import Entity, EntityType
from tickwork.entity.run import Runner
from tickwork.errors import EntityBusy, FieldError, InvalidInput, NotFound
from tickwork.ops import entities as ops
from tickwork.ops import entity_edits
from tickwork.ops.context import Context
from tickwork.ops.why import what_keeps, why_entity

E = TypeVar("E", bound=Entity)


class Entities:
    """The entities of the tenant."""

    def __init__(self, engine: AppEngine) -> None:
        self._engine = engine

    @overload
    def register(self, cls: type[E], *, name: str | None = None) -> type[E]: ...

    @overload
    def register(self, *, name: str | None = None) -> Callable[[type[E]], type[E]]: ...

    def register(self, cls: type[E] | None = None, *, name: str | None = None) -> Any:
        """Declares a class of entities: `@app.entities.register`.

        Args:
            cls: A class derived from `Entity`, with async methods.
            name: The name of the type, by default that of the class.
        """
        if cls is None:
            return lambda given: self.register(given, name=name)
        engine = self._engine
        declared, types = EntityType(cls, name, engine.limits), engine.entities.types
        if declared.name in types and types[declared.name].cls is not cls:
            fault = f"{declared.name} is declared already; give one of them another name"
            raise InvalidInput([FieldError("entity", fault)])
        types[declared.name] = declared
        return cls

    async def types(self, *, limit: int = 100) -> tuple[CountedType, ...]:
        """The first types of entities by name, and how many entities of each there are, counted up
        to 1,000."""
        context = await self._engine.context()
        return await ops.list_types(context, limit=limit)

    async def list(
        self, entity: str, *, prefix: str = "", limit: int = 100
    ) -> tuple[EntityRecord, ...]:
        """The first entities of a type by key, those whose key begins with `prefix`."""
        context = await self._engine.context()
        return await ops.list_entities(context, entity, prefix=prefix, limit=limit)

    async def get(self, entity: str, key: str) -> EntityRecord:
        """The size, the alarm and the schedules of an entity. Raises `NotFound`."""
        return await ops.get_entity(await self._engine.context(), entity, key)

    async def delete(self, entity: str, key: str) -> None:
        """Deletes the storage, the alarm and the schedules of an entity."""
        context = await self._engine.context()
        await entity_edits.delete_entity(context, entity, key)

    async def storage(
        self, entity: str, key: str, *, prefix: str = "", limit: int = 100
    ) -> dict[str, Any]:
        """Keys and values of an entity's storage, in the order of the keys' bytes."""
        context = await self._engine.context()
        return await ops.list_storage(context, entity, key, prefix=prefix, limit=limit)

    async def get_value(self, entity: str, key: str, name: str) -> Any:
        """One value of an entity's storage. Raises `NotFound`."""
        context = await self._engine.context()
        return await ops.get_value(context, entity, key, name)

    async def put_value(self, entity: str, key: str, name: str, value: Any) -> None:
        """Stores a value in an entity's storage, between its calls."""
        context = await self._engine.context()
        await entity_edits.put_value(context, entity, key, name, value)

    async def delete_value(self, entity: str, key: str, name: str) -> None:
        """Deletes a key of an entity's storage, between its calls."""
        context = await self._engine.context()
        await entity_edits.delete_value(context, entity, key, name)

    async def get_alarm(self, entity: str, key: str) -> datetime:
        """When the alarm is set to fire. Raises `NotFound` if none is set."""
        found = await self.get(entity, key)
        if found.alarm_at is None:
            raise NotFound("alarm of", f"{entity} {key!r}")
        return found.alarm_at

    async def set_alarm(self, entity: str, key: str, at: datetime | str) -> None:
        """Sets the alarm, or replaces it. A time in the past is now."""
        when = read_instant("at", at)
        if when is None:
            raise InvalidInput([FieldError("at", "is missing; such as 2027-01-01T09:00:00Z")])
        if (known := self._engine.entities.types.get(entity)) is not None:
            known.check_alarm()
        context = await self._engine.context()
        await entity_edits.set_alarm(context, entity, key, when)

    async def delete_alarm(self, entity: str, key: str) -> None:
        """Deletes the alarm. Raises `NotFound` if none is set."""
        context = await self._engine.context()
        await entity_edits.delete_alarm(context, entity, key)

    async def call(
        self,
        entity: str,
        key: str,
        method: str,
        args: Sequence[Any] | Mapping[str, Any] = (),
        *,
        idempotency_key: str | None = None,
    ) -> Any:
        """Calls a method that the class marks with `@exposed`, on any worker, and returns its
        result after it was committed. The class need not be known here. Raises `EntityBusy` if it
        has not run after a minute.

        Args:
            entity: The type of the entity: the name of its class.
            key: Its key.
            method: The name of the method.
            args: Arguments by position or by name.
            idempotency_key: A repeat with the same key returns the same result.
        """
        context = await self._engine.context()
        by_position, by_name = arguments_of(args)
        call = ops.new_call(entity, key, method, by_position, by_name, idempotency_key)
        seconds = 2 * CALL_WAIT_SECONDS_MAX
        value = await ops.request_call(context, call, wait_seconds=seconds)
        if value is None:
            keeper = await what_keeps(context, entity, key)
            text = f"did not run {method} in {seconds:g} seconds, and may still: first is {keeper}"
            raise EntityBusy(entity, key, text)
        return msgspec.json.decode(value)

    async def why(self, entity: str, key: str) -> tuple[Wait, ...]:
        """What the alarm and the calls of an entity wait for, the first ones first."""
        return await why_entity(await self._engine.context(), entity, key)


class EntityHandle:
    """One entity to call: `await app.entity(Brand, "llc-tax").rename("LLC")`.

    A method returns its result after everything it changed is committed. `send` calls it later, on
    any worker: `await app.entity(Brand, "llc-tax").send.rename("LLC")`.
    """

    def __init__(
        self, engine: AppEngine, type_: EntityType, key: str, idempotency_key: str | None
    ) -> None:
        self._engine = engine
        self._type = type_
        self._key = key
        self._idempotency_key = idempotency_key

    @property
    def send(self) -> SendHandle:
        """Calls methods by messages: durable, in order, on any worker."""
        return SendHandle(self._engine, self._type, self._key, self._idempotency_key)

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        self._type.method(method)

        async def call(*args: Any, **kwargs: Any) -> Any:
            engine, type_ = self._engine, self._type
            store, handling = await engine.entities.store(type_.name), engine.composer.handling()
            idempotency_key = self._idempotency_key
            if idempotency_key is None and handling is not None:
                idempotency_key = handling.next_call_key()
            named = ops.new_call(type_.name, self._key, method, args, kwargs, idempotency_key)
            # As a send would carry it, so that both get the same values.
            called = read_call(encode_call(named))
            caller = engine.entities.caller(store)
            return msgspec.json.decode(
                await caller.call(engine.scope, Runner(store, type_), called)
            )

        return call


class SendHandle:
    """Sends calls to one entity."""

    def __init__(
        self, engine: AppEngine, type_: EntityType, key: str, idempotency_key: str | None
    ) -> None:
        self._engine = engine
        self._type = type_
        self._key = key
        self._idempotency_key = idempotency_key

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Id]]:
        self._type.method(method)

        async def send(*args: Any, **kwargs: Any) -> Id:
            engine, type_ = self._engine, self._type
            store = await engine.entities.store(type_.name)
            call = ops.new_call(type_.name, self._key, method, args, kwargs, self._idempotency_key)
            Runner(store, type_).check(call)
            handling = engine.composer.handling()
            if handling is None:
                return Id.of(
                    Prefix.MESSAGE, await ops.send_call(Context(store, engine.scope), call)
                )
            message = ops.new_call_message(call)
            handling.send(Send(queue_of(type_.name), message))
            return Id.of(Prefix.MESSAGE, message.id)

        return send


def entity_handle(
    engine: AppEngine, entity: type[Entity] | str, key: str, idempotency_key: str | None
) -> EntityHandle:
    """The handle of an entity; `InvalidInput` for a class that is not registered."""
    types = engine.entities.types
    found = [
        type_
        for name, type_ in types.items()
        if type_.cls is entity or (isinstance(entity, str) and name == entity)
    ]
    if not found:
        name = entity if isinstance(entity, str) else getattr(entity, "__name__", repr(entity))
        fault = f"{name} is not registered; declare it with @app.entities.register"
        raise InvalidInput([FieldError("entity", fault)])
    check_key(key)
    if idempotency_key is not None:
        check_idempotency_key(idempotency_key)
    return EntityHandle(engine, found[0], key, idempotency_key)
