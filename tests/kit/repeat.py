"""Runs failed tests once more, each alone: `python -m tests.kit.repeat REPORT [pytest options]`.

Each process of `python -m tests` records how its tests ended (this module is its plugin). If only
tests failed, `python -m tests` writes a report to the file that `TESTS_REPORT` names. A
test of the report that passes alone, in a new process, is printed as `FLAKY name`; the exit status
is 1 if one fails again. A run that failed otherwise (an import error, a crash) has no report, and
fails.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from tests.kit.file_queue import PROCESS_NUMBER, QUEUE_FOLDER

REPORT_FILE = "TESTS_REPORT"
"""Name of the environment variable with the path of the report."""

REPEATED_MAX = 50
"""Maximum number of tests that are repeated. More failures than these are no accident."""

LIMIT_SECONDS = 900
"""Seconds after which a repeated test counts as hung."""


class Report(NamedTuple):
    """How the tests of a run ended."""

    passed: int
    failed: list[str]
    """Ids of the tests that failed, or whose fixtures did."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self._asdict()))

    @classmethod
    def read(cls, path: Path) -> "Report":
        return cls(**json.loads(path.read_text()))


class Recorder:
    """The part of the plugin that remembers how the tests of this process end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed = set[str]()
        self._failed: dict[str, None] = {}
        self._has_unreadable_files = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._has_unreadable_files |= report.failed

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        is_whole = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED or (
            is_whole and not self._has_unreadable_files
        ):
            Report(len(self._passed - {*self._failed}), [*self._failed]).write(self._path)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Recorder(_record_of(os.environ[PROCESS_NUMBER])))


def _record_of(process: str, queue: Path | None = None) -> Path:
    return (queue or Path(os.environ[QUEUE_FOLDER])) / f".ended-{process}"


def write_report(queue: Path, processes: Iterable[str], report: Path) -> None:
    """Writes the report of a run that failed, unless something else than tests failed in one of
    its processes."""
    records = [_record_of(process, queue) for process in processes]
    if not all(record.exists() for record in records):
        return
    ended = [Report.read(record) for record in records]
    failed = [test for process in ended for test in process.failed]
    if failed:
        Report(sum(process.passed for process in ended), failed).write(report)


def repeat(report: Report, options: Sequence[str] = ()) -> int:
    """Runs the failed tests again and returns the exit status. The last line is that of the
    whole run."""
    failed = report.failed
    if len(failed) > REPEATED_MAX:
        _say(f"{len(failed)} tests failed. At most {REPEATED_MAX} are repeated: none is.")
    else:
        failed = [test for test in failed if not _passes_alone(test, options)]
    flaky = len(report.failed) - len(failed)
    _say(f"{report.passed + flaky} passed, {len(failed)} failed")
    return 1 if failed else 0


def _passes_alone(test: str, options: Sequence[str]) -> bool:
    # Without the line of totals: those of the whole run follow.
    command = [sys.executable, "-m", "pytest", "-qq", "-p", "tests.kit.repeat", *options, test]
    with TemporaryDirectory() as folder:
        own = {QUEUE_FOLDER: folder, PROCESS_NUMBER: "0"}
        try:
            ended = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=LIMIT_SECONDS,
                env=os.environ | own,
            )
        except subprocess.TimeoutExpired:
            _say(f"FAILED TWICE {test}: it took over {LIMIT_SECONDS} s")
            return False
        record = _record_of("0", Path(folder))
        # The exit status of a test that is skipped is 0, too.
        has_passed = record.exists() and Report.read(record).passed > 0
    is_flaky = ended.returncode == 0 and has_passed
    _say(f"FLAKY {test}" if is_flaky else f"{ended.stdout}{ended.stderr}FAILED TWICE {test}")
    return is_flaky


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    path = Path(arguments[0])
    if not path.exists():
        _say("There is no test to repeat: something else failed, see above.")
        return 1
    return repeat(Report.read(path), arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
