"""A connection that can be lent to a caller's own code, and comes back as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Connection(sqlite3.Connection):
    """While it is lent, nobody but us begins, commits or rolls back its transaction."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._is_lent = self._is_impatient = False
        # Set once: SQLite asks when it prepares a statement, and ours stay prepared.
        self.set_authorizer(self._allow)

    @contextmanager
    def lent(self) -> Iterator[sqlite3.Connection]:
        self._is_lent = True
        try:
            yield self
        finally:
            self._is_lent = False
            self.row_factory, self.text_factory = None, str

    def be_impatient(self, milliseconds: int) -> None:
        """Waits so long at most for another process that writes. Said once: every statement lets
        go of the interpreter's lock, and a busy loop may not give it back for a while."""
        if not self._is_impatient:
            self.execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._is_impatient = True

    def _allow(self, action: int, *_details: str | None) -> int:
        if self._is_lent and action == sqlite3.SQLITE_TRANSACTION:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK
