"""`docs/when-to-use.md` lists every command."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from tickwork.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "when-to-use.md"


def test_every_command_is_listed() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| command line")]
    named = set(re.findall(r"`(\w+)`", row))
    group = typer.main.get_command(app)
    assert named == set(group.list_commands(None))  # type: ignore[attr-defined]
