"""A point before every statement that this process asks of a database: `statement`.

Between two statements of a transaction is where a process is killed in the worst moment. Those
of a stretch of work have a point of the stretch's own as well, by which they can be counted.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import asyncpg

from tests.kit.points import reach
from tickwork.store.sqlite.engine.connection import Connection

POINT = "statement"
_ASKED = ("execute", "executemany", "fetch", "fetchrow", "fetchval", "copy_records_to_table")
_ASKED_HERE = ("execute", "executemany", "commit")

_stretches: list[str] = []


@contextmanager
def stretch(point: str) -> Iterator[None]:
    """Within the block, every statement of this process reaches `point`, too."""
    _stretches.append(point)
    try:
        yield
    finally:
        _stretches.remove(point)


def stop_before_statements() -> None:
    """From now on, in this process, on both databases."""
    for name in _ASKED:
        setattr(asyncpg.Connection, name, _reaching_there(getattr(asyncpg.Connection, name)))
    for name in _ASKED_HERE:
        setattr(Connection, name, _reaching(getattr(Connection, name)))


def _reaching_there(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def asked(*arguments: Any, **named: Any) -> Any:
        _reach()
        return await method(*arguments, **named)

    return asked


def _reaching(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def asked(*arguments: Any, **named: Any) -> Any:
        _reach()
        return method(*arguments, **named)

    return asked


def _reach() -> None:
    for point in (POINT, *_stretches):
        reach(point)
