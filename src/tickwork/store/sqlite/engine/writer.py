"""The writer: one thread, one connection, one transaction at a time.

What waits is taken as a group, bounded. Each piece of it runs behind a savepoint, so that one
that fails takes nothing along; one COMMIT makes them all durable, and only then is anyone
answered. If the COMMIT fails, or the transaction is lost on the way, all of them have failed and
none of them happened. The thread outlives every error: a connection that cannot be relied on is
given up, and the next group opens another.
"""

from __future__ import annotations

import sqlite3
from queue import Empty
from threading import Thread
from typing import Any, NoReturn

from tickwork.errors import StoreError, StoreUnavailable
from tickwork.store.ids import Moment
from tickwork.store.sqlite.engine.counters import Counting
from tickwork.store.sqlite.engine.file import DatabaseFile, Link
from tickwork.store.sqlite.engine.file_watch import Lookout
from tickwork.store.sqlite.engine.work import Inbox, Piece, Transaction, deliver

GROUP_PIECES_MAX = 500
GROUP_ROWS_MAX = 2_000

CLOSE_SECONDS_MAX = 5.0
"""So long whoever closes waits for what was accepted."""


class Writer:
    """Carries out pieces of work, in the order they came."""

    def __init__(
        self, file: DatabaseFile, moment: Moment, lookout: Lookout, counting: Counting
    ) -> None:
        self._file, self._moment = file, moment
        self._lookout, self._counting = lookout, counting
        self._inbox = Inbox()
        self._next: Piece[Any] | None = None
        self._link = Link(file, lookout.reconnected)
        self._thread = Thread(target=self._serve, name="tickwork-writer", daemon=True)
        self._thread.start()

    def submit(self, piece: Piece[Any]) -> None:
        """Accepts a piece; it is answered when it is durable."""
        self._inbox.put(piece)

    def close(self) -> None:
        """Finishes what was accepted, and returns when the file is closed. Blocks; but not for
        long: what an app's own code does there need have no end. It is cut off with the process,
        and nothing of it happened."""
        self._inbox.close()
        if self._inbox.is_ours:
            self._thread.join(CLOSE_SECONDS_MAX)

    def _serve(self) -> None:
        while (group := self._next_group()) is not None:
            if group:
                self._carry_out(group)
                deliver(group)
            if self._lookout.is_due:
                self._look()
        self._link.give_up()

    def _next_group(self) -> list[Piece[Any]] | None:
        """As much of what waits as one commit may hold; empty after a rest; None at the end."""
        first, self._next = self._next, None
        if first is None:
            try:
                first = self._inbox.take(self._lookout.pause_seconds)
            except Empty:
                return []
        if first is None:
            return None
        group, rows = [first], first.rows
        while len(group) < GROUP_PIECES_MAX and not first.alone:
            piece = self._inbox.take_waiting()
            if piece is None:
                break
            if piece.alone or rows + piece.rows > GROUP_ROWS_MAX:
                self._next = piece
                break
            group.append(piece)
            rows += piece.rows
        return group

    def _carry_out(self, group: list[Piece[Any]]) -> None:
        try:
            connection = self._link.connected()
            self._file.begin(connection)
            transaction = Transaction(connection, self._moment)
            self._run(group, transaction)
            connection.commit()
        except (sqlite3.Error, StoreError) as error:
            self._fail(group, error)
            return
        self._lookout.tell(transaction.woken)
        self._counting.add(transaction.passed)
        for piece in group:
            self._link.judge(piece.error)

    def _run(self, group: list[Piece[Any]], transaction: Transaction) -> None:
        """Each behind its savepoint; raises if all of them are lost with one."""
        is_alone = len(group) == 1
        for piece in group:
            if piece.answer.cancelled():  # Nobody wants it, and it has not begun.
                continue
            if not is_alone:
                transaction.execute("SAVEPOINT piece")
            passed = len(transaction.passed)
            if not piece.run(transaction):
                if is_alone or not transaction.connection.in_transaction:
                    _raise_loss(piece.error)
                transaction.execute("ROLLBACK TO piece")
                del transaction.passed[passed:]
            if not is_alone:
                transaction.execute("RELEASE piece")

    def _fail(self, group: list[Piece[Any]], error: sqlite3.Error | StoreError) -> None:
        """Nothing of the group happened. Whoever is the cause is told so; whatever else a piece
        may have run into, it ran into in a state that never was."""
        for piece in group:
            if piece.error is None or piece.error not in (error, error.__cause__):
                piece.error = self._file.as_store_error(error)
        try:
            self._link.roll_back()
        except sqlite3.Error:
            self._link.give_up()
        self._link.judge(error)

    def _look(self) -> None:
        try:
            self._lookout.look(self._link.connected())
        except (sqlite3.Error, StoreError):
            self._link.give_up()


def _raise_loss(error: BaseException | None) -> NoReturn:
    """A whole transaction is undone because of this."""
    if isinstance(error, sqlite3.Error | StoreError):
        raise error
    raise StoreUnavailable(f"the transaction was undone: {error}") from error
