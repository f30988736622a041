"""Type checkers understand the public surface: they accept a correct app and find every mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tickwork.core.options import (
    HandlerOptions,
    QueueOptions,
    RunOptions,
    ScheduleFields,
    SendOptions,
    names_of,
)
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue
from tickwork.facade.schedules import Schedules

ROOT = Path(__file__).parents[2]
TYPED = Path(__file__).with_name("typed.py")
PLANTED = Path(__file__).with_name("planted.txt")

PYRIGHT = Path(sys.executable).with_name("basedpyright")
CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"],
    "pyright": [str(PYRIGHT), "--level", "error", "--pythonpath", sys.executable],
}


def check(command: list[str], path: Path) -> subprocess.CompletedProcess[str]:
    # In the project's folder: mypy takes its settings and its cache from there.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [*command, str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_type_checker_knows_the_types_of_queues_and_messages() -> None:
    checked = check([sys.executable, "-m", "mypy", "--no-error-summary"], TYPED)
    assert (checked.stdout, checked.returncode) == ("", 0)


@pytest.mark.parametrize("checker", CHECKERS)
def test_every_planted_mistake_is_found(checker: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    text = PLANTED.read_text(encoding="utf-8")
    planted.write_text(text, encoding="utf-8")
    wanted = {n for n, line in enumerate(text.splitlines(), start=1) if "# MISTAKE:" in line}
    checked = check(CHECKERS[checker], planted)
    found = {int(n) for n in re.findall(r"planted\.py:(\d+):.*error", checked.stdout)}
    assert len(wanted) >= 27
    assert found == wanted, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (Tickwork.queue, QueueOptions),
        (Tickwork.on, HandlerOptions),
        (Tickwork.consumer, HandlerOptions),
        (Tickwork.run, RunOptions),
        (Queue.send, SendOptions),
        (Schedules.create, ScheduleFields),
    ],
    ids=lambda each: getattr(each, "__qualname__", str(each)),
)
def test_help_names_every_option(call: Any, options: Any) -> None:
    named = set(re.findall(r"`([a-z_]+)`", call.__doc__))
    assert names_of(options) - named == set()
