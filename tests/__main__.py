"""Runs the tests in several processes: `python -m tests [--only AREA,…] [pytest options]`.

The processes take test files from a shared queue, longest first (`tests/kit/file_queue.py`): one
process for each core, and a spare one with a low priority for tests that do not depend on time.
Each process has its own database server and files; the files are in memory where there is room, so
that no test waits for a disk. The first process prints as it runs; the output of the others follows
when it has finished. The exit status is the worst of all. `TESTS_REPORT` names a file for
the tests that failed; `.ci/run` runs them once more (`tests/kit/repeat.py`).
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

import pytest

from tests.kit.file_queue import PROCESS_NUMBER, QUEUE_FOLDER, SPARE
from tests.kit.repeat import REPORT_FILE, write_report
from tests.kit.work_dirs import WorkDir

ROOT = Path(__file__).resolve().parent
PROCESSES_MAX = 4
"""Maximum number of processes; there is one per core and the spare one. Fault tests with short
leases fail when they do not get a core, so others may only use what they leave."""

LIMIT_SECONDS = 4_800
"""Seconds after which a run counts as hung."""

SHUTDOWN_SECONDS_MAX = 30

NO_TESTS = 5
"""The exit status of a process for which the others left no file."""

SCHEDULES = (
    "*calendar*", "*clock_jump*", "*day*", "*firing*", "*leadership*", "*night*",
    "*plan*", "*rolled*", "*schedul*", "*shard*", "*slot*", "*tzdata*",
    "*why*", "*withdraw*", "*year*",
)  # fmt: skip
"""Names of test files about schedules, in folders that hold others too."""


class Area(NamedTuple):
    """Test files by folder (or file) and by name."""

    paths: tuple[str, ...]
    names: tuple[str, ...] = ("*",)
    except_names: tuple[str, ...] = ()


AREAS = {
    "api": Area(("api", "test_wiring.py")),
    "app": Area(("app", "channel", "core", "ops", "testing"), except_names=SCHEDULES),
    "attacks": Area(("attacks",)),
    "cli": Area(("cli",)),
    "client": Area(("client",)),
    "console": Area(("console",)),
    "docs": Area(("docs",)),
    "examples": Area(("examples",)),
    "faults": Area(("faults", "mutants")),
    "package": Area(
        ("kit", "stores", "test_errors.py", "test_extras.py", "test_package.py", "test_areas.py",
         "test_postgres_smoke.py", "tidy")
    ),
    "queue": Area(("conformance",), except_names=SCHEDULES),
    "scheduler": Area(("conformance", "core", "ops", "service"), names=SCHEDULES),
    "store": Area(("store", "stores")),
    "time": Area(("when",)),
    "worker": Area(("service",), except_names=SCHEDULES),
}  # fmt: skip
"""What `make test ONLY=a,b` can run."""


def files_of(area: Area) -> set[Path]:
    """The test files of an area."""
    return {
        file
        for path in area.paths
        for file in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("test_*.py"))
        if any(fnmatch(file.name, name) for name in area.names)
        and not any(fnmatch(file.name, name) for name in area.except_names)
    }


def chosen(only: str) -> list[str]:
    """The files of these areas, separated by commas. Exits on an unknown one."""
    names = [name.strip() for name in only.split(",")]
    unknown = [name for name in names if name not in AREAS]
    if unknown:
        sys.exit(f"no such area: {', '.join(unknown)}; the areas are {', '.join(sorted(AREAS))}")
    return sorted(str(file) for file in set[Path]().union(*(files_of(AREAS[n]) for n in names)))


def run(options: Sequence[str], paths: Sequence[str]) -> int:
    """Runs the tests in these paths and returns the exit status."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.kit.file_queue",
        "-p",
        "tests.kit.repeat",
    ]
    # A process does not know how much of the whole it will run: no percentages.
    command += ["-o", "console_output_style=classic", *options, *paths]
    until = time.monotonic() + LIMIT_SECONDS
    with ExitStack() as stack:
        queue = stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwork-tests-"))
        files = WorkDir.take("files", in_memory=True)
        stack.callback(files.remove)
        environ = os.environ | {QUEUE_FOLDER: queue}
        # Without cached bytecode each process rewrites the assertions of all tests (14 s), and each
        # program that a test starts compiles the package anew.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        running: list[subprocess.Popen[bytes]] = []
        numbers = [*map(str, range(min(os.cpu_count() or 1, PROCESSES_MAX))), SPARE]
        for number in numbers:
            output = stack.enter_context(tempfile.TemporaryFile()) if running else None
            if output is not None:
                stack.callback(_show, output)
            process = subprocess.Popen(
                [*command, "--basetemp", str(files.path / number)],
                cwd=ROOT.parent,
                env=environ | {PROCESS_NUMBER: number},
                stdout=output,
                stderr=output,
            )
            stack.callback(_stop, process)
            running.append(process)
        statuses = {abs(_status(process, until)) for process in running}
        status = max(statuses - {NO_TESTS}, default=NO_TESTS)
        if status == pytest.ExitCode.TESTS_FAILED and REPORT_FILE in os.environ:
            write_report(Path(queue), numbers, Path(os.environ[REPORT_FILE]))
        return status


def _status(process: subprocess.Popen[bytes], until: float) -> int:
    """The exit status. A process that hangs prints its stacks and is aborted."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.wait()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Interrupts a process that still runs, so that it can clean up, and kills it if it hangs."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SHUTDOWN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stdout.write(output.read().decode(errors="replace"))
    sys.stdout.flush()


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Reads the arguments and runs the tests."""
    options = [*arguments]
    paths = [str(ROOT)]
    if "--only" in options:
        at = options.index("--only")
        only = options[at + 1 : at + 2]
        paths = chosen(only[0] if only else "")
        del options[at : at + 2]
    return run(options, paths)


if __name__ == "__main__":
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, _exit)
    sys.exit(main(sys.argv[1:]))
