"""Shows that what was written is synced before it is answered.

    async with traced(children, pid) as trace:
        …                                  # make the process do its work
    (answer,) = trace.calls_with("CommandComplete")
    assert not trace.dirty_before(answer, "pg_wal")

Contract: inside the block every sync, write and send of the process, its threads and the processes
it starts is seen, in one order (see tracer.py); the calls are there after the block. Linux, x86_64
and aarch64. What io_uring or a memory map writes is not seen.
"""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import msgspec

from tests.kit.process import Children

SYNCS = frozenset({"fsync", "fdatasync"})
ATTACHED = '{"attached"'
FILE_WRITES = frozenset({"write", "writev", "pwrite64", "pwritev", "pwritev2"})


@dataclass
class SystemCall:
    thread: int
    name: str
    fd: int
    path: str
    """What the descriptor refers to: a file's path, or for example "socket:[123]"."""
    head: str
    """The first bytes that were written or sent, as latin-1."""
    entered: int
    """Its position in the order of all entries and exits."""
    left: int | None = None
    result: int | None = None

    def succeeded_before(self, other: "SystemCall") -> bool:
        return self.left is not None and self.left < other.entered and self.result == 0


@dataclass
class Trace:
    calls: list[SystemCall] = field(default_factory=list)

    def calls_with(self, head: str, *, name: str = "") -> list[SystemCall]:
        """The calls that wrote or sent this text near the start of their data."""
        return [call for call in self.calls if head in call.head and name in ("", call.name)]

    def syncs_before(self, answer: SystemCall, path: str = "") -> list[SystemCall]:
        """The successful syncs, of files whose path matches, that were over by then."""
        return [
            call
            for call in self.calls
            if call.name in SYNCS and re.search(path, call.path) and call.succeeded_before(answer)
        ]

    def dirty_before(self, answer: SystemCall, path: str) -> list[SystemCall]:
        """The writes, to files whose path matches, that no sync covered before the response."""
        return [
            write
            for write in self.calls
            if write.name in FILE_WRITES
            and re.search(path, write.path)
            and write.entered < answer.entered
            and not any(
                sync.path == write.path and write.left is not None and write.left < sync.entered
                for sync in self.syncs_before(answer)
            )
        ]


class _Line(msgspec.Struct):
    """One line of the tracer: an entry or an exit."""

    thread: int
    entered: int = 0
    left: int = 0
    name: str = ""
    fd: int = -1
    path: str = ""
    head: str = ""
    result: int = 0


@contextlib.asynccontextmanager
async def traced(children: Children, pid: int) -> AsyncIterator[Trace]:
    """Attached on entering the block; the trace is filled on leaving it."""
    tracer = children.spawn("tests.kit.tracer", str(pid))
    trace = Trace()
    await tracer.line(ATTACHED)
    yield trace
    tracer.terminate()
    await tracer.succeeded()
    lines = [line for line in tracer.lines() if not line.startswith(ATTACHED)]
    trace.calls = _paired([msgspec.json.decode(line, type=_Line) for line in lines])


def _paired(lines: list[_Line]) -> list[SystemCall]:
    calls: list[SystemCall] = []
    inside: dict[int, SystemCall] = {}
    for line in lines:
        if line.entered:
            call = SystemCall(
                line.thread, line.name, line.fd, line.path, line.head, entered=line.entered
            )
            inside[line.thread] = call
            calls.append(call)
        else:
            call = inside.pop(line.thread)
            call.left, call.result = line.left, line.result
    return calls
