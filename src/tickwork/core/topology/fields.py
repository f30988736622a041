"""Reading the entries of a topology: typed values, each with the place it stands at.

What cannot be read is a fault and is left out, so that the rest is read all the same and every
fault is told at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec

from tickwork.core.fields import shown
from tickwork.core.message.backoff import Backoff, Exponential, Fixed, Listed
from tickwork.core.model import QueueSettings
from tickwork.errors import FieldError

__all__ = [
    "SETTINGS",
    "Entry",
    "Placed",
    "Reading",
    "alternatives",
    "flag",
    "number",
    "quoted",
    "shown",
    "text",
    "whole_number",
]

_INTEGER_MAX = 2**63 - 1
_SHOWN_MAX = 10

HINTS = {
    "binding": 'say who it is: name = "…"',
    "rate_limit": "use rate_per_second",
    "retry_delay": 'use backoff = {kind = "fixed", seconds = …}',
    "visibility_timeout_ms": "use visibility_timeout_seconds",
}
"""What to write for what other systems have."""

_BACKOFFS: dict[str, type[Backoff]] = {
    "exponential": Exponential,
    "list": Listed,
    "fixed": Fixed,
}


class Placed(NamedTuple):
    """A value, and where in the file it stands."""

    value: Any
    place: str


class Unreadable(Exception):
    """A value of the wrong kind: what it must be, and where below its key."""

    def __init__(self, message: str, below: str = "") -> None:
        super().__init__(message)
        self.below = below


Reader = Callable[[object], Any]


class Entry:
    """One table of the file: its readable values by name, and its place."""

    def __init__(self, place: str, faults: list[FieldError]) -> None:
        self.place, self._faults = place, faults
        self.values: dict[str, Any] = {}
        self._given: frozenset[str] = frozenset()

    def read(self, table: Mapping[str, object], known: Mapping[str, Reader]) -> None:
        """Takes the values of a table, each by the reader of its name."""
        self._given = frozenset(table)
        for key, value in table.items():
            if key not in known:
                self.fault(key, f"is not known here; {_advice(key, known)}")
            else:
                self._read(key, key, value, known[key])

    def required(self, name: str, what: str) -> str | None:
        """A text that must be there; a fault of its own was told already."""
        value: str | None = self.values.get(name)
        if value is None and name not in self._given:
            self.fault(name, f"is missing; give {what}")
        return value

    def settings(self) -> dict[str, Placed]:
        """What of it are settings of a queue."""
        return {
            name: Placed(value, f"{self.place}.{name}")
            for name, value in self.values.items()
            if name in SETTINGS
        }

    def fault(self, name: str, message: str) -> None:
        self._faults.append(FieldError(f"{self.place}.{name}", message))

    def _read(self, key: str, name: str, value: object, reader: Reader) -> None:
        try:
            self.values[name] = reader(value)
        except Unreadable as error:
            self.fault(f"{key}{error.below}", str(error))


class Reading:
    """The sections of one file, with the faults found in them."""

    def __init__(
        self, tables: Mapping[str, object], faults: list[FieldError], *, entries_max: int
    ) -> None:
        self._tables, self.faults, self._entries_max = tables, faults, entries_max

    def table(self, section: str, known: Mapping[str, Reader]) -> Entry:
        """A section that is there once, or not at all."""
        entry = Entry(section, self.faults)
        value = self._tables.get(section, {})
        if isinstance(value, dict):
            entry.read(value, known)
        else:
            self.faults.append(FieldError(section, f"must be one section: write [{section}]"))
        return entry

    def entries(self, section: str, known: Mapping[str, Reader]) -> list[Entry]:
        """The entries of a section that is there any number of times."""
        value = self._tables.get(section, [])
        if not isinstance(value, list):
            told = f"must be a list: write [[{section}]], with two brackets, for each"
            self.faults.append(FieldError(section, told))
            return []
        if len(value) > self._entries_max:
            told = f"has {len(value)} entries; at most {self._entries_max}"
            self.faults.append(FieldError(section, told))
            return []
        entries: list[Entry] = []
        for index, table in enumerate(value):
            entry = Entry(f"{section}[{index}]", self.faults)
            if isinstance(table, dict):
                entry.read(table, known)
                entries.append(entry)
            else:
                told = f"must be a section: write [[{section}]] and its keys below"
                self.faults.append(FieldError(entry.place, told))
        return entries


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"must be a text in quotes, not {shown(value)}")
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unreadable(f"must be true or false, not {shown(value)}")
    return value


def whole_number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _INTEGER_MAX:
        raise Unreadable(f"must be a whole number, not {shown(value)}")
    return value


def number(value: object) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _INTEGER_MAX:
        raise Unreadable(f"must be a number, not {shown(value)}")
    return float(value)


def backoff(value: object) -> Backoff:
    """A backoff from a table with its kind, such as `{kind = "fixed", seconds = 60}`."""
    if not isinstance(value, dict):
        raise Unreadable(
            f'must be a table such as {{kind = "fixed", seconds = 60}}, not {shown(value)}'
        )
    kinds = ", ".join(f'"{kind}"' for kind in _BACKOFFS)
    kind = value.get("kind")
    if not isinstance(kind, str) or kind not in _BACKOFFS:
        found = "it is missing" if kind is None else f"not {shown(kind)}"
        raise Unreadable(f"must be one of {kinds}; {found}", ".kind")
    made = _BACKOFFS[kind]
    fields = {name: each for name, each in value.items() if name != "kind"}
    read: dict[str, Any] = {}
    for name, each in fields.items():
        if name not in made.__struct_fields__:
            known = dict.fromkeys(made.__struct_fields__, number)
            raise Unreadable(f"is not known here; {_advice(name, known)}", f".{name}")
        read[name] = _waits(each, name) if made is Listed else _wait(each, f".{name}")
    return made(**read)


def alternatives(name: str, known: Sequence[str], *, otherwise: str) -> str:
    """What to write instead of a name that leads nowhere."""
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {shown(near[0])}? Else {otherwise}"
    if not known:
        return otherwise
    listed = ", ".join(shown(each) for each in known[:_SHOWN_MAX])
    more = f" and {len(known) - _SHOWN_MAX} more" if len(known) > _SHOWN_MAX else ""
    return f"there is {listed}{more}. Else {otherwise}"


def quoted(name: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(name, ensure_ascii=False)


def _waits(value: object, name: str) -> tuple[float, ...]:
    if not isinstance(value, list):
        raise Unreadable(f"must be a list such as [60, 300, 1800], not {shown(value)}", f".{name}")
    return tuple(_wait(each, f".{name}[{index}]") for index, each in enumerate(value))


def _wait(value: object, below: str) -> float:
    try:
        return number(value)
    except Unreadable as error:
        raise Unreadable(str(error), below) from None


def _advice(key: str, known: Mapping[str, Reader]) -> str:
    if key in HINTS:
        return HINTS[key]
    near = get_close_matches(key, [*known], n=1)
    return f"did you mean {near[0]}?" if near else f"use {', '.join(sorted(known))}"


def _settings_readers() -> dict[str, Reader]:
    """A reader for each setting of a queue, by its type: a new setting is known here at once."""
    by_type: dict[object, Reader] = {
        int: whole_number,
        float: number,
        str: text,
        Backoff: backoff,
    }
    readers: dict[str, Reader] = {}
    for field in msgspec.structs.fields(QueueSettings):
        kinds = [kind for kind in by_type if field.type in (kind, kind | None)]  # type: ignore[operator]
        readers[field.name] = by_type[kinds[0]]
    return readers


SETTINGS: dict[str, Reader] = _settings_readers()
