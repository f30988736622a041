"""What a handler's process may use up for one message, held by the system itself.

Processor time: a timer of the system counts it, of all threads, and its signal ends the process
whatever the code is doing; should the code have taken that signal for itself, a limit some seconds
further on ends it all the same. Memory, where the system counts it (Linux does): there is no more,
and Python raises MemoryError.
"""

from __future__ import annotations

import math
import resource
import signal
from types import TracebackType

CPU_SPARE_SECONDS = 2
"""So much later the second limit of processor time comes."""

_MEBIBYTE = 1024 * 1024


class MemoryUsedUp(Exception):
    """The handler wanted more memory than it may have."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"used more than {limit_bytes / _MEBIBYTE:g} MiB of memory")


class Budget:
    """Limits while it is entered; afterwards there are none, so that the end can be told."""

    def __init__(self, *, cpu_seconds: float, memory_bytes: int) -> None:
        self._cpu_seconds, self._memory_bytes = cpu_seconds, memory_bytes
        self.is_used_up = False

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._cpu_seconds)
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = used.ru_utime + used.ru_stime + self._cpu_seconds + CPU_SPARE_SECONDS
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
            self.is_used_up = True
            raise MemoryUsedUp(self._memory_bytes) from error


def _limit(which: int, soft: int | None) -> None:
    """Sets the soft limit, as far as the hard one allows."""
    _, hard = resource.getrlimit(which)
    if soft is None or (hard != resource.RLIM_INFINITY and soft > hard):
        soft = hard
    resource.setrlimit(which, (soft, hard))
