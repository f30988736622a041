"""Types of messages: registers what an app declares, and checks what others send by it.

What the app of this process declares is checked by its own code, which knows more than a schema.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tickwork.app.declarations import Registry
from tickwork.app.declared_types import OwnType, types_of
from tickwork.app.payloads import Payload, PayloadOf, no_types
from tickwork.core.answers.message_type import DeclaredType
from tickwork.core.fields import FAULTS_MAX
from tickwork.core.limits import is_hidden
from tickwork.core.message.body import encode_body
from tickwork.core.model import ContentType, NewMessage, Scope
from tickwork.core.types.declared import (
    TYPES_LISTED_MAX,
    NewType,
    QueueTypes,
    UnknownTypes,
    schema_text,
    version_of,
)
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.store.contract import Store

if TYPE_CHECKING:
    from tickwork.ops.send import RegistryComposer  # It publishes events, which are checked here.

SEEN_SECONDS = 6 * 3_600
"""Seconds after which a running app says again what it declares."""

_log = logging.getLogger("tickwork")


async def register_types(context: Context, registry: Registry) -> int:
    """Stores what an app declares and the database does not know, in one statement, and returns how
    many types that were. What is known is only read."""
    own = [*types_of(registry)]
    if not own:
        return 0
    stored = await context.store.types.list(context.scope, TYPES_LISTED_MAX)
    seen_after = await context.store.now() - timedelta(seconds=SEEN_SECONDS)
    known = {
        (one.queue, one.type, one.version, one.handlers)
        for one in stored
        if one.app == registry.app_name and one.last_seen_at > seen_after
    }
    new = [one for one in own if (one.queue, one.type, one.version, one.handlers) not in known]
    if new:
        ids = await _queue_ids(context, registry)
        rows = [_row(one, ids) for one in new if one.queue in ids]
        await context.store.types.register(context.scope, registry.app_name, rows)
    return len(new)


async def _queue_ids(context: Context, registry: Registry) -> dict[str, Any]:
    """The ids of the app's queues: its tenant's own, or those that all tenants share."""
    return {
        queue.name: queue.id
        for queue in await context.store.queues.list(context.scope)
        if queue.name in registry.queues
        and (queue.tenant is None) == registry.queues[queue.name].is_shared
    }


def _row(own: OwnType, ids: Mapping[str, Any]) -> NewType:
    text = schema_text(own.schema)
    return NewType(
        queue_id=ids[own.queue],
        type=own.type,
        version=version_of(text),
        schema=text,
        handlers=own.handlers,
    )


class _Declared(Payload[Any]):
    """A type that another app declares."""

    def __init__(self, types: QueueTypes, message_type: str | None) -> None:
        super().__init__()
        self.is_plain = False
        self._types, self._type = types, message_type

    def encode(self, value: Any, content_type: ContentType = ContentType.JSON) -> bytes:
        encoded = encode_body(value, content_type)
        self.check(encoded, content_type)
        return encoded

    def check(self, body: bytes, content_type: ContentType) -> None:
        fault = self._types.fault(self._type, body, content_type)
        if fault is not None:
            raise InvalidInput([FieldError("body", fault)])


class KnownTypes:
    """What is known about the types of some queues: by the app of this process, or else by what
    other apps have declared in the database."""

    def __init__(
        self,
        own: PayloadOf = no_types,
        known: Mapping[str, QueueTypes] | None = None,
        unknown: Callable[[], UnknownTypes] = lambda: UnknownTypes.REFUSE,
    ) -> None:
        self._own, self._known = own, known or {}
        self._unknown = unknown

    def payload_of(self, queue: str, message_type: str | None) -> Payload[Any] | None:
        """The type of the messages of a queue and type, as of a `PayloadOf`."""
        own = self._own(queue, message_type)
        types = self._known.get(queue)
        if not types or (own is not None and not own.is_plain):
            return own
        return _Declared(types, message_type)

    def unhandled(self, queue: str, message_type: str | None) -> str | None:
        """What is wrong with a type that no handler of a queue takes, unless that is allowed."""
        types = self._known.get(queue)
        fault = types.unhandled(message_type) if types else None
        if fault is None or (chosen := self._unknown()) is UnknownTypes.ACCEPT:
            return None
        if chosen is UnknownTypes.WARN:
            _log.warning("queue %s: type %s %s", queue, message_type, fault)
            return None
        return fault


async def known_types(context: Context, queues: Iterable[str]) -> KnownTypes:
    """Returns what is known about the types of some queues."""
    of_queue = context.store.types.of_queue
    known = {
        queue: await of_queue(context.scope, queue)
        for queue in dict.fromkeys(queues)
        if not is_hidden(queue)
    }
    return KnownTypes(context.types, known, context.unknown_types)


class TypesOfOthers:
    """What other apps declare for the queues to which an app sends."""

    def __init__(
        self,
        registry: Registry,
        composer: RegistryComposer,
        open: Callable[[], Awaitable[Store]],  # noqa: A002
        scope: Callable[[], Scope],
        unknown: Callable[[], UnknownTypes],
    ) -> None:
        self._registry, self._composer = registry, composer
        self._open, self._scope = open, scope
        self._unknown = unknown

    async def __call__(self, queue: str) -> KnownTypes | None:
        """The types of a queue, if this app does not know them; None if nobody declares any. A
        handler in a child process has no database to ask, and one in a thread does not ask it."""
        handling = self._composer.handling()
        if self._registry.knows_types(queue) or (handling is not None and not handling.can_ask):
            return None
        types = await (await self._open()).types.of_queue(self._scope(), queue)
        return KnownTypes(known={queue: types}, unknown=self._unknown) if types else None


async def check_event(context: Context, event: NewMessage) -> None:
    """Raises `InvalidInput` for data that a subscribing queue does not take of this type. A type
    that its handlers do not take is no fault of the event: a subscription may be wide."""
    queues = await context.store.types.subscribed(context.scope, event.type or "")
    if not queues:
        return
    types, faults = await known_types(context, queues), list[FieldError]()
    for queue in queues:
        payload = types.payload_of(queue, event.type)
        if payload is not None and not payload.is_plain:
            try:
                payload.check(event.body, event.content_type)
            except InvalidInput as error:
                faults += [
                    FieldError("data", f"{fault.message} (queue {queue})") for fault in error.errors
                ]
    if faults:
        raise InvalidInput(faults[:FAULTS_MAX])


async def all_known_types(context: Context) -> KnownTypes:
    """As `known_types` for every queue that the tenant can send to."""
    by_queue: dict[str, list[DeclaredType]] = {}
    for one in await context.store.types.list(context.scope, TYPES_LISTED_MAX):
        by_queue.setdefault(one.queue, []).append(one)
    known = {queue: QueueTypes(declared) for queue, declared in by_queue.items()}
    return KnownTypes(context.types, known, context.unknown_types)


async def check_sends(
    context: Context, queue: str, messages: Sequence[NewMessage], *, field: str | None = None
) -> None:
    """Raises `InvalidInput` for messages that do not fit the types which are declared for their
    queue, or whose type nobody handles. `field` is the list that they are in."""
    types = await known_types(context, (queue,))
    check_messages(types, queue, messages, field=field)


def check_messages(
    types: KnownTypes, queue: str, messages: Sequence[NewMessage], *, field: str | None = None
) -> None:
    """As `check_sends` for known types."""
    faults: list[FieldError] = []
    for index, message in enumerate(messages):
        prefix = "" if field is None else f"{field}[{index}]."
        if (fault := types.unhandled(queue, message.type)) is not None:
            faults.append(FieldError(f"{prefix}type", fault))
        payload = types.payload_of(queue, message.type)
        if payload is not None and not payload.is_plain:
            try:
                payload.check(message.body, message.content_type)
            except InvalidInput as error:
                faults += [fault._replace(field=f"{prefix}{fault.field}") for fault in error.errors]
        if len(faults) >= FAULTS_MAX:
            break
    if faults:
        raise InvalidInput(faults)
