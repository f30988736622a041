"""A real PostgreSQL server for tests, started in about a second and gone when we are.

Contract: after `start()` the server answers on `url`, as an ordinary user, on a port that stays
the same over restarts. `durable=True` is the server of production (fsync on); otherwise nothing is
synced, which is only fast. `stop("immediate")` is a crash: nothing is written that was not.
However the test process dies, its server dies and its files go (see guard.py).
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from tests.kit import postgres_binaries
from tests.kit.databases import PostgresHost
from tests.kit.waiting import eventually_blocking
from tests.kit.work_dirs import WorkDir

GUARD = Path(__file__).with_name("guard.py")
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
START_ATTEMPTS_MAX = 10
FREE_PORT_ATTEMPTS_MAX = 100
PORT_TAKEN = "Address already in use"
SETTINGS_FILE = "tickwork.conf"
LOG_TAIL_BYTES = 4_000
# Below the range from which the kernel takes ports for outgoing connections: ours stays free
# while the server is down.
PORTS = range(15_000, 32_000)
STATUS_LINE = 7  # of postmaster.pid: "ready" once connections are accepted

StopMode = Literal["fast", "immediate"]
STOP_SIGNALS: dict[StopMode, signal.Signals] = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}

COMMON = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresFailed(RuntimeError):
    """The server did not do what was asked; the message ends with its log."""


class PostgresServer(PostgresHost):
    def __init__(self, *, durable: bool = False, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are PostgreSQL's own and override the kit's; changes apply at `start()`."""
        self.settings = COMMON | (DURABLE if durable else FAST) | dict(settings or {})
        self._programs = postgres_binaries.find()
        self._user = postgres_binaries.server_user()
        self._port = _free_port()
        self._work_dir: WorkDir | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def data_dir(self) -> Path:
        if self._work_dir is None:
            raise PostgresFailed("the server has no data directory before its first start()")
        return self._work_dir.path / "data"

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        return int(self._status()[0])

    @property
    def is_running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def log_tail(self) -> str:
        log = self.data_dir.with_name("log")
        return log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace") if log.exists() else ""

    def start(self) -> None:
        if self.is_running:
            raise PostgresFailed("the server runs already")
        first = self._work_dir is None
        if first:
            self._make_data_dir()
        for attempts_left in reversed(range(START_ATTEMPTS_MAX)):
            try:
                self._run()
                break
            except PostgresFailed as failed:
                if not attempts_left or PORT_TAKEN not in str(failed):
                    raise
                if first:
                    self._port = _free_port()

    def stop(self, mode: StopMode = "fast") -> None:
        """Ends the server and keeps its data; `immediate` leaves it as a power cut would."""
        if self._guard is None:
            return
        try:
            if self.is_running:
                os.kill(self.pid, STOP_SIGNALS[mode])
            self._guard.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise self._failed(f"did not stop ({mode}) in {STOP_SECONDS_MAX} s") from None
        finally:
            self._let_go()

    def restart(self, mode: StopMode = "fast") -> None:
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Ends the server and removes its files."""
        try:
            self.stop("immediate")
        finally:
            if self._work_dir is not None:
                self._work_dir.remove()
                self._work_dir = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _make_data_dir(self) -> None:
        template = postgres_binaries.cluster(self._programs)
        self._work_dir = WorkDir.take("postgres")
        self._user.own(self._work_dir.path)
        shutil.copytree(template, self.data_dir, symlinks=True)
        for path in (self.data_dir, *self.data_dir.rglob("*")):
            self._user.own(path)
        with (self.data_dir / "postgresql.conf").open("a") as configuration:
            configuration.write(f"include '{SETTINGS_FILE}'\n")

    def _run(self) -> None:
        """Starts the server under its guard and waits until it accepts connections."""
        settings = self.settings | {"port": str(self._port)}
        lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
        (self.data_dir / SETTINGS_FILE).write_text("".join(lines))
        (self.data_dir / SETTINGS_FILE).chmod(0o644)
        former = self._status()
        self._guard = self._start_guard()

        def is_ready() -> bool:
            # A crash leaves the file of the previous server behind.
            return "ready" in self._status()[STATUS_LINE:] and self._status() != former

        try:
            eventually_blocking(
                lambda: is_ready() or not self.is_running, timeout_seconds=START_SECONDS_MAX
            )
        except TimeoutError:
            failed = self._failed(f"did not start in {START_SECONDS_MAX} s")
            self._let_go()
            raise failed from None
        if not self.is_running:
            self._let_go()
            raise self._failed("did not start")

    def _start_guard(self) -> subprocess.Popen[bytes]:
        guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid())]
        server = [str(self._programs / "postgres"), "-D", str(self.data_dir)]
        with self.data_dir.with_name("log").open("wb") as log:
            return subprocess.Popen(
                [
                    *guard,
                    str(self.data_dir.parent),
                    str(self._user.uid),
                    str(self._user.gid),
                    *server,
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def _status(self) -> list[str]:
        """The lines of postmaster.pid, if there is one."""
        try:
            text = (self.data_dir / "postmaster.pid").read_text()
        except FileNotFoundError:
            return []
        return [line.strip() for line in text.splitlines()]

    def _failed(self, what: str) -> PostgresFailed:
        return PostgresFailed(f"the PostgreSQL server {what}. Its log ends:\n{self.log_tail()}")

    def _let_go(self) -> None:
        """Waits for the guard, which ends the server when its stdin closes."""
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.stdin.close()
            guard.wait()


def _free_port() -> int:
    for port in random.sample(PORTS, k=FREE_PORT_ATTEMPTS_MAX):
        with socket.socket() as candidate:
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise PostgresFailed(f"none of {FREE_PORT_ATTEMPTS_MAX} ports tried in {PORTS} is free")
