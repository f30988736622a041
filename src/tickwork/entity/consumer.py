"""Handles the messages of entities: sends, alarms, slots of schedules, and calls over HTTP.

A send has the entity's key, so the claim of its message is the claim of the entity. An alarm and a
slot have none: a direct call takes the entity for them while they run, so that their retries block
no calls. A message for which this node's code is too old is put back for another node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import structs

from tickwork.app.declarations import Consumer, hidden_consumer
from tickwork.app.message import ClaimedMessage, Message
from tickwork.core.entity.call import (
    ALARM_METHOD,
    ENTITY_SETTINGS,
    Call,
    CallError,
    entity_id,
    fingerprint,
    queue_of,
    read_call,
)
from tickwork.core.entity.missing_method import missing_method
from tickwork.core.entity.model import CallResult, EntityChange
from tickwork.core.message import outcome
from tickwork.core.message.error_summary import summary
from tickwork.core.message.outcome import Committed, Snoozed
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.model import Message as Stored
from tickwork.entity.caller import Caller
from tickwork.entity.entity import EntityType
from tickwork.entity.run import Runner
from tickwork.errors import (
    EntityBusy,
    EntityCallFailed,
    EntityMoved,
    OlderCode,
    StoreError,
    TickworkError,
)
from tickwork.ops.context import Context
from tickwork.ops.entities import put_entity_schedule
from tickwork.ops.obstacles import WORKER_ROLE
from tickwork.service.worker.invoke import describe
from tickwork.store.contract import Store

BUSY_SECONDS = 1.0
"""Seconds until an alarm or a slot is tried again whose entity was busy."""

OLDER_CODE_SECONDS = 5.0
"""Seconds until a call is tried again that needs newer code than this node has."""

IN_FLIGHT_MAX = 1_000
"""Number of sends, alarms and slots of a type that a node runs at the same time. Those that run
together share their commits."""

_log = logging.getLogger("tickwork")


class EntityHandler:
    """Handles the messages of one type."""

    def __init__(self, store: Store, type_: EntityType, caller: Callable[[], Caller]) -> None:
        self._store = store
        self._runner = Runner(store, type_)
        self._caller = caller
        self._warned: set[str] = set()

    async def handle(self, message: Message[Any]) -> None:
        """Runs the call that a message carries."""
        assert isinstance(message, ClaimedMessage)
        stored = message.stored
        try:
            call = read_call(stored.body)
        except msgspec.MsgspecError as error:
            message.settle(outcome.Permanent(f"the message is no call of an entity: {error}"))
            return
        scope = Scope(stored.tenant)
        try:
            if call.schedule is not None:
                await put_entity_schedule(
                    Context(self._store, scope, self._runner.type.limits), call
                )
            elif (missing := self._missing_method(call)) is not None:
                message.settle(await self._put_back(call, missing, stored))
            elif call.alarm is not None:
                await self._alarm(scope, call, stored)
            elif stored.key is None:
                await self._slot(scope, call, stored)
            elif call.answers:
                message.settle(await self._answer(scope, call, stored))
            else:
                returned = await self._runner.run(scope, call, stored.id)
                message.settle(returned.committed)
        except (EntityBusy, EntityMoved):
            message.settle(Snoozed(BUSY_SECONDS))
        except OlderCode as error:
            self._warn("", str(error))
            message.settle(Snoozed(OLDER_CODE_SECONDS, str(error)))

    def _missing_method(self, call: Call) -> str | None:
        """The method that a call needs and that the class does not have."""
        type_ = self._runner.type
        if call.alarm is not None:
            return None if type_.has_alarm else ALARM_METHOD
        # Whoever waits for an answer is told.
        return None if call.answers or call.method in type_.methods else call.method

    async def _put_back(self, call: Call, method: str, stored: Stored) -> outcome.UnhandledType:
        """Puts a call back for a node that has its method, unless no live worker has it."""
        now = await self._store.now()
        nodes = await self._store.nodes.list(SYSTEM)
        found = missing_method(
            f"{call.entity}.{method}",
            self._runner.type.near(method),
            last_error=stored.last_error,
            node=stored.holder,
            workers=[
                node.id for node in nodes if WORKER_ROLE in node.roles and node.expires_at > now
            ],
        )
        if not found.is_nowhere:
            self._warn(method, f"no handler for {found.what}")
        return found

    def _warn(self, about: str, fault: str) -> None:
        """Logs once what a call needs that this node does not have."""
        if about not in self._warned:
            self._warned.add(about)
            _log.warning("%s; such calls wait for a node with newer code", fault)

    async def _slot(self, scope: Scope, call: Call, stored: Stored) -> None:
        once = structs.replace(call, idempotency_key=stored.work_key)
        await self._caller().call(scope, self._runner, once)

    async def _answer(self, scope: Scope, call: Call, stored: Stored) -> Committed:
        """Runs a call that somebody waits for: its error is an answer, and is not retried."""
        assert call.idempotency_key is not None
        try:
            return (await self._runner.run(scope, call, stored.id)).committed
        except (StoreError, OlderCode):
            raise
        except Exception as error:
            if isinstance(error, TickworkError):
                answer = CallError(error.code, str(error))
            else:
                text = describe(error)
                _log.error("%s.%s failed: %s", call.entity, call.method, text)
                answer = CallError(EntityCallFailed.code, summary(text) or "")
            result = CallResult(
                key=call.idempotency_key,
                fingerprint=fingerprint(call),
                error=msgspec.json.encode(answer).decode(),
            )
            id_ = entity_id(call.entity, call.key)
            change = EntityChange(
                id=id_, type=call.entity, key=call.key, keeps_state=True, result=result
            )
            return Committed((change,))

    async def _alarm(self, scope: Scope, call: Call, stored: Stored) -> None:
        runner = self._runner
        await self._caller().take(
            scope,
            call,
            lambda entered: runner.run_alarm(scope, call, entered, retries=stored.attempts),
        )


def entity_consumer(store: Store, type_: EntityType, caller: Callable[[], Caller]) -> Consumer:
    """The consumer of the hidden queue of a type."""
    handler = EntityHandler(store, type_, caller)
    made = hidden_consumer(queue_of(type_.name), ENTITY_SETTINGS, handler.handle, IN_FLIGHT_MAX)
    return structs.replace(made, is_built_in=False)  # An app that has the type uses it.
