"""The way to the file: writing in groups on one thread, reading apart, errors in our own words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import TypeVar

from tickwork.store.aside import aside
from tickwork.store.moment import Moment
from tickwork.store.sqlite.file import DatabaseFile
from tickwork.store.sqlite.lookout import Lookout
from tickwork.store.sqlite.passed import Counting
from tickwork.store.sqlite.pieces import Piece, Transaction
from tickwork.store.sqlite.reader import Readers
from tickwork.store.sqlite.writer import Writer

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
