"""The way to the file: writing in groups on one thread, reading apart, errors in our own words.

The readers: a few threads with a connection each, which see what is committed and wait for
no writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from threading import Lock, Thread
from typing import Any, TypeVar

from tickwork.errors import StoreError
from tickwork.store.ids import Moment
from tickwork.store.shared.waiting import aside
from tickwork.store.sqlite.engine.counters import Counting
from tickwork.store.sqlite.engine.file import DatabaseFile, Link
from tickwork.store.sqlite.engine.file_watch import Lookout
from tickwork.store.sqlite.engine.work import Inbox, Piece, Transaction, deliver
from tickwork.store.sqlite.engine.writer import Writer

READERS = 2
"""So that one long count does not hold up every other question."""

CLOSE_SECONDS_MAX = 5.0
"""So long whoever closes waits for what was asked."""


class Readers:
    """Carry out pieces of work that only read, each on one state of the file."""

    def __init__(self, file: DatabaseFile, moment: Moment) -> None:
        self._file, self._moment, self._inbox = file, moment, Inbox()
        self._leaving = Lock()
        self._threads = [
            Thread(target=self._serve, name=f"tickwork-reader-{number}", daemon=True)
            for number in range(READERS)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, piece: Piece[Any]) -> None:
        self._inbox.put(piece)

    def close(self) -> None:
        """Finishes what was accepted, and returns when the file is closed. Blocks, not for long."""
        self._inbox.close()
        if self._inbox.is_ours:
            for thread in self._threads:
                thread.join(CLOSE_SECONDS_MAX / READERS)

    def _serve(self) -> None:
        link = Link(self._file, lambda connection: connection.execute("PRAGMA query_only = ON"))
        while (piece := self._inbox.take()) is not None:
            self._carry_out(link, piece)
            deliver([piece])
        with self._leaving:  # One by one: the last to close a file tidies up its log.
            link.give_up()

    def _carry_out(self, link: Link, piece: Piece[Any]) -> None:
        try:
            connection = link.connected()
            connection.execute("BEGIN")
            piece.run(Transaction(connection, self._moment))
            connection.rollback()
        except (sqlite3.Error, StoreError) as error:
            piece.error = self._file.as_store_error(error)
            link.give_up()
        else:
            link.judge(piece.error)


Result = TypeVar("Result")


class Database:
    """One file with its writer and its readers; may be used from any event loop."""

    def __init__(self, file: DatabaseFile, moment: Moment, lookout: Lookout) -> None:
        self.file, self.counting = file, Counting()
        self._writer = Writer(file, moment, lookout, self.counting)
        self._readers = Readers(file, moment)

    async def write(
        self, work: Callable[[Transaction], Result], *, rows: int = 1, alone: bool = False
    ) -> Result:
        """Carries out work that writes, durably, together with what others write now.

        Once begun it is carried out even if the caller stops waiting for it. With `alone` it
        has a transaction of its own.
        """
        piece = Piece(work, rows=rows, alone=alone)
        self._writer.submit(piece)
        return await self._answer(piece)

    async def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Carries out work that only reads, on one state of the file."""
        piece = Piece(work)
        self._readers.submit(piece)
        return await self._answer(piece)

    async def close(self) -> None:
        """Finishes what was accepted. The writer goes last, and leaves the file without a log."""
        await aside(self._readers.close)
        await aside(self._writer.close)

    async def _answer(self, piece: Piece[Result]) -> Result:
        try:
            return await piece.answer
        except sqlite3.Error as error:
            raise self.file.as_store_error(error) from error
