"""A program of its own: writes down when a process, and what it starts, syncs, writes and sends.

    python -m tests.kit.tracer PID

A small system-call tracer on Linux's ptrace, since strace may not be installed. Contract: it says
`attached` when nothing from then on is missed, then a line of JSON before each call of interest
begins and one after it has ended, numbered in one order. The number is given while the traced
thread stands still: what a call does, it does between its two numbers. On SIGTERM it lets go; the
kernel does the same if it is killed. Being attached interrupts a blocking call once, as any signal
may. A separate program, since a tracer is told of its tracees' ends before their parent is.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from pathlib import Path

PTRACE_SYSCALL = 24
PTRACE_SEIZE = 0x4206
PTRACE_INTERRUPT = 0x4207
PTRACE_LISTEN = 0x4208
PTRACE_GET_SYSCALL_INFO = 0x420E
FOLLOW_FORK_VFORK_CLONE_EXEC = 0x2 | 0x4 | 0x8 | 0x10
MARK_SYSCALL_STOPS = 0x1
SYSCALL_STOP = signal.SIGTRAP | 0x80
EVENT_STOP = 128
WALL = 0x40000000  # wait for threads as well
GROUP_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
ENTRY, EXIT = 1, 2
HEAD_BYTES_MAX = 64

ARCHITECTURES = {
    0xC000003E: {  # x86_64
        1: "write", 18: "pwrite64", 20: "writev", 44: "sendto", 46: "sendmsg", 74: "fsync",
        75: "fdatasync", 277: "sync_file_range", 296: "pwritev", 307: "sendmmsg", 328: "pwritev2",
    },
    0xC00000B7: {  # aarch64
        64: "write", 66: "writev", 68: "pwrite64", 70: "pwritev", 82: "fsync", 83: "fdatasync",
        84: "sync_file_range", 206: "sendto", 211: "sendmsg", 269: "sendmmsg", 287: "pwritev2",
    },
}  # fmt: skip
WITH_BUFFER = frozenset({"write", "pwrite64", "sendto"})


class SyscallInfo(ctypes.Structure):
    """`struct ptrace_syscall_info`, as far as entries and exits need it."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("padding", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number_or_result", ctypes.c_int64),
        ("arguments", ctypes.c_uint64 * 6),
    )


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, thread, address, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Tracer:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._threads: set[int] = set()
        self._to_stop_first: set[int] = set()
        self._inside: set[int] = set()
        self._order = 0

    def attach(self) -> None:
        """Attaches to every thread; repeats until no new one has appeared meanwhile."""
        while new := self._unseized():
            for thread in new:
                with contextlib.suppress(ProcessLookupError):
                    options = MARK_SYSCALL_STOPS | FOLLOW_FORK_VFORK_CLONE_EXEC
                    ptrace(PTRACE_SEIZE, thread, 0, options)
                    ptrace(PTRACE_INTERRUPT, thread)
                    self._to_stop_first.add(thread)
                self._threads.add(thread)

    def run(self) -> None:
        """Runs until SIGTERM, or until nothing is left to trace."""
        while signal.sigwait({signal.SIGCHLD, signal.SIGTERM}) != signal.SIGTERM:
            try:
                while (stopped := os.waitpid(-1, os.WNOHANG | WALL))[0]:
                    self._handle(*stopped)
            except ChildProcessError:
                return

    def _unseized(self) -> set[int]:
        threads = {int(path.name) for path in Path(f"/proc/{self._pid}/task").iterdir()}
        return threads - self._threads

    def _handle(self, thread: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._inside.discard(thread)
            self._stopped_first(thread)
            return
        stop, event, pass_on = os.WSTOPSIG(status), status >> 16, 0
        request = PTRACE_SYSCALL
        if stop == SYSCALL_STOP:
            self._syscall(thread)
        elif event == EVENT_STOP:
            request = PTRACE_LISTEN if stop in GROUP_STOPS else PTRACE_SYSCALL
            self._stopped_first(thread)
        elif not event:
            pass_on = stop
        with contextlib.suppress(ProcessLookupError):  # killed meanwhile
            ptrace(request, thread, 0, pass_on)

    def _stopped_first(self, thread: int) -> None:
        """Reports when the last of the threads found at the start is attached."""
        if thread in self._to_stop_first:
            self._to_stop_first.discard(thread)
            if not self._to_stop_first:
                self._say({"attached": self._pid})

    def _syscall(self, thread: int) -> None:
        info = SyscallInfo()
        try:
            ptrace(PTRACE_GET_SYSCALL_INFO, thread, ctypes.sizeof(info), ctypes.addressof(info))
        except ProcessLookupError:
            return
        if info.op == EXIT and thread in self._inside:
            self._inside.discard(thread)
            self._say({"thread": thread, "left": self._next(), "result": info.number_or_result})
        elif info.op == ENTRY:
            name = ARCHITECTURES[info.arch].get(info.number_or_result)
            if name is not None:
                self._inside.add(thread)
                self._say(self._entry(thread, name, info))

    def _entry(self, thread: int, name: str, info: SyscallInfo) -> dict[str, object]:
        fd = ctypes.c_int32(info.arguments[0]).value
        head = b""
        if name in WITH_BUFFER:
            head = _memory(thread, info.arguments[1], min(info.arguments[2], HEAD_BYTES_MAX))
        return {
            "thread": thread,
            "entered": self._next(),
            "name": name,
            "fd": fd,
            "path": _path(thread, fd),
            "head": head.decode("latin-1"),
        }

    def _next(self) -> int:
        self._order += 1
        return self._order

    def _say(self, words: dict[str, object]) -> None:
        os.write(sys.stdout.fileno(), json.dumps(words).encode() + b"\n")


def _path(thread: int, fd: int) -> str:
    try:
        return str(Path(f"/proc/{thread}/fd/{fd}").readlink())
    except OSError:
        return ""


def _memory(thread: int, address: int, size: int) -> bytes:
    try:
        with Path(f"/proc/{thread}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except OSError:
        return b""


def main() -> None:
    pid = int(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    tracer = Tracer(pid)
    try:
        tracer.attach()
    except PermissionError:
        sys.exit(
            f"process {pid} may not be traced by us: it takes the same user and "
            "kernel.yama.ptrace_scope=0, or root with CAP_SYS_PTRACE"
        )
    except FileNotFoundError:
        sys.exit(f"there is no process {pid}")
    tracer.run()


if __name__ == "__main__":
    main()
