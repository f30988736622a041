"""Calls of entities: names, limits, and the messages that carry them.

An entity is named by its type and key. Its id is a digest of both, which is also the key that
orders its calls in the hidden queue of its type. So calls of one entity run one at a time, in
order, on one node; everything a call changes commits with the ack of its message, fenced by the
claim.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.answers.ids import plain_id
from tickwork.core.entity.model import EntityHead
from tickwork.core.fields import shown, text_faults
from tickwork.core.limits import ENTITIES_PREFIX, FOREVER_SECONDS, TYPE_LENGTH_MAX, check_message
from tickwork.core.message.backoff import Exponential
from tickwork.core.message.body import encode_json
from tickwork.core.model import FORMAT_VERSION, Message, NewMessage, QueueSettings, State
from tickwork.core.stable_hash import derived_id
from tickwork.errors import (
    Conflict,
    EntityCallFailed,
    FieldError,
    InvalidInput,
    NotFound,
    TickworkError,
    TooMany,
)

KEY_BYTES_MAX = 512
"""Bytes of the key of an entity, in UTF-8."""

STORAGE_KEY_BYTES_MAX = 2_048
"""Bytes of a key of the storage, in UTF-8."""

VALUE_BYTES_MAX = 131_072
"""Bytes of a stored value, as JSON."""

KEYS_AT_ONCE_MAX = 128
"""Keys that one call of the storage reads or writes."""

CHANGES_MAX = 10_000
"""Keys that one call of an entity may change."""

STORAGE_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of all keys and values of an entity."""

RESULT_BYTES_MAX = 1_048_576
"""Bytes of the result of a call, as JSON."""

WAITING_CALLS_MAX = 1_000
"""Calls that may wait for one entity."""

RESULT_RETENTION_SECONDS = 86_400
"""Seconds to keep the result of a call with an idempotency key."""

CALL_WAIT_SECONDS_MAX = 30.0
"""Seconds that a direct call waits for its entity."""

SCHEDULE_NAME_LENGTH_MAX = 60
"""Characters of the name of an entity's schedule."""

SCHEDULES_MAX = 100
"""Schedules of one entity."""

ALARM_RETRIES_MAX = 6
"""Retries of a failing alarm, and of a failing send."""

ALARM_METHOD = "alarm"
"""The method that handles the alarm. Nobody else calls it."""

ENTITY_SETTINGS = QueueSettings(
    max_retries=ALARM_RETRIES_MAX,
    backoff=Exponential(base_seconds=2.0, factor=2.0, cap_seconds=64.0),
    retention_seconds=FOREVER_SECONDS,
    timeout_seconds=FOREVER_SECONDS,
)
"""Settings of the hidden queue of a type. Calls never expire, and have no timeout."""

_NAMESPACE = UUID("b5d2a1f0-6c0e-8a4b-9d3e-74696b776b65")
_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE_POINT_MAX = 0x10FFFF
_SURROGATES_START = 0xD800
_SURROGATES_END = 0xE000


class Call(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a message in the queue of a type: a call of a method, or the entity's alarm.

    With `answers` its result or error is stored under the idempotency key, for whoever waits for
    it, and only exposed methods can be called. With `schedule` it is no call, but a schedule of the
    entity to create, to replace, or without fields to delete.
    """

    entity: str
    key: str
    method: str = ""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    idempotency_key: str | None = None
    answers: bool = False
    alarm: UUID | None = None
    alarm_at: datetime | None = None
    schedule: str | None = None
    schedule_fields: dict[str, Any] | None = None


class CallError(Struct, frozen=True):
    """The error that a call is answered with: the code of a `TickworkError`, or `call_failed`."""

    code: str
    message: str


def error_of(call: Call, answer: str) -> TickworkError:
    """The error that a call was answered with, from its text in the store."""
    error = msgspec.json.decode(answer, type=CallError)
    missing = NotFound(f"method of {call.entity}", call.method)
    sentence, _, hint = error.message.partition("; ")
    if error.code == missing.code and sentence == str(missing):
        return NotFound(missing.kind, call.method, hint or None)
    if error.code == InvalidInput.code:
        return InvalidInput([FieldError("args", error.message)])
    if error.code == Conflict.code:
        return Conflict(error.message)
    return EntityCallFailed(call.entity, call.key, f"failed in {call.method}: {error.message}")


_CALL = msgspec.json.Decoder(Call)
_SENT = [*{*NewMessage.__struct_fields__} & {*Message.__struct_fields__}]
_sent_values = attrgetter(*_SENT)


def encode_call(call: Call) -> bytes:
    """The body of a call's message; `InvalidInput` names arguments that are no JSON."""
    return encode_json(call, "args", root="")


def read_call(body: bytes) -> Call:
    """The call that a message carries; raises `msgspec.MsgspecError`."""
    return _CALL.decode(body)


def check_edited_call(before: bytes, after: bytes) -> None:
    """Raises `InvalidInput` if an edited dead letter would call something else."""
    try:
        edited = read_call(after)
    except msgspec.MsgspecError as error:
        raise InvalidInput([FieldError("body", f"must be a call of an entity: {error}")]) from error
    if structs.replace(read_call(before), args=edited.args, kwargs=edited.kwargs) != edited:
        raise InvalidInput([FieldError("body", "may change only args and kwargs of a call")])


def call_message(call: Call, message_id: UUID, *, delay_seconds: float = 0.0) -> NewMessage:
    """The message of a call. An alarm has no key: it takes the entity only when it fires. Changes
    of schedules are in order among each other."""
    key = None if call.alarm else str(entity_id(call.entity, call.key))
    if call.schedule is not None:
        key = f"{key}/schedules"
    message = NewMessage(
        id=message_id,
        body=encode_call(call),
        key=key,
        delay_seconds=delay_seconds,
    )
    check_message(message)
    return message


class Entered(Struct, frozen=True):
    """A direct call that was stored, and what it reads first: None if its entity is not free, or
    if the store does not read it in the same transaction."""

    message: Message
    head: EntityHead | None = None


def entered_message(
    tenant: str, queue_id: UUID, new: NewMessage, caller: UUID, *, is_claimed: bool, at: datetime
) -> Message:
    """The stored message of a direct call: claimed by its caller, or blocked."""
    return Message(
        **dict(zip(_SENT, _sent_values(new), strict=True)),
        tenant=tenant,
        queue_id=queue_id,
        state=State.CLAIMED if is_claimed else State.BLOCKED,
        claim=int(is_claimed),
        holder=caller if is_claimed else None,
        claimed_at=at if is_claimed else None,
        attempts=0,
        lost=0,
        visible_at=at,
        sent_at=at,
        batch_id=None,
        due_at=None,
        grace_seconds=None,
        terms=None,
        format=FORMAT_VERSION,
        last_error=None,
    )


def as_claimed(message: Message, caller: UUID) -> Message:
    """A direct call that was blocked, after its caller got the claim, which is its first."""
    return structs.replace(message, state=State.CLAIMED, claim=1, holder=caller)


def busy_text(keeper: str) -> str:
    """The error text of a call that waited too long, given what kept its entity."""
    return f"was kept for {CALL_WAIT_SECONDS_MAX:g} seconds by {keeper}; call it again"


def too_many_waiting(message: NewMessage) -> TooMany:
    """The error of a call for which too many others wait."""
    called = read_call(message.body)
    return TooMany(
        f"{WAITING_CALLS_MAX} calls wait for {called.entity} {called.key!r}; call it again later"
    )


def arguments_of(args: object) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The arguments of a call by position and by name. Raises `InvalidInput`."""
    if isinstance(args, Mapping):
        return (), args
    if not isinstance(args, Sequence) or isinstance(args, str | bytes | bytearray):
        fault = (
            f'must be a list, or an object by name, such as [3] or {{"by": 3}}; is {shown(args)}'
        )
        raise InvalidInput([FieldError("args", fault)])
    return args, {}


def queue_of(type_name: str) -> str:
    """The hidden queue of a type."""
    return f"{ENTITIES_PREFIX}{type_name}"


@lru_cache(maxsize=10_000)
def entity_id(type_name: str, key: str) -> UUID:
    """The id of an entity: a digest of its type and key."""
    return derived_id(_NAMESPACE, f"{type_name}\0{key}")


def fingerprint(call: Call) -> bytes:
    """A digest of the method and the arguments of a call."""
    called = [call.method, call.args, call.kwargs]
    asked = msgspec.json.encode(called, enc_hook=plain_id, order="sorted")
    return blake2b(asked, digest_size=16).digest()


def encode_result(value: object, method: str) -> bytes:
    """The result of a method as JSON."""
    field = f"the result of {method}"
    encoded = encode_json(value, field, root="result")
    if len(encoded) > RESULT_BYTES_MAX:
        fault = f"has {len(encoded)} bytes; at most {RESULT_BYTES_MAX}; return a reference"
        raise InvalidInput([FieldError(field, fault)])
    return encoded


def is_type_name(name: str) -> bool:
    """Whether a type may have this name."""
    return _TYPE.fullmatch(name) is not None and len(name) <= TYPE_LENGTH_MAX


def check_type_name(name: object) -> None:
    """Raises `InvalidInput` for a name that no type can have."""
    if isinstance(name, str) and is_type_name(name):
        return
    wanted = f"must be letters, digits and _, at most {TYPE_LENGTH_MAX} characters"
    raise InvalidInput([FieldError("entity", f"{wanted}, not {shown(name)}")])


def check_key(key: object) -> None:
    """Raises `InvalidInput` for what is not the key of an entity."""
    _check_bytes("key", key, KEY_BYTES_MAX)


def check_storage_key(name: object) -> None:
    """Raises `InvalidInput` for what is not a key of a storage."""
    _check_bytes("storage key", name, STORAGE_KEY_BYTES_MAX)


def check_idempotency_key(key: object) -> None:
    """Raises `InvalidInput` for what is not an idempotency key."""
    _check_bytes("idempotency_key", key, KEY_BYTES_MAX)


def encode_value(name: str, value: object) -> bytes:
    """A value of the storage as JSON."""
    encoded = encode_json(value, f"storage[{name!r}]", bytes_max=VALUE_BYTES_MAX)
    if len(encoded) > VALUE_BYTES_MAX:
        fault = f"has {len(encoded)} bytes; at most {VALUE_BYTES_MAX}; split it over several keys"
        raise InvalidInput([FieldError(f"storage[{name!r}]", fault)])
    return encoded


def schedule_name(call: Call) -> str:
    """The name under which a schedule of an entity is stored."""
    return f"entity:{entity_id(call.entity, call.key)}:{call.schedule}"


def prefix_end(prefix: str) -> str | None:
    """The first text after all texts with a prefix; None if there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < _CODE_POINT_MAX:
            following = _SURROGATES_END if last + 1 == _SURROGATES_START else last + 1
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


def _check_bytes(field: str, text: object, bytes_max: int) -> None:
    if not isinstance(text, str):
        raise InvalidInput([FieldError(field, f"must be a text, not {shown(text)}")])
    if faults := text_faults(field, text, bytes_max):
        raise InvalidInput(faults)
    if len(text.encode()) > bytes_max:
        fault = f"has {len(text.encode())} bytes; at most {bytes_max}"
        raise InvalidInput([FieldError(field, fault)])
