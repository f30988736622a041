"""Where a handler runs, and the limits of its process: the options that every handler has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from tickwork.core.fields import Reader, reader_of
from tickwork.errors import FieldError, InvalidInput

CPU_SECONDS = 30.0
CPU_SECONDS_MAX = 86_400.0
MEMORY_BYTES = 512 * 1024 * 1024
MEMORY_BYTES_MIN = 64 * 1024 * 1024
"""Minimum bytes of a handler process. The interpreter alone uses a part of it."""

MEMORY_BYTES_MAX = 2**50
"""Maximum bytes of a handler process; more than any machine has."""

_OPTIONS = {
    "max_concurrency": reader_of(int | None),
    "cpu_seconds": reader_of(float),
    "memory_bytes": reader_of(int),
}
_PROCESS_ONLY = ("cpu_seconds", "memory_bytes")


class Isolation(StrEnum):
    """Where a handler runs, and which limits apply to it.

    | where | for | limits |
    |---|---|---|
    | task | coroutines | wall |
    | thread | plain functions | wall; a thread that does not finish is abandoned and counted |
    | process | either | wall, processor time, memory; killed without affecting others |
    """

    TASK = "task"
    THREAD = "thread"
    PROCESS = "process"


def handler_options(
    given: dict[str, Any], *, is_coroutine: bool, is_batch: bool = False, is_http: bool = False
) -> dict[str, Any]:
    """All options of a handler, with defaults. Raises `InvalidInput` for unknown ones. A handler of
    batches has no process, and one of HTTP requests has no `max_concurrency`."""
    known: dict[str, Any] = {
        "isolation": Isolation.TASK if is_coroutine else Isolation.THREAD,
        "max_concurrency": None,
        "cpu_seconds": CPU_SECONDS,
        "memory_bytes": MEMORY_BYTES,
    }
    if is_http:
        del known["max_concurrency"]
    faults: list[FieldError] = []
    chosen = known | given
    reader = Reader(chosen, faults)
    taken = known.keys() - {*_PROCESS_ONLY} if is_batch else known.keys()
    Reader(given, faults).refuse_unknown(taken)
    reader.one_of("isolation", Isolation)
    reader.read(_OPTIONS)
    if chosen["isolation"] != Isolation.PROCESS and not is_batch:
        fault = "works only with isolation='process'"
        faults += [FieldError(name, fault) for name in _PROCESS_ONLY if name in given]
    if faults:
        raise InvalidInput(faults)
    return chosen | {"isolation": Isolation(chosen["isolation"])}


def isolation_fault(function: Callable[..., Any], isolation: Isolation) -> str | None:
    """Why a function cannot run there."""
    is_coroutine = inspect.iscoroutinefunction(function)
    if isolation is Isolation.TASK and not is_coroutine:
        return "is a plain function: use isolation='thread' or 'process'"
    if isolation is Isolation.THREAD and is_coroutine:
        return "is a coroutine function: use isolation='task' or 'process'"
    return None


def limit_faults(cpu_seconds: float, memory_bytes: int) -> Iterator[FieldError]:
    """The errors of the limits of a process."""
    if not 0 < cpu_seconds <= CPU_SECONDS_MAX:
        yield FieldError("cpu_seconds", f"must be above 0 and at most {CPU_SECONDS_MAX:g}")
    if memory_bytes < MEMORY_BYTES_MIN:
        yield FieldError("memory_bytes", f"must be at least {MEMORY_BYTES_MIN}")
    if memory_bytes > MEMORY_BYTES_MAX:
        yield FieldError("memory_bytes", f"must be at most {MEMORY_BYTES_MAX}")
