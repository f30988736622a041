"""Fills in the texts of an email or a chat message: `Hello {{ payload.name }}`.

There are three placeholders: `payload` with a path, `slot`, and `schedule.name`. A text is checked
when it is stored, and filled in when it is delivered. A value that the payload lacks, or values
that are too long, make the delivery fail for good: sending it again would not help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import msgspec

from tickwork.errors import FieldError, InvalidInput

TEMPLATE_CHARACTERS_MAX = 65_536

TEXT_CHARACTERS_MAX = 1_000_000
"""Characters of a text with its values. A text may name a large payload thousands of times."""

_MARK = re.compile(r"\{\{((?:(?!\{\{|\}\}).)*)\}\}", re.DOTALL)
_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_KNOWN = re.compile(rf"payload(?:\.(?:{_NAME}|[0-9]{{1,4}}))+|payload|slot|schedule\.name")


class NotFilled(ValueError):
    """A text cannot be filled in: the payload lacks a value, or the values are too long."""


def check_template(text: object, *, field: str) -> None:
    """Raises `InvalidInput` for a text with an unknown placeholder."""
    if not isinstance(text, str) or len(text) > TEMPLATE_CHARACTERS_MAX:
        fault = f"must be a text of at most {TEMPLATE_CHARACTERS_MAX} characters"
        raise InvalidInput([FieldError(field, fault)])
    faults = [
        FieldError(
            field,
            f"has an unknown placeholder {{{{ {name} }}}}; known are {{{{ payload.… }}}}, "
            "{{ slot }} and {{ schedule.name }}",
        )
        for name in (found.strip() for found in _MARK.findall(text))
        if not _KNOWN.fullmatch(name)
    ]
    if faults:
        raise InvalidInput(faults)


def fill_in(
    text: str,
    values: Mapping[str, Any],
    *,
    is_html: bool = False,
    characters_max: int = TEXT_CHARACTERS_MAX,
) -> str:
    """The text with its values. Raises `NotFilled`. Values in HTML are escaped."""
    room = characters_max - len(text)

    def value(found: re.Match[str]) -> str:
        nonlocal room
        shown = _shown(_looked_up(found[1].strip(), values))
        shown = escape(shown) if is_html else shown
        room -= len(shown) - len(found[0])
        if room < 0:
            raise NotFilled(f"the text has more than {characters_max} characters with its values")
        return shown

    return _MARK.sub(value, text)


def utf16_units(text: str) -> int:
    """The length of a text in UTF-16: characters such as emoji count twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def shortened(text: str, units_max: int) -> str:
    """The text; if it is longer in UTF-16, its start and an ellipsis."""
    if utf16_units(text) <= units_max:
        return text
    start = text.encode("utf-16-le", "surrogatepass")[: 2 * (units_max - 1)]
    return start.decode("utf-16-le", "ignore") + "…"  # Without half a character.


def _looked_up(name: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in name.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise NotFilled(f"there is no value for {{{{ {name} }}}}")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
