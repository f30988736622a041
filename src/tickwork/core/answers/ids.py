"""Ids as people and other programs see them: a prefix that names the kind, and the id.

`sch_0199…` sorts as the id does. Wherever an id is given, its prefix may be left out.

Inside, an id is a plain UUID: rows, hashes, keys and wire formats are made of it. It gets its
prefix where it leaves: as text by `public_id`, or as an `Id` in the records that an app returns
(`with_prefixes`). `without_prefix` makes it plain again where it comes back.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from msgspec import Struct, structs

from tickwork.errors import NotFound

T = TypeVar("T")


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


_PREFIXES = re.compile(rf"({'|'.join(Prefix)})_")
_DIGITS = 32


class Id(UUID):
    """A UUID that is written with the prefix of its kind. It equals the plain UUID."""

    __slots__ = ("prefix",)

    prefix: Prefix

    def __init__(self, prefix: Prefix, value: UUID) -> None:
        super().__init__(int=value.int)
        object.__setattr__(self, "prefix", prefix)  # A UUID lets nobody set its fields.

    def __str__(self) -> str:
        return f"{self.prefix}_{self.hex}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Id, (self.prefix, without_prefix(self))


def without_prefix(value: T) -> T:
    """The plain UUID of an `Id`; any other value as it is."""
    return UUID(int=value.int) if isinstance(value, Id) else value  # type: ignore[return-value]


def public_id(prefix: Prefix, value: UUID) -> str:
    """An id with its prefix."""
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


def with_prefixes(value: T) -> T:
    """A record, or records, whose ids are written with their prefixes.

    A record's own id is of the kind that its class names as `ID_PREFIX`.
    """
    if isinstance(value, Struct):
        changed = {
            name: new
            for name, prefix in _fields(type(value))
            if (new := _with_prefix(old := getattr(value, name), prefix)) is not old
        }
        return structs.replace(value, **changed) if changed else value
    if type(value) in (tuple, list):
        return type(value)(map(with_prefixes, value))  # type: ignore[call-arg, call-overload]
    return value


@cache
def _fields(record: type[Struct]) -> tuple[tuple[str, Prefix | None], ...]:
    own: Prefix | None = getattr(record, "ID_PREFIX", None)
    known = _FIELDS if own is None else {**_FIELDS, "id": own}
    return tuple((name, known.get(name)) for name in record.__struct_fields__)


def _with_prefix(value: Any, prefix: Prefix | None) -> Any:
    if isinstance(value, UUID):
        return value if prefix is None else Id(prefix, value)
    return with_prefixes(value) if isinstance(value, Struct | tuple | list) else value


def read_path_id(prefix: Prefix, text: str, kind: str) -> UUID:
    """The id in a path. Raises `NotFound` if it is none of this kind: what is no id does not exist,
    as that of another tenant."""
    found = parse_public_id(text, prefix)
    if found is None:
        raise NotFound(kind, text)
    return found
