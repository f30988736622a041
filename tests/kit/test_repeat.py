"""`.ci/run`: a failed test is run once more, alone, and fails the run only if it fails again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.process import ROOT
from tests.kit.repeat import REPEATED_MAX, Report, repeat

PASSES = "def test_passes() -> None: ..."
FAILS = "def test_fails() -> None: raise ValueError('always')"
FAILS_FIRST = """
from pathlib import Path

def test_fails_first() -> None:
    ran = Path(f"ran-{__name__}")
    if not ran.exists():
        ran.touch()
        raise ValueError("only once")
"""
HAS_A_BROKEN_FIXTURE_FIRST = """
from pathlib import Path
import pytest

@pytest.fixture
def resource():
    yield
    ran = Path(f"ran-{__name__}")
    if not ran.exists():
        ran.touch()
        raise ValueError("only once")

def test_of_a_fixture(resource) -> None: ...
"""
IS_SKIPPED_THEN = (
    FAILS_FIRST
    + """
    else:
        import unittest
        raise unittest.SkipTest("not again")
"""
)
CANNOT_BE_IMPORTED_FIRST = f"import nothing_of_this_name\n{FAILS_FIRST}"
CRASHES = "import os\n\ndef test_crashes() -> None: os._exit(1)"

MAKEFILE = """
setup console: ; @true
check:
\t@test ! -e broken-types
\t@.venv/bin/python check.py
"""
CHECK = """
import os, sys
sys.path.append({root!r})
from pathlib import Path
from tests import __main__ as suite

suite.ROOT = Path("checks").resolve()  # The processes run in the folder above it.
suite.PROCESSES_MAX = 1  # And the spare one.
sys.exit(suite.run({options!r}, ["checks"]))
"""


def run(folder: Path, *sources: str, has_broken_types: bool = False) -> tuple[int, list[str]]:
    """Runs `.ci/run` in a project with these test files, and returns its exit status and what it
    printed."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "Makefile").write_text(MAKEFILE)
    options = ["-q", "-c", "pytest.ini", "-p", "no:cacheprovider"]
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "check.py").write_text(CHECK.format(root=str(ROOT), options=options))
    (folder / "checks").mkdir()
    for number, source in enumerate(sources):
        (folder / "checks" / f"test_{number}.py").write_text(source)
    if has_broken_types:
        (folder / "broken-types").touch()
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [str(folder / ".ci" / "run")],
        cwd=folder,
        env=environ | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ended.returncode, ended.stdout.splitlines()


def flaky(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("FLAKY")]


def test_a_test_that_passes_alone_is_flaky_and_one_that_fails_twice_fails_the_run(
    tmp_path: Path,
) -> None:
    status, lines = run(tmp_path, FAILS, FAILS_FIRST, PASSES, IS_SKIPPED_THEN)
    assert (status, flaky(lines)) == (1, ["FLAKY checks/test_1.py::test_fails_first"]), lines
    assert "FAILED TWICE checks/test_0.py::test_fails" in lines
    # A test that is skipped alone has not passed.
    assert "FAILED TWICE checks/test_3.py::test_fails_first" in lines
    assert "2 passed, 2 failed" in lines


def test_a_run_whose_failures_are_all_flaky_succeeds(tmp_path: Path) -> None:
    status, lines = run(tmp_path, FAILS_FIRST, HAS_A_BROKEN_FIXTURE_FIRST, PASSES)
    assert (status, len(flaky(lines))) == (0, 2), lines
    assert "3 passed, 0 failed" in lines


def test_a_run_without_failures_repeats_nothing(tmp_path: Path) -> None:
    status, lines = run(tmp_path, PASSES)
    assert (status, flaky(lines)) == (0, []), lines
    assert not any("repeat" in line for line in lines)


@pytest.mark.parametrize("source", [CANNOT_BE_IMPORTED_FIRST, CRASHES], ids=["import", "crash"])
def test_what_is_no_failed_test_fails_the_run_at_once(tmp_path: Path, source: str) -> None:
    status, lines = run(tmp_path, source, FAILS_FIRST, PASSES)
    assert (status, flaky(lines)) == (1, []), lines


def test_a_failed_check_before_the_tests_fails_the_run(tmp_path: Path) -> None:
    status, lines = run(tmp_path, PASSES, has_broken_types=True)
    assert (status, flaky(lines)) == (1, []), lines


def test_many_failures_are_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    failed = [f"test_{number}.py::test_it" for number in range(REPEATED_MAX + 1)]
    assert repeat(Report(passed=7, failed=failed)) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"7 passed, {REPEATED_MAX + 1} failed"
