"""How commands fail: with a sentence on stderr and an exit code, never with a traceback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import typer

from tickwork.cli.printing import harmless
from tickwork.errors import InvalidInput

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
