"""Reading fields: one fault per field, said so that a person can mend it.

A `Reader` walks a JSON object, collects every fault instead of stopping at the first, and
hands out typed values; after a fault it returns None and the rule is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from enum import StrEnum
from reprlib import Repr
from typing import TypeVar

from tickwork.errors import FieldError

Choice = TypeVar("Choice", bound=StrEnum)

_YEAR_MIN, _YEAR_MAX = 1970, 9000
_QUOTE = Repr()
_QUOTE.maxstring = _QUOTE.maxother = 60


class Reader:
    """Typed access to the fields of one object; `prefix` names it in the faults."""

    def __init__(
        self, fields: Mapping[str, object], faults: list[FieldError], prefix: str = ""
    ) -> None:
        self._fields, self.faults, self._prefix = fields, faults, prefix

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def value(self, name: str) -> object:
        """Whatever is there."""
        return self._fields.get(name)

    def fault(self, name: str, message: str) -> None:
        self.faults.append(FieldError(f"{self._prefix}{name}", message))

    def refuse_unknown(self, known: AbstractSet[str]) -> None:
        if self._fields.keys() <= known:
            return
        for name in self._fields:
            if name not in known:
                self.fault(str(name), f"is not known here; use {', '.join(sorted(known))}")

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int | None:
        value = self._fields.get(name)
        if value is None:
            if default is None:
                self.fault(name, f"is missing; give a whole number from {low} to {high}")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.fault(name, f"must be a whole number from {low} to {high}, not {shown(value)}")
            return None
        return value

    def integers(self, name: str, low: int, high: int, hint: str) -> tuple[int, ...] | None:
        """One number or a list of them, in order and without repeats."""
        value = self._fields.get(name)
        items = value if isinstance(value, list | tuple) else [value]
        good = all(type(item) is int and low <= item <= high for item in items)
        if not items or not good:
            self.fault(name, f"must be {low} to {high} ({hint}) or a list, not {shown(value)}")
            return None
        return tuple(sorted(set(items)))

    def is_word(self, name: str, word: str) -> bool:
        return self._fields.get(name) == word

    def text(self, name: str) -> str | None:
        value = self._fields.get(name)
        if not isinstance(value, str):
            self.fault(name, f"must be a text, not {shown(value)}")
            return None
        if not value.strip():
            self.fault(name, "is empty")
            return None
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        value = self._fields.get(name)
        if value is None:
            return default
        kind = type(default)
        if not isinstance(value, str) or value not in list(kind):
            options = ", ".join(f'"{option}"' for option in kind)
            self.fault(name, f"must be one of {options}, not {shown(value)}")
            return default
        return kind(value)

    def object(self, name: str, known: set[str]) -> Reader | None:
        value = self._fields.get(name)
        if value is None:
            return Reader({}, self.faults, f"{self._prefix}{name}.")
        if not isinstance(value, Mapping):
            self.fault(name, f"must be an object with {', '.join(sorted(known))}")
            return None
        reader = Reader(value, self.faults, f"{self._prefix}{name}.")
        reader.refuse_unknown(known)
        return reader

    def moment(self, name: str) -> datetime | None:
        """An ISO 8601 date and time; aware if it has an offset, else a local one."""
        value = self._fields.get(name)
        parsed = value if isinstance(value, datetime) else None
        if isinstance(value, str) and len(value) > len("2027-03-14"):
            try:
                parsed = datetime.fromisoformat(value)
            except ValueError as error:
                # Where it is not a date at all, the reason only quotes the value once more.
                reason = "" if "isoformat" in str(error) else f" ({error})"
                self.fault(name, f"{shown(value)} is not a date and time that exists{reason}")
                return None
        if parsed is None:
            self.fault(name, f"must be ISO 8601 with a time, such as 2027-03-14T09:00:00Z, "
                       f"not {shown(value)}")  # fmt: skip
            return None
        if not self.is_in_years(name, parsed):
            return None
        return parsed if parsed.tzinfo is None else parsed.astimezone(UTC)

    def is_in_years(self, name: str, moment: datetime) -> bool:
        good = _YEAR_MIN <= moment.year <= _YEAR_MAX
        if not good:
            self.fault(name, f"must lie between the years {_YEAR_MIN} and {_YEAR_MAX}")
        return good

    def dates(self, name: str, count_max: int) -> tuple[date, ...]:
        value = self._fields.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            self.fault(name, "must be a list of dates such as 2027-12-25")
            return ()
        if len(value) > count_max:
            self.fault(name, f"has {len(value)} dates; at most {count_max} are allowed")
            return ()
        found: set[date] = set()
        for index, item in enumerate(value):
            day = _date(item)
            if day is None:
                self.fault(f"{name}[{index}]", f"{shown(item)} is not a date that exists")
            else:
                found.add(day)
        return tuple(sorted(found))


def _date(item: object) -> date | None:
    if isinstance(item, str) and len(item) == len("2027-12-25"):
        try:
            item = date.fromisoformat(item)
        except ValueError:
            return None
    if not isinstance(item, date) or isinstance(item, datetime):
        return None
    return item if _YEAR_MIN <= item.year <= _YEAR_MAX else None


def shown(value: object) -> str:
    """A value as a fault quotes it: short, however long or deep it is."""
    try:
        return _QUOTE.repr(value)
    except ValueError:
        return "a number of that size"  # Longer than Python is willing to print.
