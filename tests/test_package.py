"""The package as a whole: its version and its weight."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import tickwork

ROOT = Path(__file__).parents[1]


def test_the_version_is_the_one_that_is_built() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tickwork.__version__ == project["version"]


def test_importing_the_package_imports_nothing_else() -> None:
    script = "import sys, tickwork; print(*(set(sys.modules) - set(sys.stdlib_module_names)))"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT / "src",
    ).stdout
    ours = {name.partition(".")[0] for name in printed.split() if not name.startswith("_")}
    assert ours - set(sys.stdlib_module_names) == {"tickwork"}
