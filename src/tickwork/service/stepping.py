"""Awaiting something, and noticing whether it really waits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Told = TypeVar("Told")


@coroutine
def noticing(
    work: Coroutine[Any, Any, T], waits: Callable[[Told], None], told: Told
) -> Generator[Any, Any, T]:
    """Awaits; calls `waits(told)` before it waits for the first time, if it ever does."""
    try:
        wanted = work.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    waits(told)
    while True:
        sent: Any = None
        error: BaseException | None = None
        try:
            sent = yield wanted
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:  # Whatever it is, it is meant for the one who waits.
            error = thrown
        try:
            wanted = work.send(sent) if error is None else work.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None  # It knows this frame; were it known here, nobody would let go of it.
