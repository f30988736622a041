"""A thread's own connection to the file, opened anew whenever it cannot be relied on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack

from tickwork.store.sqlite.connection import Connection
from tickwork.store.sqlite.file import DatabaseFile, Identity, breaks_connection


class Link:
    """Belongs to one thread; `opened` is told of every new connection before it is used."""

    def __init__(self, file: DatabaseFile, opened: Callable[[Connection], object]) -> None:
        self.file, self._opened = file, opened
        self._connection: Connection | None = None
        self._identity: Identity | None = None

    def connected(self) -> Connection:
        """The connection to the file that has the name now.

        A file that was deleted or replaced would still take what is written to it, and nobody
        would ever see it again.
        """
        identity = self.file.identity
        if self._connection is not None and identity != self._identity:
            self.give_up()
        if self._connection is None:
            with ExitStack() as failed:
                connection = self.file.connect()
                failed.callback(connection.close)
                self._opened(connection)
                failed.pop_all()
            self._connection, self._identity = connection, self.file.identity
        return self._connection

    def roll_back(self) -> None:
        """Undoes what was begun, if anything was."""
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def judge(self, error: BaseException | None) -> None:
        """Gives the connection up after an error that may be its own."""
        if isinstance(error, sqlite3.Error) and breaks_connection(error):
            self.give_up()

    def give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
