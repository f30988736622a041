"""Temporary directories that do not pile up, however the processes that used them died.

Contract: a `WorkDir` belongs to this process until `remove()` or the process's end, whichever is
first. Taking one also removes those that dead processes left behind. The claim on a directory is a
lock that the kernel gives up with its holder.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.kit.machine_cache import cache_root, locked, shared_temp_dir

LOCK = "in-use"
MEMORY = Path("/dev/shm")  # noqa: S108  each directory in it has a name that nobody can guess
MEMORY_BYTES_MIN = 2 * 1024**3
"""Containers often have a few megabytes there, which is too little to work in."""


class WorkDir:
    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    @classmethod
    def take(cls, name: str, *, in_memory: bool = False) -> Self:
        """`in_memory` is for files that need not outlive the machine: if there is space, nothing
        waits for a disk."""
        place = MEMORY if in_memory and _has_room(MEMORY) else shared_temp_dir()
        prefix = f"tickwork-{name}-{os.geteuid()}-"
        with locked(cache_root() / f"{name}.lock"):  # nobody sweeps what is not locked yet
            for abandoned in _abandoned(place, prefix):
                shutil.rmtree(abandoned, ignore_errors=True)
            path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
            lock_fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock_fd, fcntl.LOCK_EX)
        return cls(path, lock_fd)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock_fd)


def _has_room(place: Path) -> bool:
    try:
        return os.access(place, os.W_OK) and shutil.disk_usage(place).free >= MEMORY_BYTES_MIN
    except OSError:
        return False


def _abandoned(place: Path, prefix: str) -> Iterator[Path]:
    for path in place.glob(f"{prefix}*"):
        try:
            with (path / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield path
        except OSError:
            continue  # in use, or being removed by its guard
