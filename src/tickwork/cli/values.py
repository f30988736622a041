"""Reads the texts of options and arguments. Each function gets a text and the name that errors call
it by, and exits with one line if the text is malformed; what a value may be is checked by the
verbs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from msgspec import Struct, structs

from tickwork.cli.output import EXIT_BAD_USAGE, fail, refuse
from tickwork.errors import FieldError, InvalidInput

E = TypeVar("E", bound=StrEnum)


def whole_number(text: str, name: str) -> int:
    """Reads a whole number."""
    if re.fullmatch(r"[+-]?[0-9]{1,9}", text) is None:
        fail(f"{name}: must be a whole number, not {text!r}", code=EXIT_BAD_USAGE)
    return int(text)


def number(text: str, name: str) -> float:
    """Reads a number."""
    try:
        return float(text)
    except ValueError:
        fail(f"{name}: must be a number, not {text!r}", code=EXIT_BAD_USAGE)


def json_value(text: str, name: str) -> Any:
    """Reads JSON."""
    import msgspec

    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        fail(f"{name}: is not JSON: {error}", code=EXIT_BAD_USAGE)


def json_object(example: str) -> Callable[[str, str], dict[str, Any]]:
    """Returns what reads a JSON object such as the example."""

    def read(text: str, name: str) -> dict[str, Any]:
        value = json_value(text, name)
        if not isinstance(value, dict):
            fail(f"{name}: must be an object such as {example}", code=EXIT_BAD_USAGE)
        return value

    return read


def instant(text: str, name: str) -> datetime:
    """Reads an ISO time with an offset."""
    from tickwork.core.fields import Reader

    faults: list[FieldError] = []
    moment = Reader({name: text}, faults).moment(name)
    if moment is not None and moment.tzinfo is None:
        faults.append(FieldError(name, "must have an offset, such as 2027-03-14T09:00:00Z"))
    if moment is None or faults:
        refuse(InvalidInput(faults), {})
    return moment


def choice(kind: type[E], text: str | None, name: str) -> E | None:
    """The member of an enum that a text names; None for none."""
    from tickwork.core.fields import choice_error

    if text is None:
        return None
    if (message := choice_error(text, kind)) is not None:
        fail(f"{name}: {message}", code=EXIT_BAD_USAGE)
    return kind(text)


def pairs(texts: Iterable[str], name: str) -> dict[str, str]:
    """Reads texts such as NAME=VALUE."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            fail(f"{name}: must be NAME=VALUE, not {text!r}", code=EXIT_BAD_USAGE)
        found[key] = value
    return found


def given(options: Struct | None = None, /, **others: Any) -> dict[str, Any]:
    """The fields that are not None."""
    fields = {} if options is None else structs.asdict(options)
    return {name: value for name, value in (fields | others).items() if value is not None}
