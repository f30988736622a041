"""`docs/when-to-use.md` lists every command."""

from __future__ import annotations

import re
from pathlib import Path

from tickwork.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "when-to-use.md"


def test_every_command_is_listed() -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith("| command line")]
    named = set(re.findall(r"`([\w-]+)`", row))
    assert named == {*app.commands}
