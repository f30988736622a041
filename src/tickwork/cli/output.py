"""Prints results on stdout and progress and errors on stderr.

Contract: text from senders and handlers never controls the terminal. Control characters are escaped
in everything but JSON, which escapes them itself. A failure is one line and an exit code, never a
traceback.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeVar
from uuid import UUID

import click

from tickwork.cli.options import CONNECTION
from tickwork.errors import InvalidInput

if TYPE_CHECKING:
    from msgspec import Struct

T = TypeVar("T")

_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, line separators, direction marks and lone surrogates."""


class Table(NamedTuple):
    """A table to print; `none` is what to print if it has no rows."""

    heading: Sequence[str]
    rows: Iterable[Sequence[object]]
    none: str = ""


Shown = Iterable[str | Table]
"""What people see: lines and tables."""

Show = Callable[[T], Shown]


class Report:
    """What a command answers: a value for --json, otherwise lines and tables; notes for stderr, and
    how it ends."""

    def __init__(
        self, value: object, *shown: str | Table, exit_code: int = 0, notes: Iterable[str] = ()
    ) -> None:
        self.value = value
        self.shown = shown
        self.exit_code = exit_code
        self.notes = notes


Cell = str | Callable[[Any], object]
"""What is in a column: an attribute of the record, such as `counts.ready`, or what a function makes
of the record."""


def columns(*cells: str | tuple[str, Cell], none: str) -> Show[Iterable[Any]]:
    """Shows records as a table: the heading of each column and its cells, which are the attribute
    of that name unless they are given."""
    pairs = [(cell, cell) if isinstance(cell, str) else cell for cell in cells]
    heading = [name for name, _ in pairs]
    values = [attrgetter(cell) if isinstance(cell, str) else cell for _, cell in pairs]

    def show(records: Iterable[Any]) -> Shown:
        return [Table(heading, [[value(record) for value in values] for record in records], none)]

    return show


def print_report(report: Report, *, as_json: bool) -> None:
    """Prints a report: its value or what people see, and its notes."""
    if as_json:
        print_json(report.value)
    else:
        print_shown(report.shown)
    for note in report.notes:
        print_error(note)


def print_shown(shown: Shown) -> None:
    """Prints lines and tables."""
    for part in shown:
        if isinstance(part, Table):
            print_table(part.heading, part.rows, none=part.none)
        else:
            print_lines([part])


def print_json(value: object) -> None:
    """Prints a value as indented JSON."""
    import msgspec

    click.echo(msgspec.json.format(json_text(value)))


def print_json_line(value: object) -> None:
    """Prints a value as JSON on one line."""
    click.echo(json_text(value))


def json_text(value: object) -> str:
    """Returns a value as JSON on one line, with ids as they are written."""
    from tickwork.core.answers.ids import ENCODER

    return ENCODER.encode(value).decode()


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines with control characters escaped."""
    click.echo("\n".join(map(escape_controls, lines)))


def escape_controls(text: str) -> str:
    """Escapes control characters as Python does, such as `\\x1b`."""
    return _CONTROL_CHARACTERS.sub(lambda found: ascii(found[0])[1:-1], text)


def print_table(heading: Sequence[str], rows: Iterable[Sequence[object]], *, none: str) -> None:
    """Prints a table, or `none` if there are no rows.

    In a terminal, ids are shortened to their last digits, as many as are unique in the table, and
    states are coloured unless NO_COLOR is set.
    """
    rows = [*rows]
    if not rows:
        print_lines([none])
    elif not sys.stdout.isatty():
        print_lines(table(heading, rows))
    else:
        paint = _plain if os.environ.get("NO_COLOR") else _coloured
        # The cells are escaped already; colours must not be.
        click.echo("\n".join(table(heading, with_short_ids(rows), paint)))


def with_short_ids(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """Returns the rows with the last digits of each id, as many as are unique in its column."""
    columns = [_short_ids(column) for column in zip(*rows, strict=True)]
    return [[*row] for row in zip(*columns, strict=True)]


def _short_ids(column: Sequence[object]) -> Sequence[object]:
    if CONNECTION.get().server is not None:
        return column  # A server finds nothing by the last digits of its id.
    found = [_hex_of(value) for value in column]
    ids = {digits for digits in found if digits is not None}
    size = next(
        (
            size
            for size in range(_ID_DIGITS_MIN, 32)
            if len({id_[-size:] for id_ in ids}) == len(ids)
        ),
        32,
    )
    return [
        value if digits is None else digits[-size:]
        for value, digits in zip(column, found, strict=True)
    ]


def _hex_of(value: object) -> str | None:
    """The digits of an id, which may have a prefix; None for anything else."""
    if isinstance(value, UUID):
        return value.hex
    found = _PUBLIC_ID.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found[1]


_PUBLIC_ID = re.compile(r"[a-z]{3,4}_([0-9a-f]{32})")


def _plain(text: str, _value: str | None) -> str:
    return text


def _coloured(text: str, value: str | None) -> str:
    """Returns a padded cell in the colour of its value; a heading has none and is bold."""
    if value is None:
        return click.style(text, bold=True)
    colour = _COLOURS.get(value)
    return text if colour is None else click.style(text, fg=colour)


_ID_DIGITS_MIN = 8
_COLOURS = (
    dict.fromkeys(("bad", "dead", "expired", "failed", "parked"), "red")
    | dict.fromkeys(("blocked", "delayed", "paused", "skipped", "warning"), "yellow")
    | dict.fromkeys(("active", "completed", "ok", "succeeded", "valid"), "green")
)


def table(
    heading: Sequence[str],
    rows: Sequence[Sequence[object]],
    paint: Callable[[str, str | None], str] = _plain,
) -> Iterator[str]:
    """Yields the lines of a table: whole numbers right-aligned, no trailing spaces. `paint` colours
    a padded cell by its value."""
    texts = [[*heading], *([*map(_cell, row)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(type(value) is int for value in column) for column in zip(*rows, strict=True)]
    for number, line in enumerate(texts):
        cells = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        cells[-1] = cells[-1].rstrip()
        values: Sequence[str | None] = line if number else [None] * len(line)
        yield "  ".join(map(paint, cells, values)).rstrip()


def local_time(instant: datetime) -> str:
    """Returns an instant with its zone: in the zone of this machine if it is in UTC, otherwise in
    its own (`in_zone`)."""
    shown = instant.astimezone() if instant.tzinfo is UTC else instant
    return f"{shown:%Y-%m-%d %H:%M:%S %Z}"


def in_zone(instant: datetime | str | None, zone: str) -> datetime | None:
    """Returns an instant in a zone, for a table; unchanged if this machine does not know it."""
    from zoneinfo import ZoneInfo

    if isinstance(instant, str):
        instant = datetime.fromisoformat(instant)
    try:
        return None if instant is None else instant.astimezone(ZoneInfo(zone))
    except (KeyError, OSError, ValueError):
        return instant


def field_lines(record: Struct) -> Iterator[str]:
    """Yields one line per field that has a value, in columns; further lines of a text below."""
    import msgspec

    shown = msgspec.structs.asdict(record)
    width = max(map(len, shown))
    for name, value in shown.items():
        if value is None:
            continue
        text = _cell(value) if isinstance(value, datetime) else value
        if not isinstance(text, str):
            text = json_text(value).strip('"')
        first, *others = text.removesuffix("\n").replace("\r\n", "\n").split("\n")
        yield f"{name:{width}}  {first}".rstrip()
        yield from (f"{'':{width}}  {line}".rstrip() for line in others)


def shortened(text: str | None, length_max: int = 60) -> str:
    """Returns a text on one line; in a terminal cut to a length that fits a table."""
    line = escape_controls(" ".join((text or "").split()))
    if len(line) <= length_max or not sys.stdout.isatty():
        return line
    return line[: length_max - 1] + "…"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Returns a number with its noun: `1 delivery`, `2 deliveries`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that shows progress, or None if stderr is not a terminal."""
    with bar() as update:
        yield None if update is None else lambda done, total: update(title, done, total)


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields a function that updates a progress bar: text, done, total.

    Yields None if stderr is not a terminal. The bar disappears at the end.
    """
    if not sys.stderr.isatty():
        yield None
        return
    # Imported late: slow, and only needed at a terminal.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda text, done, total: shown.update(
            task, description=escape_controls(text), completed=done, total=total
        )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, datetime):
        return local_time(value)
    return escape_controls(str(value))


EXIT_FAILED = 1
EXIT_BAD_USAGE = 2
EXIT_INTERRUPTED = 130


class WriteError(Protocol):
    """Writes an error or a warning."""

    def __call__(self, sentence: str, *, is_warning: bool) -> None: ...


_WRITE_ERROR: ContextVar[WriteError | None] = ContextVar("write_error", default=None)


@contextmanager
def errors_written_by(write: WriteError) -> Iterator[None]:
    """Inside, errors are written by a function instead of being printed: as lines of a log."""
    token = _WRITE_ERROR.set(write)
    try:
        yield
    finally:
        _WRITE_ERROR.reset(token)


def took(seconds: float | None) -> str:
    """A short time, in the unit in which it is read most easily."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1_000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"


def print_error(sentence: str, *, is_warning: bool = False) -> None:
    """Prints one line on stderr."""
    if (write := _WRITE_ERROR.get()) is not None:
        write(sentence, is_warning=is_warning)
        return
    said = "warning: " if is_warning else ""
    click.echo(f"tickwork: {said}{escape_controls(' '.join(sentence.split()))}", err=True)


def fail(sentence: str, *, code: int = EXIT_FAILED) -> NoReturn:
    """Prints the reason and exits."""
    print_error(sentence)
    raise click.exceptions.Exit(code)


def refuse(error: InvalidInput, names: Mapping[str, str]) -> NoReturn:
    """Prints every fault under the name of its option and exits."""
    for sentence in _sentences(error, names):
        print_error(sentence)
    raise click.exceptions.Exit(EXIT_BAD_USAGE)


def _sentences(error: InvalidInput, names: Mapping[str, str]) -> Iterable[str]:
    for fault in error.errors:
        name = names.get(fault.field) or names.get(fault.field.partition(".")[0]) or fault.field
        yield f"{name}: {fault.message}"
