"""Fills in the texts of an email or a chat message: `Hello {{ payload.name }}`.

There are three placeholders: `payload` with a path, `slot`, and `schedule.name`. A text is checked
when it is stored, and filled in when it is delivered. A value that the payload lacks makes the
delivery fail for good: sending it again would not help.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

import msgspec

from tickwork.errors import FieldError, InvalidInput

TEMPLATE_CHARACTERS_MAX = 65_536

_MARK = re.compile(r"\{\{((?:(?!\{\{|\}\}).)*)\}\}", re.DOTALL)
_NAME = r"[A-Za-z_][A-Za-z0-9_-]{0,63}"
_KNOWN = re.compile(rf"payload(?:\.(?:{_NAME}|[0-9]{{1,4}}))+|payload|slot|schedule\.name")


class MissingValue(ValueError):
    """The payload has no value for a placeholder."""


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


def fill_in(text: str, values: Mapping[str, Any], *, is_html: bool = False) -> str:
    """The text with its values. Raises `MissingValue`. Values in HTML are escaped."""

    def value(found: re.Match[str]) -> str:
        shown = _shown(_looked_up(found[1].strip(), values))
        return escape(shown) if is_html else shown

    return _MARK.sub(value, text)


def _looked_up(name: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in name.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise MissingValue(f"there is no value for {{{{ {name} }}}}")
    return found


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()
