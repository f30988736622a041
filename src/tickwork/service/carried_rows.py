"""Rows of a handler's own, said in one process and written in another.

A statement crosses if its values are plain: the kinds of `KINDS`. A function that wants the
connection cannot cross, and is refused where it is said.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.app.handling import Noted, Rows, Written, check_statement, check_text
from tickwork.service.frames import Statement

Plain = None | bool | int | float | str | bytes

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1


class Kind(NamedTuple):
    """How values of a type cross."""

    type: type
    carry: Callable[[Any], Plain]
    take: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _duration(parts: str) -> timedelta:
    days, seconds, microseconds = map(int, parts.split())
    return timedelta(days, seconds, microseconds)


KINDS = {
    "none": Kind(type(None), _same, _same),
    "bool": Kind(bool, _same, _same),
    "int": Kind(int, int.__int__, _same),
    "float": Kind(float, float.__float__, _same),
    "str": Kind(str, str.__str__, _same),
    "bytes": Kind(bytes, bytes, _same),
    "uuid": Kind(UUID, str, UUID),
    "datetime": Kind(datetime, datetime.isoformat, datetime.fromisoformat),
    "date": Kind(date, date.isoformat, date.fromisoformat),
    "time": Kind(time, time.isoformat, time.fromisoformat),
    "duration": Kind(
        timedelta, lambda each: f"{each.days} {each.seconds} {each.microseconds}", _duration
    ),
    "decimal": Kind(Decimal, str, Decimal),
}
_NAMES = {kind.type: name for name, kind in KINDS.items()}


class CarriedRows(Rows):
    """Keeps statements until they are carried to whoever writes them."""

    def execute(self, statement: str, *values: Any) -> Noted:
        check_statement(statement)
        carried = tuple(_carried(index, value) for index, value in enumerate(values, start=1))
        return self._note(Statement(statement, carried))

    def run(self, write: Callable[[Any], Awaitable[None] | None]) -> Noted:
        raise TypeError(
            f"{write!r} wants the connection, which is in another process; use "
            "execute(statement, *values), or a handler with isolation='task' or 'thread'"
        )


def statements_of(written: Written | None) -> tuple[Statement, ...]:
    """What is to be carried, in order."""
    return () if written is None else tuple(each.what for each in written.writes)


def take(statements: tuple[Statement, ...], rows: Rows) -> None:
    """Writes carried statements where they belong."""
    for each in statements:
        rows.execute(each.text, *(KINDS[kind].take(value) for kind, value in each.values))


def _carried(number: int, value: Any) -> tuple[str, Plain]:
    # Also of a kind: an enum of texts, or an UUID as a driver gives it.
    bases = (_NAMES[base] for base in type(value).__mro__ if base in _NAMES)
    name = next(bases, None)
    if name is None:
        kinds = ", ".join(kind.type.__name__ for kind in KINDS.values())
        raise TypeError(
            f"value {number} is a {type(value).__name__}, which does not cross to another "
            f"process; use {kinds}"
        )
    if name == "int" and not INTEGER_MIN <= value <= INTEGER_MAX:
        raise TypeError(f"value {number} has more than 64 bits; use a Decimal")
    if name == "str":
        check_text(f"value {number}", value)
    return name, KINDS[name].carry(value)
