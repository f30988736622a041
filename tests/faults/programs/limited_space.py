"""Little room for this process: a file system of its own, or a limit on the size of its files."""

import ctypes
import os
import resource
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REMOUNT, MS_REC, MS_PRIVATE = 0x20, 0x4000, 0x40000
SMALL_MEGABYTES, LARGE_MEGABYTES = 4, 256
LIMIT_BYTES = 2_000_000


class Limit:
    """No file may grow beyond a size. Any user can set this, and lift it again."""

    name = "limit"

    def __init__(self) -> None:
        _, self._hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, self._hard))

    def grow(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._hard, self._hard))


class Disk:
    """A tiny file system that only this process sees, and that goes when it goes.

    Raises `OSError` where a process may not mount; the process is then to use a `Limit`.
    """

    name = "disk"

    def __init__(self, folder: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folder = os.fsencode(folder)
        user, group = os.geteuid(), os.getegid()
        self._call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if user else 0))
        if user:
            _write("setgroups", "deny")
            _write("uid_map", f"0 {user} 1")
            _write("gid_map", f"0 {group} 1")
        self._call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
        self._mount(0, SMALL_MEGABYTES)

    def grow(self) -> None:
        self._mount(MS_REMOUNT, LARGE_MEGABYTES)

    def _mount(self, flags: int, megabytes: int) -> None:
        size = f"size={megabytes}m".encode()
        self._call("mount", b"tmpfs", self._folder, b"tmpfs", flags, size)

    def _call(self, name: str, *arguments: object) -> None:
        if getattr(self._libc, name)(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), name)


def _write(name: str, text: str) -> None:
    Path(f"/proc/self/{name}").write_text(text)


def little_room(kind: str, folder: Path) -> Disk | Limit:
    """The kind asked for, or the one that every process may have."""
    if kind == Disk.name:
        try:
            return Disk(folder)
        except OSError:
            return Limit()
    return Limit()
