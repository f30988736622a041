"""A queue of an app: send to it, and look at it."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from tickwork.app.message import NamedQueue
from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.message.body import Outgoing, is_collection
from tickwork.core.model import ContentType
from tickwork.core.options.message import SendOptions
from tickwork.core.queue.stats import QueueStats
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.queues import queue_stats
from tickwork.ops.send import check_one_event

if TYPE_CHECKING:
    from typing_extensions import TypeVar, Unpack

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar, Unpack

    T = TypeVar("T")


class Queue(NamedQueue[T]):
    """A queue of the app, by its name. `T` is the type of its messages' bodies."""

    def __init__(self, engine: AppEngine, name: str) -> None:
        super().__init__(name)
        self._engine = engine

    async def send(
        self, body: T, *, connection: object = None, **options: Unpack[SendOptions]
    ) -> Id:
        """Sends a message and returns its id.

        Outside a handler the message is durable when this returns. Inside one it is sent when the
        handled message is acked, or not at all. With your own `connection` it is sent if, and only
        if, the transaction that is open on it commits. A message with a `key` is handled after
        earlier ones of that key; an `event_id` is handled once in 15 days.

        Options: `delay_seconds`, `priority`, `key`, `event_id`, `type`, `source`,
        `correlation_id`, `causation_id`, `expires_after_seconds`, `content_type`.
        """
        (message_id,) = await self._send([body], connection, {**options})
        return message_id

    async def send_batch(
        self,
        bodies: Sequence[T | Outgoing[T]],
        *,
        connection: object = None,
        **options: Unpack[SendOptions],
    ) -> tuple[Id, ...]:
        """Sends up to 10,000 messages, all or none, and returns their ids.

        The options apply to every message. `Outgoing(body, …)` has its own, which replace them.
        With a `connection` they are sent in its transaction, as by `send`.
        """
        if not is_collection(bodies):
            fault = f"must be a list of bodies, not {shortened(bodies)}; one alone: send(…)"
            raise InvalidInput([FieldError("bodies", fault)])
        return await self._send(bodies, connection, {**options})

    async def _send(
        self, bodies: Sequence[T | Outgoing[T]], connection: object, given: dict[str, Any]
    ) -> tuple[Id, ...]:
        content_type = given.pop("content_type", ContentType.JSON)
        compose = self._engine.composer.message
        messages = [compose(self.name, body, content_type, given) for body in bodies]
        if (event_id := given.get("event_id")) is not None:
            check_one_event(sum(message.event_id == event_id for message in messages), event_id)
        await self._engine.send(self.name, messages, connection)
        return tuple(Id.of(Prefix.MESSAGE, message.id) for message in messages)

    async def stats(self) -> QueueStats:
        """How many messages wait, run and died, and how old the oldest is."""
        context = await self._engine.context()
        scope = self._engine.declared.scope_of(self.name)
        return await queue_stats(context.within(scope), self.name)
