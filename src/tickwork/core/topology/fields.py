"""Reads the tables of a topology file. Every value keeps its path in the file for error messages.

A value that is wrong is reported and left out; the rest of the file is still read, so that all
errors are reported at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tickwork.core.fields import FieldReader, Reader, shown
from tickwork.core.near_names import nearest
from tickwork.core.queue.fields import SETTINGS
from tickwork.errors import FieldError

_SHOWN_MAX = 10

HINTS = {
    "binding": 'give the name of the producer or consumer: name = "…"',
    "rate_limit": "use rate_per_second",
    "retry_delay": 'use backoff = {kind = "fixed", seconds = …}',
    "visibility_timeout_ms": "use visibility_timeout_seconds",
}
"""Advice for names that other systems use."""


class Located(NamedTuple):
    """A value and its path in the file."""

    value: Any
    path: str


class SectionEntry:
    """One table of the file: its valid values by name, and its path."""

    def __init__(self, path: str, faults: list[FieldError]) -> None:
        self.path, self._faults = path, faults
        self.values: dict[str, Any] = {}
        self._given: frozenset[str] = frozenset()

    def read(self, table: Mapping[str, object], known: Mapping[str, FieldReader]) -> None:
        """Reads the values of a table."""
        self._given = frozenset(table)
        reader = Reader(table, self._faults, f"{self.path}.")
        reader.refuse_unknown(known.keys(), HINTS)
        self.values = reader.read(known)

    def required(self, name: str, example: str) -> str | None:
        """A text that must be given; None if it is missing or wrong."""
        if name not in self._given:
            self.fault(name, f"is missing; give {example}")
        value: str | None = self.values.get(name)
        return value

    def settings(self) -> dict[str, Located]:
        """The values that are settings of a queue."""
        return {
            name: Located(value, f"{self.path}.{name}")
            for name, value in self.values.items()
            if name in SETTINGS
        }

    def fault(self, name: str, message: str) -> None:
        """Adds an error for a field of this table."""
        self._faults.append(FieldError(f"{self.path}.{name}", message))


class Sections:
    """The sections of one file, and the errors found in them."""

    def __init__(
        self, tables: Mapping[str, object], faults: list[FieldError], *, entries_max: int
    ) -> None:
        self._tables = tables
        self.faults = faults
        self._entries_max = entries_max

    def table(self, section: str, known: Mapping[str, FieldReader]) -> SectionEntry:
        """A section that occurs at most once."""
        entry = SectionEntry(section, self.faults)
        value = self._tables.get(section, {})
        if isinstance(value, dict):
            entry.read(value, known)
        else:
            self.faults.append(FieldError(section, f"must be one section: write [{section}]"))
        return entry

    def entries(self, section: str, known: Mapping[str, FieldReader]) -> list[SectionEntry]:
        """The entries of a section that may occur many times."""
        value = self._tables.get(section, [])
        if not isinstance(value, list):
            message = f"must be a list: write [[{section}]], with two brackets, for each entry"
            self.faults.append(FieldError(section, message))
            return []
        if len(value) > self._entries_max:
            message = f"has {len(value)} entries; at most {self._entries_max} are allowed"
            self.faults.append(FieldError(section, message))
            return []
        entries: list[SectionEntry] = []
        for index, table in enumerate(value):
            entry = SectionEntry(f"{section}[{index}]", self.faults)
            if isinstance(table, dict):
                entry.read(table, known)
                entries.append(entry)
            else:
                message = f"must be a section: write [[{section}]] and its keys below"
                self.faults.append(FieldError(entry.path, message))
        return entries


def alternatives(name: str, known: Sequence[str], *, otherwise: str) -> str:
    """Advice for a name that does not exist."""
    near = nearest(name, known)
    if near is not None:
        return f"did you mean {shown(near)}? Otherwise {otherwise}"
    if not known:
        return otherwise
    listed = ", ".join(shown(other) for other in known[:_SHOWN_MAX])
    more = f" and {len(known) - _SHOWN_MAX} more" if len(known) > _SHOWN_MAX else ""
    return f"the file has {listed}{more}. Otherwise {otherwise}"


def quoted(name: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(name, ensure_ascii=False)
