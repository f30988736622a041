"""The readers: a few threads with a connection each, which see what is committed and wait for
no writer."""

from __future__ import annotations

import sqlite3
from threading import Lock, Thread
from typing import Any

from tickwork.errors import StoreError
from tickwork.store.moment import Moment
from tickwork.store.sqlite.file import DatabaseFile
from tickwork.store.sqlite.inbox import Inbox
from tickwork.store.sqlite.link import Link
from tickwork.store.sqlite.pieces import Piece, Transaction, deliver

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
