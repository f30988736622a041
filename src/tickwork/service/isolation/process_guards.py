"""What guards a handler in its own process: limits of CPU time and memory, and of forked copies.

The system enforces the limits of a handler. CPU time: a system timer counts it for all threads, and
its signal ends the process whatever the code does; if the code has replaced that signal's handler,
a resource limit some seconds later ends the process anyway. Memory, where the system counts it (as
on Linux): allocations fail, and Python raises MemoryError.

A handler may fork. Only the original process may answer the worker, never a forked copy.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import traceback
from types import TracebackType
from typing import NamedTuple

CPU_EXTRA_SECONDS = 2
"""Seconds between the first and the second limit of CPU time."""

_MEBIBYTE = 1024 * 1024


class MemoryLimitExceeded(Exception):
    """The handler exceeded its memory limit."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"used more than {limit_bytes / _MEBIBYTE:g} MiB of memory")


class ResourceLimits:
    """Sets limits inside its context, and removes them so that the result can be sent."""

    def __init__(self, *, cpu_seconds: float, memory_bytes: int) -> None:
        self._cpu_seconds, self._memory_bytes = cpu_seconds, memory_bytes
        self.is_memory_exceeded = False

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._cpu_seconds)
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = used.ru_utime + used.ru_stime + self._cpu_seconds + CPU_EXTRA_SECONDS
        _limit(resource.RLIMIT_CPU, math.ceil(until))
        _limit(resource.RLIMIT_DATA, self._memory_bytes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _limit(resource.RLIMIT_DATA, None)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        _limit(resource.RLIMIT_CPU, None)
        if isinstance(error, MemoryError):
            self.is_memory_exceeded = True
            raise MemoryLimitExceeded(self._memory_bytes) from error


def _limit(which: int, soft: int | None) -> None:
    """Sets the soft limit, as far as the hard one allows."""
    _, hard = resource.getrlimit(which)
    if soft is None or (hard != resource.RLIM_INFINITY and soft > hard):
        soft = hard
    resource.setrlimit(which, (soft, hard))


_EXIT_FAILED = 1
"""Exit code of a forked copy that raised an error."""


class OriginalProcess:
    """A context that only the process which created it leaves.

    A forked copy has the same stack and the same socket. If it returned from the handler (because
    it could not start its program, or just returned), it would answer in our place. So it exits
    here, with the exit code it would have had elsewhere, without flushing or closing what is ours.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._pid:
            return
        code = _exit_code(error)
        if code is None:
            traceback.print_exception(error)  # Nothing else reports it.
        os._exit(_EXIT_FAILED if code is None else code)


def _exit_code(error: BaseException | None) -> int | None:
    """The exit code of an error; None for an error that is no exit."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else None


class HandlerGuards(NamedTuple):
    """The contexts in which a handler runs."""

    limits: ResourceLimits
    origin: OriginalProcess
