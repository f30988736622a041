"""Directories that are expensive to create and are created once per machine.

Contract: `made_once(key, make)` returns a directory that `make` has filled completely, whichever
process called it first. Concurrent processes wait for one maker, and a maker that dies leaves
nothing that counts as complete. A directory with missing files is created again.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

COMPLETE = ".complete"
SHARED_TEMP = Path("/tmp")  # noqa: S108  the fallback when TMPDIR is closed to the server's user


def shared_temp_dir() -> Path:
    """The system's temporary directory, if every user can access it."""
    for place in (Path(tempfile.gettempdir()).resolve(), SHARED_TEMP):
        if all(step.stat().st_mode & stat.S_IXOTH for step in (place, *place.parents)):
            return place
    raise RuntimeError(
        f"neither {tempfile.gettempdir()} nor {SHARED_TEMP} can be entered by other users; "
        "set TMPDIR to a directory that can"
    )


def made_once(key: str, make: Callable[[Path], None]) -> Path:
    """The directory of this key; `make(empty_directory)` fills it if it does not exist."""
    root = cache_root()
    place = root / key
    with locked(root / f"{key}.lock"):
        if not _is_whole(place):
            shutil.rmtree(place, ignore_errors=True)
            draft = Path(tempfile.mkdtemp(prefix=f"{key}.draft-", dir=root))
            try:
                draft.chmod(0o755)
                make(draft)
                (draft / COMPLETE).write_text(str(_entries(draft)))
                draft.rename(place)
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
    return place


def cache_root() -> Path:
    """Writable only by us: the directory contains programs that we run."""
    root = shared_temp_dir() / f"tickwork-test-cache-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir()
        root.chmod(0o755)
    status = root.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise RuntimeError(f"{root} must be a directory that only this user can write: remove it")
    return root


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel releases it when we die
        yield


def _is_whole(place: Path) -> bool:
    """Temporary directories are cleaned by age, file by file: counts what is left."""
    try:
        expected = int((place / COMPLETE).read_text())
    except (OSError, ValueError):
        return False
    return _entries(place) == expected + 1


def _entries(place: Path) -> int:
    return sum(len(folders) + len(files) for _, folders, files in os.walk(place))
