"""`python -m tests`: all tests, in as many processes side by side as the machine has cores for.

Contract: every test runs once, and as `pytest` alone would run it. What the processes say is shown
one after the other, also if they are stopped; the exit status is the worst of theirs. Options are
pytest's. Each process has servers and files of its own.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NoReturn

ROOT = Path(__file__).resolve().parent
PROCESSES_MAX = 3

SECONDS = {
    "service": 430, "faults": 200, "conformance": 175, "store": 65, "cli": 55, "examples": 50,
    "when": 50, "docs": 20, "ops": 20,
}  # fmt: skip
"""How long the longest take, to share them out evenly; nothing else hangs on it."""

SECONDS_OF_OTHERS = 12

LIMIT_SECONDS = 1_800
"""Nothing takes so long: what still runs then hangs."""

END_SECONDS_MAX = 30


def parts() -> dict[str, int]:
    """What can run by itself, each folder and each file here that has tests, with its weight."""
    names = {path.relative_to(ROOT).parts[0] for path in ROOT.rglob("test_*.py")}
    return {name: SECONDS.get(name, SECONDS_OF_OTHERS) for name in sorted(names)}


def shared_out(weights: Mapping[str, int], processes: int) -> list[list[str]]:
    """What each process runs: the heaviest is given away first, and to whoever has least."""
    shares: list[list[str]] = [[] for _ in range(processes)]
    for name in sorted(weights, key=lambda each: -weights[each]):
        min(shares, key=lambda share: sum(weights[each] for each in share)).append(name)
    return [sorted(share) for share in shares if share]


def run(options: Sequence[str]) -> int:
    """Runs everything. The first share is seen at once, the others when it is through."""
    shares = shared_out(parts(), min(os.cpu_count() or 1, PROCESSES_MAX))
    until = time.monotonic() + LIMIT_SECONDS
    with ExitStack() as stack:
        running: list[subprocess.Popen[bytes]] = []
        for number, share in enumerate(shares):
            output = stack.enter_context(tempfile.TemporaryFile()) if number else None
            if output is not None:
                stack.callback(_show, output)
            command = [sys.executable, "-m", "pytest", *options, *(str(ROOT / n) for n in share)]
            process = subprocess.Popen(command, cwd=ROOT.parent, stdout=output, stderr=output)
            stack.callback(_end, process)
            running.append(process)
        return max(abs(_status(process, until)) for process in running)


def _status(process: subprocess.Popen[bytes], until: float) -> int:
    """How it ended; one that hangs shows where, and is over."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        return process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Lets a process that still runs clean up after itself, if it can."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _show(output: IO[bytes]) -> None:
    output.seek(0)
    sys.stdout.write(output.read().decode(errors="replace"))
    sys.stdout.flush()


def _stopped(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


if __name__ == "__main__":
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, _stopped)
    sys.exit(run(sys.argv[1:]))
