"""Composes messages from bodies and options, checks them, and sends them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import structs

from tickwork import spans
from tickwork.app.declarations import Registry
from tickwork.app.invocation import Handling, Made, correlation_now, current_handling
from tickwork.core.answers.ids import Prefix, plain_text, public_id
from tickwork.core.fields import unknown_faults
from tickwork.core.limits import check_not_hidden
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.body import Outgoing, encode_body, known_content_type
from tickwork.core.message.decide import caused_by
from tickwork.core.model import ContentType, NewMessage, Send
from tickwork.core.options import names_of
from tickwork.core.options.message import GivenContentType, SendOptions
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.events import publish_event
from tickwork.ops.quotas import admit, admit_items
from tickwork.store.ids import new_id

_OPTIONS = names_of(SendOptions) - {"content_type"}


def compose(
    body: object,
    *,
    content_type: GivenContentType = ContentType.JSON,
    encoded: bytes | None = None,
    **options: Any,
) -> NewMessage:
    """Returns a message with this body and these options.

    Raises `InvalidInput` for a body that cannot be stored. `encoded` is the body as bytes, if the
    caller has encoded it already.
    """
    if not options.keys() <= _OPTIONS:
        raise InvalidInput(unknown_faults(options, _OPTIONS))
    content_type = known_content_type(content_type)
    if encoded is None:
        encoded = encode_body(body, content_type)
    if options.get("delay_seconds", 0) is None:
        del options["delay_seconds"]
    for name, value in options.items():
        options[name] = plain_text(value)
    return NewMessage(
        id=new_id(),
        body=encoded,
        content_type=content_type,
        traceparent=spans.traceparent(),
        **options,
    )


def check_one_event(messages: int, event_id: object) -> None:
    """Raises `InvalidInput` if several messages have the same event id: all but one of them would
    be dropped as duplicates."""
    if messages > 1 and event_id is not None:
        fault = (
            "is the same for every message, so all but one would be dropped as duplicates; leave "
            "it out, or send each message with its own event_id"
        )
        raise InvalidInput([FieldError("event_id", fault)])


def _traced(messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
    """The messages with the current span as their sender."""
    if not spans.is_on():
        return messages
    span = spans.traceparent()
    return [structs.replace(message, traceparent=span) for message in messages]


async def send(context: Context, queue: str, message: NewMessage) -> UUID:
    """Stores one message durably and returns its id."""
    check_not_hidden(queue)
    with spans.span(
        f"send {queue}", "producer", {"messaging.message.id": public_id(Prefix.MESSAGE, message.id)}
    ):
        (message,) = _traced([message])
        await admit(context, [message])
        await context.store.messages.send(context.scope, queue, message)
    return message.id


async def send_batch(
    context: Context, queue: str, messages: Sequence[NewMessage]
) -> tuple[UUID, ...]:
    """Stores up to 10,000 messages, all or none, and returns their ids."""
    check_not_hidden(queue)
    count = {"messaging.batch.message_count": len(messages)}
    with spans.span(f"send {queue}", "producer", count):
        messages = _traced(messages)
        await admit(context, messages)
        await context.store.messages.send_batch(context.scope, queue, messages)
    return tuple(message.id for message in messages)


BODY_BYTES_WARNED = 10_000
"""Bytes of a body above which we log a warning, once per queue."""

QUEUES_WARNED_MAX = 1_000
"""Maximum number of queues that we log this warning for."""

_log = logging.getLogger("tickwork")


class RegistryComposer:
    """Composes messages for the queues of an app; raises `InvalidInput` if a body does not fit."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._warned: set[str] = set()

    def handling(self) -> Handling | None:
        """Returns the running handler if messages sent through this app can commit with its ack.

        They cannot if the app is on another database or belongs to another tenant.
        """
        handling = current_handling()
        theirs = None if handling is None else handling.compose
        if isinstance(theirs, RegistryComposer) and not theirs.shares_database_with(self):
            return None
        return handling

    def caused(self, messages: Sequence[NewMessage]) -> Sequence[NewMessage]:
        """The messages, caused by the one that is being handled, if there is one."""
        handling = self.handling()
        cause = None if handling is None else handling.cause
        if cause is None:
            return messages
        return [caused_by(cause, message) for message in messages]

    def shares_database_with(self, other: RegistryComposer) -> bool:
        """Whether the messages of both can be stored in one transaction."""
        ours, theirs = self._registry, other._registry
        return ours is theirs or ours.home() == theirs.home()

    def __call__(
        self,
        queue: str,
        body: Any,
        *,
        content_type: GivenContentType = ContentType.JSON,
        **options: Any,
    ) -> Send:
        self._registry.check_known(queue)
        return Send(queue, self.message(queue, body, content_type, options))

    def message(
        self, queue: str, body: Any, content_type: GivenContentType, options: dict[str, Any]
    ) -> NewMessage:
        """Returns a message for a queue, its body encoded as the type that the queue declares."""
        if isinstance(body, Outgoing):
            own = {name: value for name, value in body.options.items() if value is not None}
            body, options = body.body, options | own
            content_type = options.pop("content_type", content_type)
        content_type = known_content_type(content_type)
        if current_handling() is None and (correlation_id := correlation_now()) is not None:
            options = {"correlation_id": correlation_id, **options}
        payload = self._registry.payload_sent(queue, options.get("type"))
        encoded = payload.encode(body, content_type) if payload else None
        message = compose(body, content_type=content_type, encoded=encoded, **options)
        if len(message.body) > BODY_BYTES_WARNED and queue not in self._warned:
            self._warn(queue, len(message.body))
        return message

    def _warn(self, queue: str, body_bytes: int) -> None:
        if len(self._warned) < QUEUES_WARNED_MAX:
            self._warned.add(queue)
            _log.warning(
                "queue %s: a body has %d bytes; send references, not documents (logged once per "
                "queue)",
                queue,
                body_bytes,
            )


async def store_made(context: Context, made: Made, correlation_id: str) -> None:
    """Stores what a handler sent that has no message to settle: an HTTP handler in its process,
    which has no database. Messages without a correlation id get this one. Each queue, event and
    batch is stored by itself, in chunks, each all or none."""
    sends = [
        structs.replace(send, message=_correlated(send.message, correlation_id))
        for send in made.sends
    ]
    for queue, messages in _by_queue(sends).items():
        await admit(context, messages)
        await context.store.messages.send_bulk(context.scope, queue, messages)
    for send in sends:
        if send.queue is None:
            await publish_event(context, send.message, send.owner)
    for batch in made.batches:
        new = NewBatch(id=batch.id, queue=batch.queue, completion_queue=batch.completion_queue)
        items = (_correlated(item, correlation_id) for item in batch.items)
        await context.store.batches.create(context.scope, new, await admit_items(context, items))


def _by_queue(sends: Sequence[Send]) -> dict[str, list[NewMessage]]:
    """The messages of each queue, in the order in which they were sent."""
    found: dict[str, list[NewMessage]] = {}
    for send in sends:
        if send.queue is not None:
            found.setdefault(send.queue, []).append(send.message)
    return found


def _correlated(message: NewMessage, correlation_id: str) -> NewMessage:
    if message.correlation_id is not None:
        return message
    return structs.replace(message, correlation_id=correlation_id)
