"""What a queue takes, by the types that apps have declared for it in the database.

```
a body of a type ── some app handles it ──▶ fits one of their schemas, or is refused
                 ── nobody does ──────────▶ is refused if every handler of the queue has a type
```
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.message_type import ANY_TYPE, DeclaredType
from tickwork.core.message.body import decode_body
from tickwork.core.model import ContentType
from tickwork.core.near_names import nearest
from tickwork.core.types.schema import Fault, Schema

TYPES_KEPT_SECONDS = 30 * 86_400
"""Seconds that a type is kept after an app last declared it."""

TYPES_LISTED_MAX = 10_000
"""Maximum number of types that are listed of a tenant."""

COMPILED_MAX = 1_000
"""Maximum number of schemas that a process keeps compiled."""

_VERSION_LENGTH = 12


class UnknownTypes(StrEnum):
    """What becomes of a message whose type nobody handles, though every handler of its queue has a
    type."""

    REFUSE = "refuse"
    WARN = "warn"
    ACCEPT = "accept"


class NewType(Struct, frozen=True, kw_only=True):
    """What an app declares about a type of a queue."""

    queue_id: UUID
    type: str
    version: str
    schema: str
    handlers: tuple[str, ...]


class DifferingType(Struct, frozen=True):
    """A type of a queue that these apps declare differently."""

    queue: str
    type: str
    apps: str


def schema_text(schema: Mapping[str, Any]) -> str:
    """A schema as it is stored: equal ones have one spelling."""
    return msgspec.json.encode(schema, order="deterministic").decode()


def version_of(schema: str) -> str:
    """The version of a stored schema: its digest."""
    return sha256(schema.encode()).hexdigest()[:_VERSION_LENGTH]


_compiled: dict[str, Schema] = {}


def _compile(declared: DeclaredType) -> Schema:
    known = _compiled.get(declared.version)
    if known is None:
        if len(_compiled) >= COMPILED_MAX:
            _compiled.clear()
        known = _compiled[declared.version] = Schema(declared.schema or {})
    return known


class QueueTypes:
    """What apps have declared for one queue. It is false if that is nothing."""

    __slots__ = ("_by_type", "_handled", "_is_strict")

    def __init__(self, declared: Sequence[DeclaredType] = ()) -> None:
        self._by_type: dict[str, list[DeclaredType]] = {}
        for one in declared:
            self._by_type.setdefault(one.type, []).append(one)
        self._handled = {one.type for one in declared if one.handlers}
        self._is_strict = bool(self._handled) and ANY_TYPE not in self._handled

    def __bool__(self) -> bool:
        return bool(self._by_type)

    def unhandled(self, message_type: str | None) -> str | None:
        """What is wrong with a type that no handler takes; None if one does, or may."""
        if not self._is_strict or message_type in self._handled:
            return None
        known = ", ".join(map(repr, sorted(self._handled)[:5]))
        if message_type is None:
            return f"is missing; the handlers of the queue take only {known}"
        near = nearest(message_type, self._handled)
        advice = f"its handlers take {known}" if near is None else f"did you mean {near!r}?"
        return f"is handled by nobody in this queue; {advice}"

    def fault(self, message_type: str | None, body: bytes, content_type: ContentType) -> str | None:
        """What is wrong with a body; None if it fits what one app declares."""
        declared = self._declared(message_type)
        schemas = [(one, _compile(one)) for one in declared]
        if not schemas or any(schema.accepts_all for _, schema in schemas):
            return None
        try:
            value = _read(body, content_type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return f"is not {content_type}: {error}"
        faults = [*_faults(schemas, value)]
        return (
            None if len(faults) < len(schemas) else f"does not fit the declared type: {faults[0]}"
        )

    def _declared(self, message_type: str | None) -> Sequence[DeclaredType]:
        """What is declared about a type: for a handler of the type, else for any."""
        any_type = self._by_type.get(ANY_TYPE, [])
        return self._by_type.get(message_type or ANY_TYPE, any_type)


def _faults(schemas: Sequence[tuple[DeclaredType, Schema]], value: Any) -> Iterator[Fault]:
    """The faults by the schemas that refuse a value, the one that was seen last first."""
    for _, schema in schemas:
        if (fault := schema.fault(value)) is not None:
            yield fault


def _read(body: bytes, content_type: ContentType) -> Any:
    """The body as JSON values: bytes as base64, as JSON has them."""
    if content_type is ContentType.BYTES:
        return b64encode(body).decode()
    return decode_body(body, content_type)
