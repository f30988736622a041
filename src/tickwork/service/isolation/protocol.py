"""What crosses between a worker and a handler's process: frames of msgpack, each behind a head.

```
  worker ── Hello ─▶ process        once
         ── Load ──▶                once for each handler: import it
         ◀─ Loaded ─
         ── Work ──▶                one message at a time
         ◀─ Ended ──                what the handler said, sent, made and wrote
```

A head is a frame's length and a number: an answer has that of its question, so that no answer is
ever taken for another's. No code crosses, and no object: only these values. Times do not cross
either, since two processes need not agree on a monotonic clock; seconds that are left do.

Rows of a handler's own, said in one process and written in another.

A statement crosses if its values are plain: the kinds of `VALUE_TYPES`. A function that wants the
connection cannot cross, and is refused where it is said.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.app.handling import Noted, Rows, Written, check_statement, check_text
from tickwork.core.message import outcome as outcomes
from tickwork.core.message.decide import clean_error
from tickwork.core.message.outcome import Outcome
from tickwork.core.model import BatchWithItems, Message, Send
from tickwork.service.isolation.function_location import FunctionLocation

HEAD = struct.Struct(">IQ")
"""How long a frame is, and which question it is about."""

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""As much as a handler may say at once, with all that it sends and writes."""

F = TypeVar("F")


class SetModulePath(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """Where the worker finds its modules."""

    module_path: list[str]


class LoadHandler(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """A handler that will be called: of this queue and type."""

    location: FunctionLocation
    queue: str
    type: str | None


class LoadResult(Struct, frozen=True, array_like=True):
    """It can be called; or why not."""

    fault: str | None = None


class HandleMessage(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """A message for a handler, and what it may use up."""

    load: LoadHandler
    message: Message
    seconds_left: float
    cpu_seconds: float
    memory_bytes: int


class Statement(Struct, frozen=True, array_like=True):
    """A write of the handler's own; each value with the name of its kind."""

    text: str
    values: tuple[tuple[str, Any], ...]


class MessageHandled(Struct, frozen=True, array_like=True, kw_only=True):
    """What came of a message. `is_worn_out`: the process should not be used again."""

    outcome: str
    values: tuple[float | str | None, ...] = ()
    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()
    statements: tuple[Statement, ...] = ()
    is_failed: bool = False
    is_worn_out: bool = False


Request = SetModulePath | LoadHandler | HandleMessage

OUTCOMES: dict[str, type[Outcome]] = {
    each.__name__: each
    for each in (
        outcomes.Succeeded,
        outcomes.RetryRequested,
        outcomes.Failed,
        outcomes.Permanent,
        outcomes.Snoozed,
    )
}
"""What a handler can say of a message."""


def encode_frame(frame: object, number: int) -> bytes:
    """A frame as it is written, about a question; `ValueError` if it is too long or holds what
    cannot cross."""
    try:
        body = msgspec.msgpack.encode(frame)
    except (TypeError, OverflowError, msgspec.EncodeError) as error:
        raise ValueError(f"it holds what cannot cross to another process: {error}") from None
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"it has {len(body)} bytes, and {FRAME_BYTES_MAX} is the most")
    return HEAD.pack(len(body), number) + body


def decode_frame(body: bytes, kind: type[F]) -> F:
    """A frame as it was read; `msgspec.DecodeError` if it is none of that kind."""
    return msgspec.msgpack.decode(body, type=kind)


def decode_outcome(ended: MessageHandled) -> Outcome:
    """What the handler said."""
    kind = OUTCOMES[ended.outcome]
    return msgspec.convert(dict(zip(kind.__struct_fields__, ended.values, strict=True)), kind)


def encode_outcome(outcome: Outcome) -> tuple[float | str | None, ...]:
    """The fields of an outcome, as they cross: texts in a form that can."""
    values = [getattr(outcome, name) for name in outcome.__struct_fields__]
    return tuple(clean_error(each) if isinstance(each, str) else each for each in values)


Plain = None | bool | int | float | str | bytes

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


class ValueType(NamedTuple):
    """How values of a type cross."""

    type: type
    carry: Callable[[Any], Plain]
    take: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _duration(parts: str) -> timedelta:
    days, seconds, microseconds = map(int, parts.split())
    return timedelta(days, seconds, microseconds)


VALUE_TYPES = {
    "none": ValueType(type(None), _same, _same),
    "bool": ValueType(bool, _same, _same),
    "int": ValueType(int, int.__int__, _same),
    "float": ValueType(float, float.__float__, _same),
    "str": ValueType(str, str.__str__, _same),
    "bytes": ValueType(bytes, bytes, _same),
    "uuid": ValueType(UUID, str, UUID),
    "datetime": ValueType(datetime, datetime.isoformat, datetime.fromisoformat),
    "date": ValueType(date, date.isoformat, date.fromisoformat),
    "time": ValueType(time, time.isoformat, time.fromisoformat),
    "duration": ValueType(
        timedelta, lambda each: f"{each.days} {each.seconds} {each.microseconds}", _duration
    ),
    "decimal": ValueType(Decimal, str, Decimal),
}
_NAMES = {kind.type: name for name, kind in VALUE_TYPES.items()}


class BufferedRows(Rows):
    """Keeps statements until they are carried to whoever writes them."""

    def execute(self, statement: str, *values: Any) -> Noted:
        check_statement(statement)
        carried = tuple(_encode_value(index, value) for index, value in enumerate(values, start=1))
        return self._note(Statement(statement, carried))

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> Noted:
        raise TypeError(
            f"{write!r} wants the connection, which is in another process; use "
            "execute(statement, *values), or a handler with isolation='task' or 'thread'"
        )


def statements_of(written: Written | None) -> tuple[Statement, ...]:
    """What is to be carried, in order."""
    return () if written is None else tuple(each.what for each in written.writes)


def write_statements(statements: tuple[Statement, ...], rows: Rows) -> None:
    """Writes carried statements where they belong."""
    for each in statements:
        rows.execute(each.text, *(VALUE_TYPES[kind].take(value) for kind, value in each.values))


def _encode_value(number: int, value: Any) -> tuple[str, Plain]:
    # Also of a kind: an enum of texts, or an UUID as a driver gives it.
    bases = (_NAMES[base] for base in type(value).__mro__ if base in _NAMES)
    name = next(bases, None)
    if name is None:
        kinds = ", ".join(kind.type.__name__ for kind in VALUE_TYPES.values())
        raise TypeError(
            f"value {number} is a {type(value).__name__}, which does not cross to another "
            f"process; use {kinds}"
        )
    if name == "int" and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise TypeError(f"value {number} has more than 64 bits; use a Decimal")
    if name == "str":
        check_text(f"value {number}", value)
    return name, VALUE_TYPES[name].carry(value)
