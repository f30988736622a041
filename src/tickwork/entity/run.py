"""Runs a call of an entity: reads its state, runs the method, and returns what to commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.entity.call import (
    Call,
    Entered,
    encode_result,
    entity_id,
    error_of,
    fingerprint,
    queue_of,
)
from tickwork.core.entity.decide import (
    alarm_time,
    change_of,
    effects_before,
    has_new_alarm,
    is_alarm_due,
    own_messages,
    schedule_fields,
    version_to_migrate,
    with_schedule,
)
from tickwork.core.entity.model import Alarm, CallResult, EntityHead
from tickwork.core.message.outcome import Committed
from tickwork.core.model import Scope, Send
from tickwork.core.schedule.fields import read_definition
from tickwork.entity.entity import AlarmInfo, Entity, EntityType
from tickwork.entity.storage import StateChanged, Storage
from tickwork.errors import Conflict, EntityCycle, FieldError, InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

READ_ATTEMPTS_MAX = 5
"""Number of times that a method with @read runs beside calls that change the entity. After that it
waits for its turn."""

Link = tuple[str, str, str]
"""Tenant, type and key of an entity."""

_chain: ContextVar[tuple[Link, ...]] = ContextVar("tickwork_entity_chain", default=())


class Returned(NamedTuple):
    """The result of a call as JSON, and what it commits."""

    value: bytes
    committed: Committed


class EntityCall:
    """One call: what the entity may do, and what it did."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        type_: EntityType,
        call: Call,
        head: EntityHead,
        *,
        is_read_only: bool = False,
        is_alarm: bool = False,
    ) -> None:
        self._store = store
        self._scope = scope
        self._call = call
        self.head = head
        self._type, self._is_read_only = type_, is_read_only
        self._schedules: dict[str, dict[str, Any]] = {}
        self.effects = effects_before(head.state, is_alarm=is_alarm)
        self.storage = Storage(
            store,
            scope,
            entity_id(call.entity, call.key),
            changed_by=None if head.state is None else head.state.changed_by,
            values=head.values,
            is_read_only=is_read_only,
            on_cleared=self._cleared,
        )

    @property
    def tenant(self) -> str:
        assert self._scope.tenant is not None
        return self._scope.tenant

    @property
    def key(self) -> str:
        return self._call.key

    @property
    def now(self) -> datetime:
        return self.head.now

    def get_alarm(self) -> datetime | None:
        return None if self.effects.alarm is None else self.effects.alarm.at

    def set_alarm(self, at: datetime) -> None:
        self._check_writable("alarm")
        self._type.check_alarm()
        self._set(Alarm(new_id(), alarm_time(at, self.now)))

    def delete_alarm(self) -> None:
        self._set(None)

    def set_schedule(
        self, name: str, method: str, fields: Mapping[str, Any], **timing: Any
    ) -> None:
        self._check_writable("schedule")
        self._type.method(method)
        made = schedule_fields(self._call, method, fields, **timing)
        read_definition(
            # Calendars are looked up when the schedule is created.
            {field: value for field, value in made.items() if field not in ("calendar", "roll")},
            schedule_id=new_id(),
            created_at=self.now,
            calendars={},
            limits=self._type.limits(),
        )
        self.effects = with_schedule(self.effects, name)
        self._schedules.pop(name, None)
        self._schedules[name] = made

    def delete_schedule(self, name: str) -> bool:
        self._check_writable("schedule")
        left = tuple(schedule for schedule in self.effects.schedules if schedule != name)
        is_gone = left != self.effects.schedules
        self.effects = structs.replace(self.effects, schedules=left)
        return is_gone

    def _check_writable(self, field: str) -> None:
        self.storage.check_open(field)
        if self._is_read_only:
            fault = "cannot be changed by a method with @read; remove @read"
            raise InvalidInput([FieldError(field, fault)])

    def _set(self, alarm: Alarm | None) -> None:
        self._check_writable("alarm")
        self.effects = structs.replace(self.effects, alarm=alarm)

    def _cleared(self) -> None:
        self.effects = effects_before(None)

    async def commit(
        self, message_id: UUID, schema_version: int, result: CallResult | None
    ) -> Committed:
        """What the call commits with its message."""
        await self.storage.check_size(self.head.storage_bytes)
        call, before = self._call, self.head.state
        change = change_of(
            call,
            before,
            overlay=self.storage.changes,
            effects=self.effects,
            message_id=message_id,
            schema_version=schema_version,
            result=result,
        )
        now = self.now
        if has_new_alarm(before, self.effects):  # The call may have taken long.
            now = await self._store.now()
        messages = own_messages(
            call, before, self.effects, self._schedules, now=now, make_id=new_id
        )
        return Committed(
            () if change is None else (change,),
            tuple(Send(queue_of(call.entity), message) for message in messages),
        )


class Runner:
    """Runs calls of one type, on the messages that carry them."""

    def __init__(self, store: Store, type_: EntityType) -> None:
        self._store, self.type = store, type_

    def check(self, call: Call) -> None:
        """Raises `NotFound` for an unknown method, `InvalidInput` for arguments that do not fit."""
        self.type.method(call.method, only_exposed=call.answers)
        try:
            self.type.check_arguments(call.method, call.args, call.kwargs)
        except TypeError as error:
            fault = f"do not fit {self.type.name}.{call.method}: {error}"
            raise InvalidInput([FieldError("args", fault)]) from None

    async def run(
        self,
        scope: Scope,
        call: Call,
        message_id: UUID,
        *,
        head: EntityHead | None = None,
        is_checked: bool = False,
    ) -> Returned:
        """Runs a method under the entity's claim. `head` was read under the same claim."""
        key = call.idempotency_key
        if head is None:
            id_ = entity_id(call.entity, call.key)
            head = await self._store.entities.head(scope, id_, key)
        if head.result is not None:
            return _known(head.result, call)
        if not is_checked:
            self.check(call)
        is_read_only = self.type.is_read(call.method)
        running = EntityCall(self._store, scope, self.type, call, head, is_read_only=is_read_only)

        async def work(entity: Entity) -> Any:
            return await getattr(entity, call.method)(*call.args, **call.kwargs)

        value = encode_result(await self._invoke(running, scope, call, work), call.method)
        kept = None
        if key is not None:
            kept = CallResult(key=key, fingerprint=fingerprint(call), value=value)
        committed = await running.commit(message_id, self.type.cls.schema_version, kept)
        return Returned(value, committed)

    async def run_alarm(
        self, scope: Scope, call: Call, entered: Entered, *, retries: int
    ) -> Returned:
        """Runs the alarm's handler under the entity's claim, unless the alarm was replaced."""
        assert call.alarm is not None
        head = entered.head
        if head is None:
            head = await self._store.entities.head(scope, entity_id(call.entity, call.key))
        if not is_alarm_due(head.state, call.alarm):
            return Returned(b"null", Committed())
        running = EntityCall(self._store, scope, self.type, call, head, is_alarm=True)
        at = call.alarm_at or head.now
        late_seconds = max((head.now - at).total_seconds(), 0.0)
        info = AlarmInfo(at, late_seconds, retries)
        await self._invoke(running, scope, call, lambda entity: entity.alarm(info))
        version = self.type.cls.schema_version
        return Returned(b"null", await running.commit(entered.message.id, version, None))

    async def read(self, scope: Scope, call: Call) -> bytes | None:
        """Runs a method that only reads, without a claim; None if it must wait for its turn."""
        self.check(call)

        async def work(entity: Entity) -> Any:
            return await getattr(entity, call.method)(*call.args, **call.kwargs)

        for _ in range(READ_ATTEMPTS_MAX):
            head = await self._store.entities.head(scope, entity_id(call.entity, call.key))
            version = self.type.cls.schema_version
            if version_to_migrate(head.state, version, call) is not None:
                return None
            running = EntityCall(self._store, scope, self.type, call, head, is_read_only=True)
            try:
                value = await work(self.type.cls(running))
            except StateChanged:
                continue
            finally:
                running.storage.end()
            if not running.storage.has_seen_change:
                return encode_result(value, call.method)
        return None

    async def _invoke(
        self,
        running: EntityCall,
        scope: Scope,
        call: Call,
        work: Callable[[Entity], Awaitable[Any]],
    ) -> Any:
        entity = self.type.cls(running)
        try:
            with _linked(scope, call):
                version = self.type.cls.schema_version
                before = version_to_migrate(running.head.state, version, call)
                if before is not None:
                    with running.storage.writable():
                        await entity.migrate(before)
                return await work(entity)
        finally:
            running.storage.end()


def check_cycle(scope: Scope, call: Call) -> None:
    """Raises `EntityCycle` for a call into an entity that waits for this call."""
    chain, link = _chain.get(), _link(scope, call)
    if link in chain:
        shown = " → ".join(f"{type_} {key!r}" for _, type_, key in (*chain, link))
        text = f"waits for this call, so that it would never end: {shown}; use .send"
        raise EntityCycle(call.entity, call.key, text)


@contextmanager
def _linked(scope: Scope, call: Call) -> Iterator[None]:
    before = _chain.set((*_chain.get(), _link(scope, call)))
    try:
        yield
    finally:
        _chain.reset(before)


def _link(scope: Scope, call: Call) -> Link:
    return scope.tenant or "", call.entity, call.key


def _known(result: CallResult, call: Call) -> Returned:
    """The kept result of an earlier call with the same key. Whoever waits for an answer finds it in
    the store, and whether it is that of another call."""
    if call.answers:
        return Returned(b"null", Committed())
    if result.fingerprint != fingerprint(call):
        raise Conflict(
            f"idempotency_key {result.key!r} was used for another call of {call.entity} "
            f"{call.key!r}; use a new one"
        )
    if result.error is not None:
        raise error_of(call, result.error)
    return Returned(result.value or b"null", Committed())
