"""Arriving: whether what is read is what was sent, and where it is not.

`==` says yes fast; when it says no this says where, and knows the cases in which `==` is wrong:
types that are compared by identity, hours that a clock shows twice, and what is not a number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

_ABSENT = object()


def lost(sent: Any, came: Any, at: str = "$") -> str | None:
    """What of a value does not arrive, without telling the value: it may be a secret; None if
    everything does."""
    if sent == came:
        return None
    kind = type(sent)
    if kind is not type(came):
        return f"a {kind.__name__} would come back as {type(came).__name__} - at `{at}`"
    if (names := _fields(sent)) is not None:
        parts = ((f"{at}.{name}", *(_field(each, name) for each in (sent, came))) for name in names)
        return _first_lost(parts)
    if isinstance(sent, Mapping) and sent.keys() == came.keys():
        return _first_lost((f"{at}[{key!r}]", each, came[key]) for key, each in sent.items())
    if isinstance(sent, list | tuple) and len(sent) == len(came):
        pairs = enumerate(zip(sent, came, strict=True))
        return _first_lost((f"{at}[{number}]", *pair) for number, pair in pairs)
    return None if _is_same(sent, came) else f"another {kind.__name__} would come back - at `{at}`"


def _first_lost(parts: Iterable[tuple[str, Any, Any]]) -> str | None:
    return next((found for at, sent, came in parts if (found := lost(sent, came, at))), None)


def _fields(value: Any) -> Iterable[str] | None:
    """The names of what a struct, a dataclass or a model is made of; None if it is none."""
    kind = type(value)
    if (names := getattr(kind, "__struct_fields__", None)) is not None:
        return tuple(names)
    if dataclasses.is_dataclass(kind):
        return [each.name for each in dataclasses.fields(kind) if each.compare]
    if (names := getattr(kind, "model_fields", None)) is not None:
        return [*names, "model_extra", "__pydantic_private__"]
    return None


def _field(value: Any, name: str) -> Any:
    return getattr(value, name, _ABSENT)


def _is_same(sent: Any, came: Any) -> bool:
    if isinstance(sent, datetime) and sent.tzinfo and came.tzinfo:
        # In an hour that is there twice, one zone's time is never equal to another's.
        return bool(sent.astimezone(UTC) == came.astimezone(UTC))
    if sent != sent and came != came:
        return True  # That is how NaN is known.
    compares: object = type(sent).__eq__
    return compares is object.__eq__  # They look the same, and nobody can say more.
