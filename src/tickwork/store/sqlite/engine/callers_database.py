"""Stands for the writer and the readers where a verb runs in the transaction of its caller.

The verb runs inside a savepoint of the caller's connection, in the thread of that connection. It
counts its messages in the transaction, too. Consumers notice the commit as they notice those of
other processes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tickwork.store.ids import Moment
from tickwork.store.ports.callers import (
    CONNECTIONS,
    Callers,
    CallersVerb,
    Given,
    refuse,
)
from tickwork.store.ports.sqlite import AiosqliteCaller, CallersConnection, SqliteCaller
from tickwork.store.shared.counters import CounterKey
from tickwork.store.shared.group_commit import Alone, Grouped
from tickwork.store.sqlite.engine.counters import MessageCounters
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.file import DatabaseFile, Identity
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tickwork.store.sqlite.engine.connection import Connection

Result = TypeVar("Result")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

Count = Callable[[Transaction, Sequence[tuple[CounterKey, int]]], None]
"""Stores counters in a transaction."""

_VERB, _STEP = "tickwork_verb", "tickwork_step"


class CallersTransaction(CallersVerb):
    """One verb in the transaction of its caller."""

    def __init__(self, callers: CallersTransactions, given: object) -> None:
        super().__init__(callers, given)
        self._moment, self._count = callers.moment, callers.count
        self._is_open = False

    async def carry_out(self, work: Callable[[Transaction], Result]) -> Result:
        """Runs work, all or nothing."""
        result: Result = await self.caller.call(lambda connection: self._run(connection, work))
        return result

    async def end(self) -> None:
        if self._is_open:
            await self.caller.call(lambda connection: _execute(connection, f"RELEASE {_VERB}"))

    async def undo(self, error: object) -> None:  # noqa: ARG002
        if self._is_open:
            await self.caller.call(lambda connection: _roll_back(connection, _VERB))

    def _run(self, connection: sqlite3.Connection, work: Callable[[Transaction], Result]) -> Result:
        with _plain_texts(connection):
            theirs = cast("Connection", CallersConnection(connection))
            if not self._is_open:
                theirs.execute(SQL.take_write_lock)
                theirs.execute(f"SAVEPOINT {_VERB}")
                self._is_open = True
            theirs.execute(f"SAVEPOINT {_STEP}")
            transaction, counters = Transaction(theirs, self._moment), MessageCounters()
            with ExitStack() as failing:
                failing.callback(_roll_back, connection, _STEP)
                result = work(transaction)
                counters.add(transaction.counted)
                self._count(transaction, counters.take())
                failing.pop_all()
            theirs.execute(f"RELEASE {_STEP}")
        return result


class CallersDatabase(Database):
    """Runs work on the connection of the caller whose verb this is."""

    def __init__(self, file: DatabaseFile) -> None:
        self.file, self.counters = file, MessageCounters()

    def write(
        self,
        work: Callable[[Transaction], Result],
        *,
        rows: int = 1,  # noqa: ARG002
        alone: bool = False,  # noqa: ARG002
    ) -> Awaitable[Result]:
        return CallersTransaction.current().carry_out(work)

    def read(self, work: Callable[[Transaction], Result]) -> Awaitable[Result]:
        return CallersTransaction.current().carry_out(work)

    def grouped(
        self, commit: Callable[[Sequence[Item]], Awaitable[Sequence[Answer | Exception]]]
    ) -> Grouped[Item, Answer]:
        return Alone(commit)


class CallersTransactions(Callers):
    """The callers' transactions of one process."""

    def __init__(
        self, file: DatabaseFile, moment: Moment, count: Count, store: Callable[[], Any]
    ) -> None:
        super().__init__(store)
        self._file = file
        self.moment, self.count = moment, count

    def caller_of(self, given: Given) -> SqliteCaller:
        if given.driver == "sqlite3":
            return SqliteCaller(given)
        if given.driver == "aiosqlite":
            return AiosqliteCaller(given)
        raise refuse(f"is of {given.driver}, but the app is on a SQLite file; {CONNECTIONS}")

    async def check(self, caller: SqliteCaller) -> None:
        await caller.check()
        if await caller.call(_identity) != self._file.identity:
            raise refuse(f"is to another file than {self._file.path}; {CONNECTIONS}")


def _identity(connection: sqlite3.Connection) -> Identity | None:
    """The file of a connection; None for one in memory."""
    with _plain_texts(connection):
        for _, name, path in CallersConnection(connection).execute("PRAGMA database_list"):
            if name == "main" and path:
                return DatabaseFile(Path(path)).identity
    return None


def _roll_back(connection: sqlite3.Connection, savepoint: str) -> None:
    with suppress(sqlite3.Error):  # SQLite may have rolled the whole transaction back.
        _execute(connection, f"ROLLBACK TO {savepoint}", f"RELEASE {savepoint}")


def _execute(connection: sqlite3.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(statement)


@contextmanager
def _plain_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Reads texts as texts, whatever the caller wants them to be."""
    theirs: Any = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = theirs
