"""Pieces of work for a thread, and their answers on the way back.

A piece is a plain function that is given an open transaction. Whoever submits it waits on its
own event loop; the thread carries it out and hands the answers of a whole group back with one
call per loop.

Where pieces of work wait for the threads that carry them out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any, Generic, TypeVar
from uuid import UUID

from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.store.ids import Moment
from tickwork.store.sqlite.engine.connection import Connection
from tickwork.store.sqlite.engine.counters import Passed
from tickwork.store.sqlite.engine.sql import present

Result = TypeVar("Result")


class Transaction:
    """What a piece of work sees: the connection, the time, and what to tell after the commit:
    whom to wake, and what passed through queues."""

    __slots__ = ("_moment", "_now", "connection", "execute", "passed", "woken")

    def __init__(self, connection: Connection, moment: Moment) -> None:
        self.connection, self.execute = connection, connection.execute
        self._moment = moment
        self._now: int | None = None
        self.woken: set[UUID] = set()
        self.passed: list[Passed] = []

    @property
    def now(self) -> int:
        """One time for all of it, read when it is first asked for: not before the lock is ours."""
        if self._now is None:
            self._now = present(self._moment)
        return self._now


class Piece(Generic[Result]):
    """One piece of work; `rows` is how much it adds to a group, `alone` that nothing joins it."""

    __slots__ = ("alone", "answer", "error", "loop", "result", "rows", "work")

    def __init__(
        self, work: Callable[[Transaction], Result], *, rows: int = 1, alone: bool = False
    ) -> None:
        self.work, self.rows, self.alone = work, rows, alone
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Result] = self.loop.create_future()
        self.result: Result | None = None
        self.error: BaseException | None = None

    def run(self, transaction: Transaction) -> bool:
        """Does the work and keeps what came of it; False if it failed."""
        with self:
            self.result = self.work(transaction)
        return self.error is None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        # Whatever it is, it belongs to whoever asked and is raised there, not on the thread.
        # (A future cannot carry a StopIteration.)
        self.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        return True


def deliver(pieces: Iterable[Piece[Any]]) -> None:
    """Answers pieces, from any thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Piece[Any]]] = {}
    for piece in pieces:
        by_loop.setdefault(piece.loop, []).append(piece)
    for loop, own in by_loop.items():
        with suppress(RuntimeError):  # The loop is closed: nobody waits there any more.
            loop.call_soon_threadsafe(_answer, own)


def _answer(pieces: Iterable[Piece[Any]]) -> None:
    for piece in pieces:
        if piece.answer.done():
            continue
        if piece.error is None:
            piece.answer.set_result(piece.result)
        else:
            piece.answer.set_exception(piece.error)


class Inbox:
    """Pieces in the order they came, and an end.

    Not bounded: whatever is in it has somebody who waits for it.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Piece[Any] | None] = SimpleQueue()
        self._lock, self._closed, self._pid = Lock(), False, os.getpid()

    @property
    def is_ours(self) -> bool:
        """Threads and connections do not survive a fork; whoever forked has to open anew."""
        return self._pid == os.getpid()

    def put(self, piece: Piece[Any]) -> None:
        """Accepts a piece, which from then on is carried out."""
        if not self.is_ours:
            raise StoreBroken("this store was opened before a fork: open it anew in this process")
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._waiting.put(piece)

    def close(self) -> None:
        """Accepts nothing more; the end follows what was accepted."""
        if self.is_ours:
            with self._lock:
                if not self._closed:
                    self._closed = True
                    self._waiting.put(None)

    def take(self, timeout_seconds: float | None = None) -> Piece[Any] | None:
        """The next piece, or None at the end. `Empty` if there is none in time."""
        piece = self._waiting.get(timeout=timeout_seconds)
        if piece is None:
            self._waiting.put(None)  # The end is for everybody who asks, as often as they ask.
        return piece

    def take_waiting(self) -> Piece[Any] | None:
        """The next piece if there is one now."""
        try:
            return self.take(0)
        except Empty:
            return None
