"""Reads the fields that users give, for rules, schedules, topology, settings and options.

A `Reader` wraps one object, such as a JSON body, a TOML table or keyword arguments. It returns
typed values and collects an error for each field that is wrong, so that the caller can report all
of them at once. After an error it returns None (or the default); the caller raises `InvalidInput`
when it has read everything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import islice
from math import isfinite
from reprlib import Repr
from types import NoneType
from typing import Any, TypeAlias, TypeVar, get_args
from uuid import UUID

from tickwork.core.answers.ids import parse_public_id, plain_text
from tickwork.core.near_names import nearest
from tickwork.errors import FieldError, InvalidInput, NulCharacter, UnknownField

Choice = TypeVar("Choice", bound=StrEnum)
Value = TypeVar("Value")

FAULTS_MAX = 100
"""Maximum number of errors that are worded; the others are counted."""

ITEMS_MAX = 1_000
"""Maximum number of items in a list, unless its reader says fewer or more. A longer one is refused
before its items are looked at."""

NEAR_NAMES_MAX = 10
"""Number of unknown names for which a near one is looked for: each is compared with all others."""

NAME_LENGTH_MAX = 120
"""Maximum number of characters of a name that is stored."""

TEXT_LENGTH_MAX = 512
"""Maximum number of characters of a short text that is stored."""

_YEAR_MIN, _YEAR_MAX = 1970, 9000
_INTEGER_MAX = 2**63 - 1
_TEXT_DIGITS_MAX = 18


class _Quote(Repr):
    """Shortens values. Unlike its base it does not sort a whole object to show four names of it."""

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        return super().repr_dict(_first_of(x, self.maxdict), level)

    def repr_set(self, x: set[Any], level: int) -> str:
        return super().repr_set({*islice(x, self.maxset + 1)}, level)

    def repr_frozenset(self, x: frozenset[Any], level: int) -> str:
        return super().repr_frozenset(frozenset(islice(x, self.maxfrozenset + 1)), level)


def _first_of(fields: dict[Any, Any], count: int) -> dict[Any, Any]:
    """The first of the fields, and one more: that there are others is shown."""
    return fields if len(fields) <= count else dict(islice(fields.items(), count + 1))


_QUOTE = _Quote()
_QUOTE.maxstring = _QUOTE.maxother = 60
_NAMES = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


class ValueReader:
    """Typed access to the fields of one object that have one value.

    Errors name a field as `prefix` and its name, or as `names` calls it. With `parses_text` a
    number may be given as text, as in a flag or an environment variable.
    """

    def __init__(
        self,
        fields: Mapping[str, object],
        faults: list[FieldError],
        prefix: str = "",
        *,
        names: Mapping[str, str] | None = None,
        parses_text: bool = False,
    ) -> None:
        self._fields = fields
        self.faults = faults
        self._prefix = prefix
        self._names, self._parses_text = names or {}, parses_text

    def has(self, name: str) -> bool:
        """Whether the field is given and is not None."""
        return self._fields.get(name) is not None

    def value(self, name: str) -> object:
        """The value as it was given, unchecked."""
        return self._fields.get(name)

    def fault(self, name: str, message: str) -> None:
        """Adds an error for a field."""
        self.faults.append(FieldError(self._names.get(name, f"{self._prefix}{name}"), message))

    def refuse_unknown(
        self, known: AbstractSet[str], hints: Mapping[str, str] | None = None
    ) -> None:
        """Adds an error for each field that is not `known`; `hints` replace its advice. The first
        ten name the nearest field, and beyond a hundred errors they are only counted."""
        if self._fields.keys() <= known:
            return
        unknown = [name for name in self._fields if name not in known]
        room = max(FAULTS_MAX - len(self.faults), 1)
        for index, name in enumerate(unknown[:room]):
            advice = (hints or {}).get(name)
            if advice is None and index < NEAR_NAMES_MAX and len(self.faults) < FAULTS_MAX:
                advice = _advice(name, known)
            field = self._names.get(str(name), f"{self._prefix}{name}")
            fault = "is not a known field" + (f"; {advice}" if advice else "")
            self.faults.append(UnknownField(field, fault))
        if len(unknown) > room:
            more = f"and {len(unknown) - room:,} more that are not known fields"
            self.faults.append(UnknownField(f"{self._prefix}…", more))

    def boolean(self, name: str) -> bool | None:
        return self._typed(name, bool)

    def whole_number(self, name: str) -> int | None:
        return self._typed(name, int)

    def string(self, name: str) -> str | None:
        """A text, which may be empty."""
        return self._typed(name, str)

    def number(self, name: str) -> float | None:
        """A finite number."""
        value = self._given_number(name)
        if (message := _type_error(value, float)) is not None:
            self.fault(name, message)
            return None
        assert isinstance(value, int | float)
        if not isfinite(value):
            self.fault(name, f"must be a finite number, not {shown(value)}")
            return None
        return float(value)

    def number_between(self, name: str, low: float, high: float, what: str) -> float | None:
        """A number in a range; `what` names it in the error: "a number of seconds"."""
        value = self._given_number(name)
        if _type_error(value, float) is None:
            assert isinstance(value, int | float)
            if low <= value <= high:
                return float(value)
        given = shown(self._fields.get(name))
        self.fault(name, f"must be {what} from {low:g} to {high:g}, not {given}")
        return None

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int | None:
        """A whole number in a range; an error if it is missing and has no default."""
        value = self._given_number(name)
        if value is None:
            if default is None:
                self.fault(name, f"is missing; give a whole number from {low} to {high}")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            given = shown(self._fields.get(name))
            self.fault(name, f"must be a whole number from {low} to {high}, not {given}")
            return None
        return value

    def is_word(self, name: str, word: str) -> bool:
        """Whether the field is exactly this text."""
        return self._fields.get(name) == word

    def text(self, name: str) -> str | None:
        """A text that is not blank."""
        value = self._typed(name, str)
        if value is not None and not value.strip():
            self.fault(name, "is empty")
            return None
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        """A member of the default's enumeration, by its value."""
        kind = type(default)
        if not self.has(name):
            return default
        found = self.one_of(name, kind)
        return default if found is None else kind(found)

    def one_of(self, name: str, choices: Iterable[str]) -> str | None:
        """One of some texts."""
        value = self._fields.get(name)
        if (message := choice_error(value, choices)) is not None:
            self.fault(name, message)
            return None
        return str(value)

    def moment(self, name: str) -> datetime | None:
        """An ISO 8601 date and time: in UTC if it has an offset, else a local one."""
        value = self._fields.get(name)
        parsed = value if isinstance(value, datetime) else None
        if isinstance(value, str) and len(value) > len("2027-03-14"):
            try:
                parsed = datetime.fromisoformat(value)
            except ValueError as error:
                # For a text that is not a date, the reason only repeats the value.
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

    def instant(self, name: str) -> datetime | None:
        """An ISO 8601 date and time with an offset, or an aware `datetime`, in UTC."""
        moment = self.moment(name)
        if moment is not None and moment.tzinfo is None:
            self.fault(name, "must have a time zone offset, such as 2027-03-14T09:00:00Z")
            return None
        return moment

    def is_in_years(self, name: str, moment: datetime) -> bool:
        """Whether a moment is in the supported years; an error if not."""
        good = _YEAR_MIN <= moment.year <= _YEAR_MAX
        if not good:
            self.fault(name, f"must be in the years {_YEAR_MIN} to {_YEAR_MAX}")
        return good

    def _typed(self, name: str, kind: type[Value]) -> Value | None:
        value: Any = self._fields.get(name)
        if (message := _type_error(value, kind)) is not None:
            self.fault(name, message)
            return None
        plain: Any = plain_text(value)
        return plain  # type: ignore[no-any-return]

    def _given_number(self, name: str) -> Any:
        """The value, parsed if it is a number as text and texts are allowed."""
        value = self._fields.get(name)
        if not self._parses_text or not isinstance(value, str) or not value.isascii():
            return value
        digits = value.removeprefix("-").removeprefix("+")
        if digits.isdigit() and len(digits) <= _TEXT_DIGITS_MAX:
            return int(value)
        try:
            return float(value)
        except ValueError:
            return value


class Reader(ValueReader):
    """Typed access to the fields of one object: values, lists and nested objects."""

    def read(self, known: Mapping[str, FieldReader]) -> dict[str, Any]:
        """The given fields that are `known` and valid, each read by its reader."""
        values: dict[str, Any] = {}
        for name in self._fields:
            if name in known:
                before = len(self.faults)
                value = known[name](self, name)
                if len(self.faults) == before:
                    values[name] = value
        return values

    def items(
        self, name: str, what: str, count_max: int = ITEMS_MAX, *, such_as: str = ""
    ) -> Sequence[Any] | None:
        """A list of at most so many items, which are not checked. `what` names them in the error,
        such as "numbers", and `such_as` is one of them."""
        value = self._fields.get(name)
        if not isinstance(value, list | tuple):
            example = f" such as {such_as}" if such_as else ""
            self.fault(name, f"must be a list of {what}{example}, not {shown(value)}")
            return None
        if len(value) > count_max:
            self.fault(name, f"has {len(value)} {what}; at most {count_max} are allowed")
            return None
        return value

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of finite numbers."""
        value = self.items(name, "numbers")
        if value is None:
            return None
        before, valid = len(self.faults), list[float]()
        for index, item in enumerate(value):
            field = f"{name}[{index}]"
            number = Reader({field: item}, self.faults, self._prefix).number(field)
            if number is not None:
                valid.append(number)
            elif len(self.faults) - before >= FAULTS_MAX:
                break
        return tuple(valid) if len(self.faults) == before else None

    def integers(self, name: str, low: int, high: int, hint: str) -> tuple[int, ...] | None:
        """One whole number or a list of them, sorted and without duplicates."""
        value = self._fields.get(name)
        items: Sequence[Any] | None = [value]
        if isinstance(value, list | tuple):
            items = self.items(name, "numbers")
        if items is None:
            return None
        good = all(type(item) is int and low <= item <= high for item in items)
        if not items or not good:
            self.fault(name, f"must be {low} to {high} ({hint}) or a list, not {shown(value)}")
            return None
        return tuple(sorted(set(items)))

    def strings(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        value = self.items(name, "texts")
        if value is None:
            return None
        if all(isinstance(item, str) for item in value):
            return tuple(map(str, value))
        self.fault(name, f"must be a list of texts, not {shown(value)}")
        return None

    def some_of(self, name: str, kind: type[Choice]) -> frozenset[Choice]:
        """Members of an enumeration: a list of their values, or a text with commas between them.
        None is given twice."""
        value, count_max = self._fields.get(name), len(kind)
        items = value.split(",", count_max) if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not 1 <= len(items) <= count_max:
            self.fault(name, f"must be one or more of {','.join(kind)}, not {shown(value)}")
            return frozenset()
        found: set[Choice] = set()
        for item in items:
            stripped = item.strip() if isinstance(item, str) else item
            message = choice_error(stripped, kind)
            if message is None and stripped in found:
                message = f"has {stripped} twice; give it once"
            if message is not None:
                self.fault(name, message)
                return frozenset()
            found.add(kind(stripped))
        return frozenset(found)

    def dates(self, name: str, count_max: int) -> tuple[date, ...]:
        """A list of dates, sorted and without duplicates."""
        value = self._fields.get(name)
        if value is None:
            return ()
        items = self.items(name, "dates", count_max, such_as="2027-12-25")
        found: set[date] = set()
        for index, item in enumerate(items or ()):
            day = _date(item)
            if day is None:
                self.fault(f"{name}[{index}]", f"{shown(item)} is not a date that exists")
            else:
                found.add(day)
        return tuple(sorted(found))

    def object(self, name: str, known: AbstractSet[str]) -> Reader | None:
        """The reader of a nested object with these fields; of an empty one if it is missing."""
        value = self._fields.get(name)
        if value is None:
            return self.nested(name, {})
        if not isinstance(value, Mapping):
            self.fault(name, f"must be an object with {', '.join(sorted(known))}")
            return None
        reader = self.nested(name, value)
        reader.refuse_unknown(known)
        return reader

    def nested(self, name: str, fields: Mapping[str, Any]) -> Reader:
        """A reader that puts this field's name before the names of its own fields."""
        prefix = f"{self._names.get(name, f'{self._prefix}{name}')}."
        return Reader(fields, self.faults, prefix, parses_text=self._parses_text)


FieldReader: TypeAlias = Callable[[Reader, str], Any]
"""Reads one field by its name, as `Reader.number` does."""

_READERS: dict[object, FieldReader] = {
    bool: Reader.boolean,
    int: Reader.whole_number,
    float: Reader.number,
    str: Reader.string,
}


def reader_of(kind: Any, others: Mapping[Any, FieldReader] | None = None) -> FieldReader:
    """The reader of a type, such as `int` or `float | None`; `others` read types that are not
    built in."""
    readers = {**_READERS, **(others or {})}
    if kind in readers:
        return readers[kind]
    inner = readers[_without_none(kind)]
    return lambda reader, name: None if not reader.has(name) else inner(reader, name)


def text_faults(field: str, text: str, length_max: int) -> list[FieldError]:
    """Errors of a text that is to be stored."""
    if not 1 <= len(text) <= length_max:
        return [FieldError(field, f"must have 1 to {length_max} characters, not {len(text)}")]
    if "\0" in text:
        return [NulCharacter(field, "must not contain a NUL character")]
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return [FieldError(field, "must be valid Unicode, without lone surrogates")]
    return []


def type_faults(field: str, value: object, kind: Any) -> list[FieldError]:
    """An error if a value is not of a built-in type, such as `int` or `float | None`."""
    if value is None and NoneType in get_args(kind):
        return []
    message = _type_error(value, _without_none(kind))
    return [] if message is None else [FieldError(field, message)]


def unknown_faults(given: Iterable[str], known: AbstractSet[str]) -> list[FieldError]:
    """An error for each given name that is not known."""
    faults: list[FieldError] = []
    Reader(dict.fromkeys(given), faults).refuse_unknown(known)
    return faults


def read_instant(field: str, value: object) -> datetime | None:
    """An instant that may be None. Raises `InvalidInput` for anything else."""
    faults: list[FieldError] = []
    instant = None if value is None else Reader({field: value}, faults).instant(field)
    if faults:
        raise InvalidInput(faults)
    return instant


def read_id(field: str, value: object) -> UUID:
    """A UUID, also as text, with or without the prefix that names its kind. Raises `InvalidInput`
    for anything else."""
    found = parse_public_id(value) if isinstance(value, str) else value
    if not isinstance(found, UUID):
        raise InvalidInput([FieldError(field, f"must be an id, not {shown(value)}")])
    return found


def choice_error(value: object, choices: Iterable[str]) -> str | None:
    """What is wrong with a value that must be one of some texts; None if it is one."""
    known = [str(choice) for choice in choices]
    if isinstance(value, str) and value in known:
        return None
    near = nearest(value, known) if isinstance(value, str) else None
    advice = "" if near is None else f"; did you mean {near!r}?"
    return f"must be one of {', '.join(known)}, not {shown(value)}{advice}"


def read_choice(field: str, value: object, kind: type[Choice]) -> Choice:
    """The member of an enum that a value names. Raises `InvalidInput` for anything else."""
    if (fault := choice_error(value, kind)) is not None:
        raise InvalidInput([FieldError(field, fault)])
    return kind(str(value))


def no_queue(name: str, known: Collection[str], *, otherwise: str) -> str:
    """The fault of a queue that does not exist: with the nearest name, or with what to do."""
    near = nearest(name, known)
    advice = otherwise if near is None else f"did you mean {near!r}?"
    return f"there is no queue {shown(name)}; {advice}"


def shown(value: object) -> str:
    """A value as an error quotes it, shortened."""
    try:
        return _QUOTE.repr(value)
    except ValueError:
        return "a number of that size"  # Python refuses to print integers that are too long.


def _type_error(value: object, kind: type[Any]) -> str | None:
    accepted = (int, float) if kind is float else kind
    is_number = kind in (int, float)
    is_wrong = not isinstance(value, accepted) or (is_number and isinstance(value, bool))
    is_too_large = isinstance(value, int) and abs(value) > _INTEGER_MAX
    if not is_wrong and not is_too_large:
        return None
    return f"must be {_NAMES[kind]}, not {shown(value)}"


def _without_none(kind: Any) -> Any:
    for argument in get_args(kind):
        if argument is not NoneType and kind == argument | None:
            return argument
    return kind


def _advice(name: object, known: Collection[str]) -> str:
    if not known:
        return "leave it out: no fields are taken here"
    near = nearest(name, known) if isinstance(name, str) else None
    return f"use {', '.join(sorted(known))}" if near is None else f"did you mean {near!r}?"


def _date(item: object) -> date | None:
    if isinstance(item, str) and len(item) == len("2027-12-25"):
        try:
            item = date.fromisoformat(item)
        except ValueError:
            return None
    if not isinstance(item, date) or isinstance(item, datetime):
        return None
    return item if _YEAR_MIN <= item.year <= _YEAR_MAX else None


def iso(instant: datetime) -> str:
    """An instant as ISO 8601 in UTC, with Z."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
