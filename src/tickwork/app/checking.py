"""What an author gives an app, looked at where it is written: of the right kind, or refused."""

from __future__ import annotations

from reprlib import repr as shortened
from types import NoneType
from typing import Any, get_args

import msgspec
from msgspec import Struct

from tickwork.core.limits import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, text_faults
from tickwork.core.message.backoff import Backoff
from tickwork.errors import FieldError, InvalidInput

_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "None",
}
_BACKOFF = "Fixed(60), Listed((60, 300)) or Exponential(30) of tickwork.core.message.backoff"


def kind_faults(field: str, value: object, wanted: Any) -> list[FieldError]:
    """What is wrong with a value that is not of the wanted type, however much it looks like it."""
    try:
        plain = msgspec.to_builtins(value) if isinstance(value, Struct) else value
        msgspec.convert(plain, wanted, strict=True)
    except (msgspec.ValidationError, TypeError):
        return [FieldError(field, f"must be {_words(wanted)}, not {shortened(value)}")]
    return []


def _words(wanted: Any) -> str:
    if wanted == Backoff:
        return _BACKOFF
    return " or ".join(_WORDS[each] for each in get_args(wanted) or (wanted,))


def check_queue_name(field: str, given: object) -> None:
    """Raises `InvalidInput` for what no queue can be called."""
    if isinstance(given, str):
        faults = text_faults(field, given, NAME_LENGTH_MAX)
    else:
        fault = f"must be the name of a queue, a text, not {shortened(given)}"
        if isinstance(name := getattr(given, "name", None), str):
            fault += f"; give {name!r}"
        elif callable(given):
            fault += "; it stands in parentheses, as in @app.on('emails')"
        faults = [FieldError(field, fault)]
    if faults:
        raise InvalidInput(faults)


def check_type_name(given: object) -> None:
    """Raises `InvalidInput` for what no type of messages can be called."""
    faults = kind_faults("type", given, str | None)
    if isinstance(given, str):
        faults = text_faults("type", given, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)
