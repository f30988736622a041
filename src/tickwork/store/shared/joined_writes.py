"""Writes that the next change of the caller stores in its own transaction: the audit record of the
change, and the mark that a request with an idempotency key is done.

`joined` puts the write into a context variable; `Database.change` of a store takes it from there.
So the change and the write are stored together or not at all, and the methods of a store need no
parameter for it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any


class JoinedWrite:
    """A write that waits for its change. It gets the connection of PostgreSQL and is awaited, or
    the transaction of SQLite."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self.write, self.is_over = write, False


_WAITING: ContextVar[tuple[JoinedWrite, ...]] = ContextVar("waiting_writes", default=())


def waiting_writes() -> list[JoinedWrite]:
    """The writes that wait for a change of this caller."""
    return [write for write in _WAITING.get() if not write.is_over]


def changes_nothing(result: object) -> bool:
    """Whether a change returned that there was nothing to change: False, 0 or an empty list, alone
    or first in a tuple; or an empty tuple."""
    if isinstance(result, tuple):
        return not result or changes_nothing(result[0])
    return isinstance(result, int | list) and not result


@asynccontextmanager
async def joined(
    write: Callable[[Any], Any], write_alone: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Lets the first change inside take the write. Writes alone at the end if none did."""
    waiting = JoinedWrite(write)
    token = _WAITING.set((*_WAITING.get(), waiting))
    try:
        yield
    finally:
        _WAITING.reset(token)
    if not waiting.is_over:
        await write_alone()
