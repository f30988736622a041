"""A newcomer's first hour: everything on the page happens as it is written there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import blocks
from tests.docs.terminals import Walk

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")


def test_the_first_hour_goes_as_the_page_says(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    Walk("docs/first-hour.md", folder).run(PAGE)


@pytest.mark.soak
def test_the_first_hour_goes_as_the_page_says_in_a_fresh_clone(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)  # noqa: S607
    (install,) = [block.text for block in blocks(PAGE) if block.language == "sh"]
    script = install.replace("pip install tickwork", f"pip install -q {clone}")
    assert str(clone) in script
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    start = f"set -e\nalias python3={sys.executable}\nshopt -s expand_aliases\n{script}"
    subprocess.run(["bash", "-c", start], check=True, cwd=tmp_path, env=environment)  # noqa: S607
    folder = tmp_path / "shop"
    walk = Walk("docs/first-hour.md", folder, bin_folder=folder / ".venv" / "bin")
    walk.environment.pop("PYTHONPATH", None)
    walk.run(PAGE)
