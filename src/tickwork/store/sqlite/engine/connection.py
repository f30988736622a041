"""A SQLite connection that application code can use inside our transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Connection(sqlite3.Connection):
    """A connection that can refuse BEGIN, COMMIT and ROLLBACK while application code uses it."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._is_transaction_control_denied = self._is_busy_timeout_short = False
        # Set once: SQLite calls it when it prepares a statement, and our statements are cached.
        self.set_authorizer(self._authorize)

    @contextmanager
    def without_transaction_control(self) -> Iterator[sqlite3.Connection]:
        """The connection for application code, which may not start or end a transaction. Resets
        the row and text factories that the code may have set."""
        self._is_transaction_control_denied = True
        try:
            yield self
        finally:
            self._is_transaction_control_denied = False
            self.row_factory, self.text_factory = None, str

    def shorten_busy_timeout(self, milliseconds: int) -> None:
        """Sets the maximum wait for another process's write lock. Only the first call runs the
        statement: every statement releases the GIL, and a busy event loop is slow to return it."""
        if not self._is_busy_timeout_short:
            self.execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._is_busy_timeout_short = True

    def _authorize(self, action: int, *_details: str | None) -> int:
        if self._is_transaction_control_denied and action == sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK
