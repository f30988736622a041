"""The targets of the Makefile take their variables."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_port_of_the_demo_can_be_chosen() -> None:
    words = ["make", "--dry-run", "--no-print-directory", "run", "PORT=9321"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--port 9321" in told
