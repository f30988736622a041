"""The file: where it is, how it is opened, and what its errors mean.

Only a migration creates a file; everybody else finds one, with its schema, or says what to do.

A thread's own connection to the file, opened anew whenever it cannot be relied on.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tickwork.clock import monotonic
from tickwork.errors import FieldError, InvalidInput, StoreBroken, StoreError, StoreUnavailable
from tickwork.store.sqlite.engine.connection import Connection

BUSY_TIMEOUT_SECONDS = 10.0
"""How long to wait while another process writes, before it counts as stuck."""

SQLITE_VERSION_MIN = (3, 38, 0)

_SCHEME = "sqlite:///"
_STATEMENTS_CACHED = 512
_LOCK_STEP_MILLISECONDS = 5
_SYNCED, _UNSYNCED = "synchronous = FULL", "synchronous = OFF"
_PRAGMAS = (
    "foreign_keys = ON",
    "secure_delete = OFF",  # As SQLite has it; some systems make every delete write twice.
    "temp_store = MEMORY",
    "cache_size = -32768",
    "wal_autocheckpoint = 4000",
    "journal_size_limit = 67108864",
)

_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FOR_NOW = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_PROTOCOL,
    }
)
_NO_ACCESS = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM})
_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class Identity(NamedTuple):
    """Which file a path led to, whatever it is called."""

    device: int
    inode: int


class DatabaseFile:
    """One SQLite file, by its absolute path. Accepted means synced, but where it `is_passing`:
    such a file is thrown away in the end, and nobody needs it after a power cut."""

    def __init__(
        self,
        path: Path,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        *,
        is_passing: bool = False,
    ) -> None:
        self.path, self.busy_timeout_seconds = path.absolute(), busy_timeout_seconds
        self._is_passing = is_passing

    @property
    def identity(self) -> Identity | None:
        """None where there is no file, or none that we may see."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return Identity(found.st_dev, found.st_ino)

    def connect(self, *, create: bool = False) -> Connection:
        """A connection for the thread that calls, in WAL mode."""
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise StoreBroken(
                f"SQLite is {sqlite3.sqlite_version}; Tickwork needs "
                f"{'.'.join(map(str, SQLITE_VERSION_MIN))} or newer"
            )
        if self.path.exists() and not os.access(self.path, os.W_OK):
            # Before SQLite opens it: it would leave a log beside it that nobody can write either.
            raise StoreBroken(f"{self.path} may not be written")
        mode = "rwc" if create else "rw"
        with ExitStack() as failed:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode={mode}",
                factory=Connection,
                uri=True,
                isolation_level=None,
                timeout=self.busy_timeout_seconds,
                cached_statements=_STATEMENTS_CACHED,
            )
            failed.callback(connection.close)
            self._use_wal(connection)
            for pragma in (_UNSYNCED if self._is_passing else _SYNCED, *_PRAGMAS):
                connection.execute(f"PRAGMA {pragma}")
            failed.pop_all()
        return connection

    def begin(self, connection: Connection) -> None:
        """Takes the write lock, waiting while another process has it.

        SQLite's own waiting backs off to a tenth of a second, and then a busy neighbour that
        lets go for moments only is hardly ever caught at it: hence many short waits.
        """
        give_up_at = monotonic() + self.busy_timeout_seconds
        connection.be_impatient(_LOCK_STEP_MILLISECONDS)
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_locked(error) or monotonic() >= give_up_at:
                    raise
            else:
                return

    def as_store_error(self, error: sqlite3.Error | StoreError) -> StoreError:
        """What an error of SQLite means for a caller; each caller gets one of its own."""
        if isinstance(error, StoreError):
            return type(error)(*error.args)
        code = primary_code(error)
        if code in _LOCKED:
            return StoreUnavailable(
                f"{self.path} is locked by another process for more than "
                f"{self.busy_timeout_seconds:g} s"
            )
        if code in _FOR_NOW:
            return StoreUnavailable(f"{self.path} cannot be read or written now: {error}")
        if code in _NO_ACCESS:
            return StoreBroken(f"{self.path} or its folder may not be written: {error}")
        if code in _CORRUPT:
            return StoreBroken(f"{self.path} is corrupt or no SQLite database: {error}")
        if code == sqlite3.SQLITE_CANTOPEN:
            return self._why_not_open(error)
        if code == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such col")):
            return StoreBroken(f"the schema is not there: run `tickwork migrate` ({error})")
        return StoreBroken(f"SQLite refused a statement: {error}")

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Another process may be switching too, and for that SQLite does not wait by itself."""
        give_up_at = monotonic() + self.busy_timeout_seconds
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not is_locked(error) or monotonic() >= give_up_at:
                    raise
                time.sleep(_LOCK_STEP_MILLISECONDS / 1_000)
                continue
            if mode != "wal":
                raise StoreBroken(
                    f"{self.path} cannot have a write-ahead log (journal mode {mode}): "
                    "put it on a local disk"
                )
            return

    def _why_not_open(self, error: sqlite3.Error) -> StoreError:
        if not self.path.parent.is_dir():
            return StoreBroken(f"there is no folder {self.path.parent}")
        if not self.path.exists():
            return StoreBroken(
                f"there is no database {self.path}: run `tickwork migrate`, or if another one is "
                "meant, name it with --database or TICKWORK_DATABASE"
            )
        if not self.path.is_file():
            return StoreBroken(f"{self.path} is not a file")
        if not os.access(self.path, os.R_OK | os.W_OK) or not os.access(self.path.parent, os.W_OK):
            return StoreBroken(f"{self.path} and its folder must be writable: {error}")
        return StoreUnavailable(f"{self.path} cannot be opened now: {error}")


def locate(path_or_url: str | Path) -> Path:
    """The path of a file, given as such or as `sqlite:///relative.db`, `sqlite:////absolute.db`."""
    text = str(path_or_url)
    named = text.removeprefix(_SCHEME)
    if not named or ":memory:" in named or named.startswith(("file:", "sqlite:")):
        raise InvalidInput(
            [
                FieldError(
                    "database",
                    "must be a file, such as sqlite:///tickwork.db: what is only in memory "
                    "is neither durable nor seen by others",
                )
            ]
        )
    return Path(named)


def primary_code(error: sqlite3.Error) -> int:
    """The kind of an error, without its subkind; the driver's own errors have none."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if code is not None else sqlite3.SQLITE_MISUSE


def is_locked(error: sqlite3.Error) -> bool:
    """Somebody else has the lock; waiting may help."""
    return primary_code(error) in _LOCKED


def breaks_connection(error: sqlite3.Error) -> bool:
    """After this a connection is not to be relied on: a new one tells whether it is over."""
    code = primary_code(error)
    return code in _FOR_NOW | _NO_ACCESS | _CORRUPT or code == sqlite3.SQLITE_CANTOPEN


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
