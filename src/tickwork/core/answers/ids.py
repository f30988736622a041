"""Ids as people and other programs see them: a prefix that names the kind, and the id.

`sch_0199…` sorts as the id does. Wherever an id is given, its prefix may be left out.

Inside, an id is a plain UUID: rows, hashes and keys are made of it. What users see has an `Id`,
which is text. `read_id` makes it plain where it comes back. msgspec writes a subclass of `str`
only with a hook: `ENCODER` has one (`enc_hook=str` is enough), and `decoder_of` reads answers.
"""

from __future__ import annotations

import builtins
import re
from enum import StrEnum
from functools import cache
from typing import Any, Self, TypeAlias, TypeVar, overload
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.errors import NotFound

T = TypeVar("T")
AnId = TypeVar("AnId")
"""An id in a record: a UUID where it is stored, an `Id` where it is shown."""


class Prefix(StrEnum):
    """The prefix of each kind of id."""

    SCHEDULE = "sch"
    FIRING = "fir"
    MESSAGE = "msg"
    DEAD_LETTER = "dead"
    BATCH = "bat"
    ENDPOINT = "end"
    DELIVERY = "dlv"
    RUN = "run"
    OPERATION = "oper"


_PREFIXES = re.compile(rf"({'|'.join(Prefix)})_")
_DIGITS = 32


class Id(str):
    """An id as users see it: the text `msg_…`, a `str` wherever one is expected.

    `==` also knows its UUID and its other spelling, without the prefix. A hash can agree with one
    of them only: it is that of the text `msg_…`. So a set or a dict finds an id by its text, and
    not by a UUID; `uuid` is the key among UUIDs.
    """

    __slots__ = ()

    @classmethod
    def of(cls, prefix: Prefix, value: UUID) -> Self:
        """The id of a kind."""
        return cls(public_id(prefix, value))

    @classmethod
    def of_optional(cls, prefix: Prefix, value: UUID | None) -> Self | None:
        """The id of a kind; None if there is none."""
        return None if value is None else cls.of(prefix, value)

    @property
    def uuid(self) -> UUID:
        """The id without its prefix, as rows have it."""
        return UUID(self.hex)

    @property
    def hex(self) -> str:
        """The 32 digits."""
        return self[-_DIGITS:]

    @property
    def bytes(self) -> builtins.bytes:
        """The 16 bytes of its UUID."""
        return self.uuid.bytes

    def __eq__(self, other: object) -> bool:
        if isinstance(other, UUID):
            return self.uuid == other
        if not isinstance(other, str):
            return NotImplemented
        return (
            str.__eq__(self, other)
            or parse_public_id(other, Prefix(self[: -_DIGITS - 1])) == self.uuid
        )

    def __ne__(self, other: object) -> bool:  # That of `str` would not ask `__eq__`.
        return not self == other

    __hash__ = str.__hash__


GivenId: TypeAlias = UUID | str
"""An id as callers may give it: as they got it, or without its prefix."""


@overload
def without_prefix(value: Id | UUID) -> UUID: ...


@overload
def without_prefix(value: T) -> T: ...


def without_prefix(value: Any) -> Any:
    """The plain UUID of an `Id`; any other value as it is."""
    return value.uuid if isinstance(value, Id) else value


def parse_id(text: str) -> Id:
    """The id in a text with a prefix. Raises `ValueError` if it is none."""
    found = _PREFIXES.match(text)
    value = parse_public_id(text)
    if found is None or value is None:
        raise ValueError(f"{text!r} is no id")
    return Id.of(Prefix(found[1]), value)


def plain_text(value: T) -> T | str:
    """A plain text for an `Id`, which only `ENCODER` could write; any other value as it is."""
    return str(value) if isinstance(value, Id) else value


def plain_id(value: object) -> str:
    """What msgspec writes for a subclass of `str`, such as `Id`: its text."""
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def _read_id(kind: type[Any], value: Any) -> Id:
    if kind is Id and isinstance(value, str):
        return parse_id(value)
    raise TypeError(f"there is nothing that reads {kind.__name__}")


ENCODER = msgspec.json.Encoder(enc_hook=plain_id)
"""Writes answers as JSON."""


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """What reads an answer of a kind."""
    known: Any = kind
    return _decoder(known)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=_read_id)


def public_id(prefix: Prefix, value: UUID) -> str:
    """An id with its prefix, as a part of a text or of JSON."""
    return f"{prefix}_{value.hex}"


def parse_public_id(text: str, prefix: Prefix | None = None) -> UUID | None:
    """The id in a text, with any prefix or only with the given one, or without; None if there is
    none."""
    found = _PREFIXES.match(text)
    if found is not None and prefix not in (None, found[1]):
        return None
    digits = text if found is None else text[found.end() :]
    if len(digits) < _DIGITS:
        return None
    try:
        return UUID(digits)
    except ValueError:
        return None


_BEGINNINGS = (Prefix.MESSAGE, Prefix.BATCH, Prefix.SCHEDULE, Prefix.ENDPOINT)
"""What begins a correlation: its id is the correlation id."""


def spellings(text: str) -> tuple[str, ...]:
    """How an id that began a correlation may be written in what it caused: as given, without a
    prefix, or with one. Empty for a text that is no id."""
    value = parse_public_id(text)
    if value is None:
        return ()
    names = (public_id(prefix, value) for prefix in _BEGINNINGS)
    return tuple(dict.fromkeys([text, str(value), *names]))


def optional_id(prefix: Prefix, value: UUID | None) -> str | None:
    """An id with its prefix; None if there is none."""
    return None if value is None else public_id(prefix, value)


_FIELDS = {
    "batch_id": Prefix.BATCH,
    "dead_letter_id": Prefix.DEAD_LETTER,
    "delivery_id": Prefix.DELIVERY,
    "endpoint_id": Prefix.ENDPOINT,
    "message_id": Prefix.MESSAGE,
    "replayed_as": Prefix.MESSAGE,
    "schedule_id": Prefix.SCHEDULE,
}
"""The kinds of the ids that records have of other things, by the name of the field."""


def fields_as_in(record: object, kind: type[Struct]) -> dict[str, Any]:
    """The fields that an answer of a kind has in common with a stored record. Ids of other things
    get their prefixes; its own, `id`, is left to the answer."""
    shared = (name for name in kind.__struct_fields__ if name != "id" and hasattr(record, name))
    return {name: _shown(getattr(record, name), _FIELDS.get(name)) for name in shared}


def _shown(value: Any, prefix: Prefix | None) -> Any:
    return Id.of(prefix, value) if prefix is not None and isinstance(value, UUID) else value


def read_path_id(prefix: Prefix, text: str, kind: str) -> UUID:
    """The id in a path. Raises `NotFound` if it is none of this kind: what is no id does not exist,
    as that of another tenant."""
    found = parse_public_id(text, prefix)
    if found is None:
        raise NotFound(kind, text)
    return found
