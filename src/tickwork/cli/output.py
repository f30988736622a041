"""How commands answer: lines, tables and JSON on stdout, progress on stderr.

Contract: what a sender or a handler wrote is shown, never obeyed. Characters that steer a
terminal are spelled out in everything but JSON, which has its own way.

How commands fail: with a sentence on stderr and an exit code, never with a traceback.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NoReturn

import typer

from tickwork.errors import InvalidInput

_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Controls, what breaks lines or turns their direction, and halves of characters."""


def print_json(value: object) -> None:
    """A value as JSON, over several lines."""
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def print_json_line(value: object) -> None:
    """A value as JSON, on one line."""
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())


def print_lines(lines: Iterable[str]) -> None:
    typer.echo("\n".join(map(harmless, lines)))


def harmless(text: str) -> str:
    """A text without what steers a terminal: such characters as Python spells them."""
    return _STEERING.sub(lambda found: ascii(found[0])[1:-1], text)


def print_table(heading: Sequence[str], rows: Iterable[Sequence[object]], *, none: str) -> None:
    """Columns as wide as their widest entry, numbers to the right; `none` if there is no row."""
    rows = [*rows]
    print_lines(table(heading, rows) if rows else [none])


def table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """The lines of a table; no spaces at the end of a line."""
    texts = [[*heading], *([*map(_cell, row)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    right = [all(type(value) is int for value in column) for column in zip(*rows, strict=True)]
    for line in texts:
        cells = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def shortened(text: str | None, length_max: int = 60) -> str:
    """One line of a text, as much of it as a table has room for."""
    line = harmless(" ".join((text or "").split()))
    return line if len(line) <= length_max else line[: length_max - 1] + "…"


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Something to tell how far it is, where somebody watches."""
    with bar() as tell:
        yield None if tell is None else lambda done, total: tell(title, done, total)


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on stderr that is told its text, how much is done and of how much; None where nobody
    watches. It is gone at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    # Heavy, and only of use at a terminal.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda text, done, total: shown.update(
            task, description=harmless(text), completed=done, total=total
        )


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%SZ}"
    return harmless(str(value))


EXIT_FAILED = 1
EXIT_BAD_USAGE = 2


def say(sentence: str) -> None:
    """One line on stderr."""
    typer.echo(f"tickwork: {harmless(' '.join(sentence.split()))}", err=True)


def fail(sentence: str, *, code: int = EXIT_FAILED) -> NoReturn:
    """Says why, and ends the command."""
    say(sentence)
    raise typer.Exit(code)


def refuse(error: InvalidInput, names: Mapping[str, str]) -> NoReturn:
    """Says every fault under the name by which the user gave it, and ends the command."""
    for sentence in _sentences(error, names):
        say(sentence)
    raise typer.Exit(EXIT_BAD_USAGE)


def _sentences(error: InvalidInput, names: Mapping[str, str]) -> Iterable[str]:
    for fault in error.errors:
        name = names.get(fault.field) or names.get(fault.field.partition(".")[0]) or fault.field
        yield f"{name}: {fault.message}"
