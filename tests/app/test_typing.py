"""Type checkers understand the public surface: they accept a correct app and find every mistake."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kit.sync_stub import STUB, stub_text
from tickwork.core.options import (
    BatchOptions,
    HandlerOptions,
    RequestOptions,
    ScheduleFields,
    names_of,
)
from tickwork.core.options.message import SendOptions
from tickwork.core.options.queue import QueueOptions
from tickwork.core.options.run import RunOptions
from tickwork.facade.app import Tickwork
from tickwork.facade.queue import Queue
from tickwork.facade.schedules import Schedules

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PLANTED = HERE / "planted.txt"
MISTAKES = 59
"""Number of mistakes in `planted.txt`."""

PYRIGHT = Path(sys.executable).with_name("basedpyright")
CHECKERS: dict[str, list[str | Path]] = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", HERE / "typed.py"],
    "pyright": [PYRIGHT, "--level", "error", "--pythonpath", sys.executable],
}


class Checked(NamedTuple):
    """What a checker printed, and the lines with errors by file."""

    printed: str
    errors: dict[str, set[int]]


@pytest.fixture(scope="module", params=CHECKERS)
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Checked:
    """All files, checked in one run: most of its time goes to reading the package."""
    planted = tmp_path_factory.mktemp("planted") / "planted.py"
    planted.write_text(PLANTED.read_text(encoding="utf-8"), encoding="utf-8")
    # In the project's folder: mypy takes its settings and its cache from there.
    done = subprocess.run(
        [*CHECKERS[request.param], planted, HERE / "typed_shop.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    errors: dict[str, set[int]] = {}
    for file, line in re.findall(r"(\w+\.py):(\d+):.*error", done.stdout):
        errors.setdefault(file, set()).add(int(line))
    return Checked(done.stdout + done.stderr, errors)


def test_every_planted_mistake_is_found_and_nothing_else(checked: Checked) -> None:
    lines = PLANTED.read_text(encoding="utf-8").splitlines()
    wanted = {number for number, line in enumerate(lines, start=1) if "# MISTAKE:" in line}
    assert len(wanted) == MISTAKES
    assert checked.errors["planted.py"] == wanted, checked.printed


def test_a_correct_app_has_no_errors_and_its_types_are_known(checked: Checked) -> None:
    assert checked.errors.keys() == {"planted.py"}, checked.printed
    shop = (HERE / "typed_shop.py").read_text(encoding="utf-8")
    assert shop.startswith("# pyright: strict\n")
    assert not re.search(r"# *(type|pyright): *ignore", shop)


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (Tickwork.queue, QueueOptions),
        (Tickwork.on, HandlerOptions),
        (Tickwork.http, RequestOptions),
        (Tickwork.consumer, BatchOptions),
        (Tickwork.run, RunOptions),
        (Queue.send, SendOptions),
        (Schedules.create, ScheduleFields),
    ],
    ids=lambda name: getattr(name, "__qualname__", str(name)),
)
def test_help_names_every_option(call: Any, options: Any) -> None:
    named = set(re.findall(r"`([a-z_]+)`", call.__doc__))
    assert names_of(options) - named == set()


def test_the_types_of_sync_are_those_of_the_app() -> None:
    """After a change of a signature: `python -m tests.kit.sync_stub`."""
    assert STUB.read_text(encoding="utf-8") == stub_text()
