"""What an app declares about the types of its messages, for those who do not have its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tickwork.app.declarations import Registry
from tickwork.app.payload_schema import schema_of
from tickwork.core.answers.message_type import ANY_TYPE
from tickwork.core.limits import is_hidden
from tickwork.core.types.declared import schema_text, version_of


class OwnType(Struct, frozen=True):
    """What an app declares about a type of a queue: by a handler, or for all that it sends."""

    queue: str
    type: str
    schema: dict[str, Any]
    handlers: tuple[str, ...]

    @property
    def version(self) -> str:
        """The digest of the schema."""
        return version_of(schema_text(self.schema))


def types_of(registry: Registry) -> Iterator[OwnType]:
    """The types of an app's queues: one for each handler, and that of a queue which has a type but
    no handler of any type. The hidden queues of entities and workflows have none."""
    for queue in [*registry.queues.values()]:
        if is_hidden(queue.name):
            continue
        handlers = [handler for handler in registry.handlers if handler.queue == queue.name]
        for handler in handlers:
            payload = registry.payload_sent(queue.name, handler.type)
            schema = {} if payload is None else schema_of(payload)
            yield OwnType(queue.name, handler.type or ANY_TYPE, schema, (handler.name,))
        if not queue.payload.is_plain and all(handler.type is not None for handler in handlers):
            yield OwnType(queue.name, ANY_TYPE, schema_of(queue.payload), ())
