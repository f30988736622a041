"""Changes of an entity by an operator: its storage, its alarm, or all of it.

A change takes the entity like a direct call does, so that it never runs beside a call. It joins as
a node of its own for a moment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.entity.call import (
    CALL_WAIT_SECONDS_MAX,
    STORAGE_BYTES_MAX,
    Call,
    as_claimed,
    busy_text,
    call_message,
    check_storage_key,
    encode_value,
    entity_id,
    queue_of,
)
from tickwork.core.entity.decide import (
    alarm_time,
    change_of,
    effects_before,
    own_messages,
)
from tickwork.core.entity.model import Alarm, EntityHead, EntityState
from tickwork.core.entity.overlay import Overlay, sizes
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Scope, Send, Settlement, State
from tickwork.errors import EntityBusy, EntityMoved, FieldError, InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.entities import check_names
from tickwork.ops.why import what_keeps
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

NODE_SECONDS = 120.0
"""Seconds that the node of a change lives if its process dies."""

POLL_SECONDS = 0.2
"""Seconds between two looks whether the entity is free."""


async def put_value(context: Context, type_name: str, key: str, name: str, value: Any) -> None:
    """Stores a value in the storage of an entity."""
    check_storage_key(name)
    encoded = encode_value(name, value)
    async with _taken(context, type_name, key) as taken:
        taken.overlay.put(name, encoded)
        replaced = (await context.store.entities.values(context.scope, taken.id, [name])).values
        others = taken.head.storage_bytes - sizes(replaced, [name])
        if others + taken.overlay.put_bytes > STORAGE_BYTES_MAX:
            fault = f"would have more than {STORAGE_BYTES_MAX} bytes; delete some keys"
            raise InvalidInput([FieldError("storage", fault)])
        await taken.commit("entity.put_value", {"name": name, "value": value})


async def delete_value(context: Context, type_name: str, key: str, name: str) -> None:
    """Deletes a key of the storage of an entity; `NotFound` if there is none."""
    check_storage_key(name)
    async with _taken(context, type_name, key) as taken:
        found = await context.store.entities.values(context.scope, taken.id, [name])
        if name not in found.values:
            raise NotFound(f"key in the storage of {type_name} {key!r}", name)
        taken.overlay.delete(name)
        await taken.commit("entity.delete_value", {"name": name})


async def set_alarm(context: Context, type_name: str, key: str, at: datetime) -> None:
    """Sets the alarm of an entity, or replaces it. A time in the past is now."""
    async with _taken(context, type_name, key) as taken:
        alarm = Alarm(new_id(), alarm_time(at, taken.head.now))
        taken.effects = structs.replace(taken.effects, alarm=alarm)
        await taken.commit("entity.set_alarm", {"at": alarm.at.isoformat()})


async def delete_alarm(context: Context, type_name: str, key: str) -> None:
    """Deletes the alarm of an entity; `NotFound` if none is set."""
    async with _taken(context, type_name, key) as taken:
        if taken.effects.alarm is None:
            raise NotFound("alarm of", f"{type_name} {key!r}")
        taken.effects = structs.replace(taken.effects, alarm=None)
        await taken.commit("entity.delete_alarm")


async def delete_entity(context: Context, type_name: str, key: str) -> None:
    """Deletes an entity: its storage, its alarm and its schedules."""
    async with _taken(context, type_name, key) as taken:
        taken.overlay.clear()
        taken.effects = effects_before(None)
        await taken.commit("entity.delete")


class _Taken:
    """An entity that nobody else calls, and what to change of it."""

    def __init__(
        self, store: Store, scope: Scope, call: Call, message: Message, head: EntityHead
    ) -> None:
        self._store = store
        self._scope = scope
        self._call = call
        self._message = message
        self.head, self.id = head, entity_id(call.entity, call.key)
        assert head.state is not None
        self._state: EntityState = head.state
        self.overlay, self.effects = Overlay(), effects_before(head.state)
        self.is_settled = False

    async def commit(self, action: str, after: Mapping[str, Any] | None = None) -> None:
        """Stores the change, and records it in the audit log."""
        call = self._call
        change = change_of(
            call,
            self._state,
            overlay=self.overlay,
            effects=self.effects,
            message_id=self._message.id,
            schema_version=self._state.schema_version,
        )
        messages = own_messages(
            call, self._state, self.effects, {}, now=self.head.now, make_id=new_id
        )
        ending = Ending(
            claim=self._message.current_claim,
            fate=Fate.ACK,
            sends=tuple(Send(queue_of(call.entity), message) for message in messages),
            effects=() if change is None else (change,),
        )
        subject = f"{call.entity}/{call.key}"
        async with recorded(Context(self._store, self._scope), action, subject, after=after):
            await self.settle(ending)

    async def settle(self, ending: Ending) -> None:
        result = await self._store.messages.settle(self._scope, Settlement((ending,)))
        self.is_settled = True
        if result.refused:
            text = "was lost before the change was stored; try again"
            raise EntityMoved(self._call.entity, self._call.key, text)


@asynccontextmanager
async def _taken(context: Context, type_name: str, key: str) -> AsyncIterator[_Taken]:
    """Takes an entity; `NotFound` if it does not exist, `EntityBusy` if calls keep it."""
    await check_names(context.store, type_name, key)
    call, id_ = Call(entity=type_name, key=key), entity_id(type_name, key)
    if (await context.store.entities.head(context.scope, id_)).state is None:
        raise NotFound(type_name, repr(key))
    node = new_id()
    await context.store.nodes.join(
        SYSTEM, node, name="entity edit", roles=(), ttl_seconds=NODE_SECONDS
    )
    try:
        message = await _enter(context, call, node)
        head = await context.store.entities.head(context.scope, id_)
        taken = (
            None
            if head.state is None
            else _Taken(context.store, context.scope, call, message, head)
        )
        try:
            if taken is None:
                raise NotFound(type_name, repr(key))
            yield taken
        finally:
            if taken is None or not taken.is_settled:
                ending = Ending(claim=message.current_claim, fate=Fate.ACK)
                await context.store.messages.settle(context.scope, Settlement((ending,)))
    finally:
        await context.store.nodes.leave(SYSTEM, node)


async def _enter(context: Context, call: Call, node: UUID) -> Message:
    message = call_message(call, new_id())
    async with context.store.wakeups.watch([node]) as watch:
        entered = (
            await context.store.entities.enter(context.scope, queue_of(call.entity), message, node)
        ).message
        if entered.state is State.CLAIMED:
            return entered
        until = monotonic() + CALL_WAIT_SECONDS_MAX
        while monotonic() < until:
            found = await context.store.entities.entered(context.scope, [message.id])
            if found.get(message.id):
                return as_claimed(entered, node)
            await watch.wait(POLL_SECONDS)
        keeper = await what_keeps(context, call.entity, call.key, message.id)
        if not await context.store.entities.withdraw(context.scope, message.id):
            return as_claimed(entered, node)
    raise EntityBusy(call.entity, call.key, busy_text(keeper))
