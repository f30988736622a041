"""The protocol between a worker and a handler process: msgpack frames, each after a header.

```
  worker ── SetUp ─────────▶ process        once
         ── LoadHandler ───▶                once per handler: import it
         ◀─ LoadResult ─────
         ── HandleMessage ─▶                one message at a time
         ◀─ a header alone ─                the handler begins: from here on its message may fail
         ◀─ MessageHandled ─                the outcome, and what the handler sent and wrote
```

For HTTP handlers it is the same with `LoadHttpHandler`, `AnswerRequest` and `RequestAnswered`.

A header has the length of its frame and the number of the request; an answer repeats the number, so
that it is never taken for the answer to another request. No code and no objects are sent, only
these values. Times are sent as remaining seconds, because two processes need not share a monotonic
clock.

Rows of a handler are recorded in one process and written in the other. A statement can be sent if
its values have one of the types in `VALUE_TYPES`. A function that needs the connection cannot be
sent and is refused.
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

from tickwork.app.invocation import Noted, Rows, Written, check_statement, check_text
from tickwork.core.answers.ids import plain_id
from tickwork.core.http.message import HttpRequest, HttpResponse
from tickwork.core.message import outcome as outcomes
from tickwork.core.message.decide import clean_error
from tickwork.core.message.outcome import Outcome
from tickwork.core.model import BatchWithItems, Message, Send
from tickwork.service.isolation.function_location import FunctionLocation
from tickwork.service.observe.log_set_up import LogSetUp

HEAD = struct.Struct(">IQ")
"""The header: length of the frame, and number of the request."""

BEGUN_LENGTH = 0
"""The length in the header that stands alone: no frame is empty."""

FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of bytes in a frame, with all that a handler sends and writes."""

F = TypeVar("F")


class SetUp(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """The worker's `sys.path`, and how it logs if it is a process of ours."""

    module_path: list[str]
    logging: LogSetUp | None = None


class LoadHandler(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """Imports the handler of this queue and type."""

    location: FunctionLocation
    queue: str
    type: str | None
    is_firing: bool = False


class LoadHttpHandler(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """Imports a handler of HTTP requests."""

    location: FunctionLocation


Load = LoadHandler | LoadHttpHandler


class LoadResult(Struct, frozen=True, array_like=True):
    """None if the handler can be called, otherwise why not."""

    fault: str | None = None


class HandleMessage(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """Handles a message, with limits of time, CPU and memory."""

    load: LoadHandler
    message: Message
    seconds_left: float
    cpu_seconds: float
    memory_bytes: int


class AnswerRequest(Struct, frozen=True, array_like=True, tag=True, tag_field="frame"):
    """Answers an HTTP request, with limits of CPU and memory."""

    load: LoadHttpHandler
    request: HttpRequest
    cpu_seconds: float
    memory_bytes: int


class Statement(Struct, frozen=True, array_like=True):
    """A statement of the handler; each value with the name of its type."""

    text: str
    values: tuple[tuple[str, Any], ...]


class MessageHandled(Struct, frozen=True, array_like=True, kw_only=True):
    """The result for a message. `is_worn_out`: the process must not be used again."""

    outcome: str
    values: tuple[float | str | None, ...] = ()
    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()
    statements: tuple[Statement, ...] = ()
    is_failed: bool = False
    is_worn_out: bool = False


class RequestAnswered(Struct, frozen=True, array_like=True, kw_only=True):
    """The answer to a request. `is_worn_out`: the process must not be used again."""

    answer: HttpResponse
    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()
    is_worn_out: bool = False


Request = SetUp | LoadHandler | LoadHttpHandler | HandleMessage | AnswerRequest

OUTCOMES: dict[str, type[Outcome]] = {
    outcome.__name__: outcome
    for outcome in (
        outcomes.Succeeded,
        outcomes.RetryRequested,
        outcomes.Failed,
        outcomes.Permanent,
        outcomes.Snoozed,
    )
}
"""The outcomes that a handler process can return, by name."""


def encode_frame(frame: object, number: int) -> bytes:
    """Encodes a frame with its header; `ValueError` if it is too long or cannot be encoded."""
    try:
        body = msgspec.msgpack.encode(frame, enc_hook=plain_id)
    except (TypeError, OverflowError, msgspec.EncodeError) as error:
        raise ValueError(
            f"it contains a value that cannot be sent to another process: {error}"
        ) from None
    if len(body) > FRAME_BYTES_MAX:
        raise ValueError(f"it has {len(body)} bytes; the maximum is {FRAME_BYTES_MAX}")
    return HEAD.pack(len(body), number) + body


def decode_frame(body: bytes, kind: type[F]) -> F:
    """Decodes a frame; `msgspec.DecodeError` if it is not of this type."""
    return msgspec.msgpack.decode(body, type=kind)


def decode_outcome(ended: MessageHandled) -> Outcome:
    """The outcome of a message."""
    kind = OUTCOMES[ended.outcome]
    return msgspec.convert(dict(zip(_fields(kind), ended.values, strict=True)), kind)


def encode_outcome(outcome: Outcome) -> tuple[float | str | None, ...]:
    """The fields of an outcome, with texts that can be stored."""
    values = [getattr(outcome, name) for name in _fields(type(outcome))]
    return tuple(clean_error(value) if isinstance(value, str) else value for value in values)


def _fields(kind: type[Outcome]) -> tuple[str, ...]:
    """The fields of an outcome. A handler in a process has no effects."""
    return tuple(name for name in kind.__struct_fields__ if name != "effects")


Plain = None | bool | int | float | str | bytes

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


class ValueType(NamedTuple):
    """How to encode and decode values of a type."""

    type: type
    encode: Callable[[Any], Plain]
    decode: Callable[[Any], Any]


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
        timedelta,
        lambda duration: f"{duration.days} {duration.seconds} {duration.microseconds}",
        _duration,
    ),
    "decimal": ValueType(Decimal, str, Decimal),
}
_NAMES = {kind.type: name for name, kind in VALUE_TYPES.items()}


class BufferedRows(Rows):
    """Keeps statements until they are sent to the worker, which writes them."""

    def execute(self, statement: str, *values: Any) -> Noted:
        check_statement(statement)
        encoded = tuple(_encode_value(index, value) for index, value in enumerate(values, start=1))
        return self._note(Statement(statement, encoded))

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> Noted:
        raise TypeError(
            f"{write!r} needs the connection, which is in another process; use "
            "execute(statement, *values), or a handler with isolation='task' or 'thread'"
        )


def statements_of(written: Written | None) -> tuple[Statement, ...]:
    """The recorded statements, in order."""
    return () if written is None else tuple(write.what for write in written.writes)


def write_statements(statements: tuple[Statement, ...], rows: Rows) -> None:
    """Adds statements from another process to the rows of a message."""
    for statement in statements:
        rows.execute(
            statement.text, *(VALUE_TYPES[kind].decode(value) for kind, value in statement.values)
        )


def _encode_value(number: int, value: Any) -> tuple[str, Plain]:
    # Subclasses are allowed: a str enum, or the UUID class of a driver.
    bases = (_NAMES[base] for base in type(value).__mro__ if base in _NAMES)
    name = next(bases, None)
    if name is None:
        kinds = ", ".join(kind.type.__name__ for kind in VALUE_TYPES.values())
        raise TypeError(
            f"value {number} is a {type(value).__name__}, which cannot be sent to another "
            f"process; use {kinds}"
        )
    if name == "int" and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise TypeError(f"value {number} has more than 64 bits; use a Decimal")
    if name == "str":
        check_text(f"value {number}", value)
    return name, VALUE_TYPES[name].encode(value)
