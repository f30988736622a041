"""Real processes that a test starts, watches, freezes and kills.

Contract: a child runs in a process group of its own, and signals go to the whole group. It is gone
when `kill9()` returns, frozen when `stop()` returns. Its output goes to files, so that it never
waits for a reader; its stderr is part of every error about it. At the end of the test, or of the
test process, it is killed. Points (see points.py) armed at `spawn` hold from the first instruction;
`reached` returns each event of a point once, in order, when its action has taken effect.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cache
from pathlib import Path
from typing import IO, Literal, NamedTuple, Self

import msgspec

from tests.kit import fork_server
from tests.kit.waiting import TIMEOUT_SECONDS, eventually, eventually_blocking
from tickwork.service.isolation.process_handle import MAIN_MODULE

ROOT = Path(__file__).parents[2]
LEASH = Path(__file__).with_name("leash.py")
STDERR_TAIL_BYTES = 4_000
PROGRAMS = ("tests.", "examples.", "tickwork")
"""Modules of these packages run in a fork. How long a start takes that imports the package is told
by tests/test_extras.py and tests/cli/test_process.py, whose processes are started anew."""

Action = Literal["pause", "kill", "stop"]


class ChildFailed(AssertionError):
    """A child did not do what the test waited for; the message ends with its stderr."""


@dataclass(frozen=True)
class Arm:
    """What happens at a point, once, after it was passed `after` times."""

    point: str
    action: Action
    _: KW_ONLY
    after: int = 0


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a point."""

    point: str
    action: Action | None
    at_ns: int
    facts: dict[str, object]


@dataclass(frozen=True)
class Files:
    """Where the output of one child goes."""

    folder: Path
    name: str

    @property
    def stdout(self) -> Path:
        return self.folder / f"{self.name}.stdout"

    @property
    def stderr(self) -> Path:
        return self.folder / f"{self.name}.stderr"

    @property
    def events(self) -> Path:
        return self.folder / f"{self.name}.points"


class Ended(NamedTuple):
    """How a process ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Child:
    """One process; created by `Children.spawn`."""

    def __init__(self, pid: int, files: Files, control_fd: int) -> None:
        self.pid = pid
        self._files = files
        self._control_fd = control_fd
        self._returned: dict[str, int] = {}

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while it lives."""
        # It stays unreaped until close(), so that its process id is not reused during the test.
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    @property
    def is_frozen(self) -> bool:
        """Whether all its threads are stopped by a signal."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]
        return all(state in "Tt" for state in states)

    def kill9(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        eventually_blocking(lambda: self.returncode is not None, what=f"{self.pid} to be dead")

    def stop(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)
        eventually_blocking(lambda: self.is_frozen, what=f"{self.pid} to be frozen")

    def cont(self) -> None:
        os.killpg(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        os.killpg(self.pid, signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.pid, number)

    async def wait(self, timeout_seconds: float = TIMEOUT_SECONDS) -> int:
        """The exit code."""
        await self._until(lambda: self.returncode is not None, "its end", timeout_seconds)
        assert self.returncode is not None
        return self.returncode

    async def succeeded(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Waits until it exits, and fails unless the exit code is 0."""
        if code := await self.wait(timeout_seconds):
            raise ChildFailed(self._told(f"ended with {code}"))

    def lines(self) -> list[str]:
        """The complete lines of its stdout so far."""
        return self.stdout().split("\n")[:-1]

    def stdout(self) -> str:
        return self._files.stdout.read_text(errors="replace")

    def stderr(self) -> str:
        return self._files.stderr.read_text(errors="replace")

    async def line(self, containing: str, timeout_seconds: float = TIMEOUT_SECONDS) -> str:
        """The first line of its stdout with this text."""

        def found() -> list[str]:
            return [line for line in self.lines() if containing in line]

        await self._until(found, f"a line with {containing!r}", timeout_seconds)
        return found()[0]

    def arm(self, point: str, action: Action, *, after: int = 0) -> None:
        """Replaces what was armed there. Exact only while the child is stopped."""
        _order(self._control_fd, Arm(point, action, after=after))

    def release(self, point: str) -> None:
        """Releases a child that is paused there."""
        _order(self._control_fd, point)

    def events(self, point: str) -> list[Reached]:
        """All events of the point so far."""
        lines = self._files.events.read_bytes().split(b"\n")[:-1]
        events = [msgspec.json.decode(line, type=Reached) for line in lines]
        return [event for event in events if event.point == point]

    async def reached(self, point: str, timeout_seconds: float = TIMEOUT_SECONDS) -> Reached:
        """The next event of the point; the child is then in the state of its action."""
        number = self._returned.get(point, 0)
        what = f"point {point!r} (number {number + 1})"
        await self._until(lambda: len(self.events(point)) > number, what, timeout_seconds)
        self._returned[point] = number + 1
        event = self.events(point)[number]
        if event.action == "kill":
            await self.wait(timeout_seconds)
        elif event.action == "stop":
            await self._until(lambda: self.is_frozen, "being frozen", timeout_seconds)
        return event

    def close(self) -> None:
        """Kills and reaps it and shows its stderr, which pytest prints if the test failed."""
        self.kill9()
        os.waitpid(self.pid, 0)
        os.close(self._control_fd)
        if text := self.stderr():
            sys.stderr.write(f"--- stderr of {self._files.name} ({self.pid})\n{text}\n")

    async def _until(
        self, condition: Callable[[], object], what: str, timeout_seconds: float
    ) -> None:
        def settled() -> bool:
            return bool(condition()) or self.returncode is not None

        try:
            await eventually(settled, timeout_seconds=timeout_seconds)
        except TimeoutError:
            raise ChildFailed(self._told(f"{timeout_seconds:g} s without {what}")) from None
        if not condition():  # checked again: what it did just before its end counts
            raise ChildFailed(self._told(f"ended with {self.returncode} before {what}"))

    def _told(self, what: str) -> str:
        tail = self.stderr()[-STDERR_TAIL_BYTES:]
        return f"process {self.pid} ({self._files.name}): {what}. Its stderr ends:\n{tail}"


class Children:
    """Starts children and ends them all; the fixture `children` is one of these."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def spawn(
        self,
        module_or_script: str | Path,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        arms: Sequence[Arm] = (),
        is_fresh: bool = False,
        folder: Path | None = None,
    ) -> Child:
        """Runs `python -m module`, or a script if it is a path or ends in .py. Our own programs
        have imported the package already, unless a fresh one is asked for."""
        target = str(module_or_script)
        files = Files(self._folder, f"{len(self._children)}-{Path(target).stem}")
        words, extra = [str(word) for word in arguments], env or {}
        control_in, control_out = os.pipe()
        with (
            files.stdout.open("ab") as stdout,
            files.stderr.open("ab") as stderr,
            files.events.open("ab") as events,
            os.fdopen(control_in, "rb") as control,
        ):
            for arm in arms:
                _order(control_out, arm)
            opened = [stream.fileno() for stream in (stdout, stderr, events, control)]
            is_program = target.startswith(PROGRAMS) and not target.endswith(".py")
            if is_program and not is_fresh and fork_server.is_possible():
                pid = _fork(target, words, extra, opened, folder)
            else:
                is_script = isinstance(module_or_script, Path) or target.endswith(".py")
                command = [*([] if is_script else ["-m"]), target, *words]
                pid = _start(command, extra, opened, folder)
        child = Child(pid, files, control_out)
        self._children.append(child)
        eventually_blocking(
            lambda: child.events("leashed") or child.returncode is not None,
            what=f"{files.name} to start",
        )
        return child

    def run(self, module: str, *arguments: str, env: Mapping[str, str], folder: Path) -> Ended:
        """Runs one of our programs to its end."""
        child = self.spawn(module, *arguments, env=env, folder=folder)
        eventually_blocking(lambda: child.returncode is not None, what=f"the end of {module}")
        assert child.returncode is not None
        return Ended(child.returncode, child.stdout(), child.stderr())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for child in self._children:
            child.close()


def _start(
    words: Sequence[str],
    extra: Mapping[str, str],
    opened: Sequence[int],
    folder: Path | None = None,
) -> int:
    """Starts Python, on a leash."""
    stdout, stderr, *descriptors = opened
    leash = [sys.executable, "-I", "-S", LEASH, os.getpid(), *descriptors, sys.executable]
    process = subprocess.Popen(
        [str(word) for word in (*leash, *words)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=_environment(extra),
        pass_fds=descriptors,
        start_new_session=True,
        cwd=folder,
    )
    process.returncode = 0  # Child waits for it by its process id.
    return process.pid


def _fork(
    module: str,
    arguments: Sequence[str],
    extra: Mapping[str, str],
    opened: Sequence[int],
    folder: Path | None = None,
) -> int:
    """Forks a process that has imported the package."""
    asked = {
        "module": module,
        "arguments": arguments,
        "environment": _environment(extra),
        "folder": str(folder or Path.cwd()),
    }
    server = _fork_server()
    socket.send_fds(server, [json.dumps(asked).encode()], [*opened])
    return int(server.recv(32))


class ForkedProcess:
    """A fork, with what others use of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG)) != (0, 0):
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode


def fork_handler_process(descriptor: int) -> ForkedProcess:
    """Does as `process_handle.start_process`, in a fraction of the time."""
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        return ForkedProcess(_fork(MAIN_MODULE, [], {}, [1, 2, nothing, nothing, descriptor]))
    finally:
        os.close(nothing)


class ForkedCommand(ForkedProcess):
    """`python -m module` in a folder, in a process that has imported the package already; both of
    its outputs go to one file."""

    def __init__(
        self, words: Sequence[str], output: IO[bytes], folder: Path, extra: Mapping[str, str]
    ) -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        opened = [output.fileno(), output.fileno(), nothing, nothing]
        try:
            if fork_server.is_possible():
                super().__init__(_fork(words[0], words[1:], extra, opened, folder))
            else:
                super().__init__(_start(["-m", *words], extra, opened, folder))
        finally:
            os.close(nothing)

    def wait(self, timeout_seconds: float) -> int:
        """Its exit status, when it has ended."""
        eventually_blocking(lambda: self.poll() is not None, timeout_seconds=timeout_seconds)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


@cache
def _fork_server() -> socket.socket:
    """The connection to the server that forks; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", fork_server.__name__, str(theirs.fileno()), str(os.getpid())]
    with theirs:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=_environment({}),
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
        )
    atexit.register(server.wait)
    atexit.register(ours.close)  # First: handlers run in the reverse order.
    return ours


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Our environment, and what a script needs to import `tests.kit` without buffering."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **extra}


def _order(control_fd: int, order: Arm | str) -> None:
    """Arms a point, or releases the one of this name."""
    if isinstance(order, Arm):
        words = {"order": "arm", **asdict(order)}
    else:
        words = {"order": "release", "point": order}
    os.write(control_fd, json.dumps(words).encode() + b"\n")
