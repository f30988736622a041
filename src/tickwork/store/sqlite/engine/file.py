"""The database file: its path, how a connection to it is opened, and what its errors mean.

Only a migration creates a file. Everything else needs a file with a schema, and raises an error
that names the fix if there is none. `ManagedConnection` is one thread's connection, reopened when
it may be broken.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from tickwork.clock import monotonic
from tickwork.core.queue.performance import bucket_of
from tickwork.errors import FieldError, InvalidInput, StoreBroken, StoreError, StoreUnavailable
from tickwork.store.shared.database_url import FROZEN, migrate_command
from tickwork.store.sqlite.engine.connection import Connection

BUSY_TIMEOUT_SECONDS = 10.0
"""Seconds to wait for another process's write lock before the file counts as unavailable."""

FILE_MODE = 0o600
"""Mode of a new file: its owner may read and write it, nobody else."""

SQLITE_VERSION_MIN = (3, 38, 0)

_SCHEME = "sqlite:///"
_STATEMENTS_CACHED = 512
_LOCK_STEP_MILLISECONDS = 5
_SYNCED, _UNSYNCED = "synchronous = FULL", "synchronous = OFF"
_PRAGMAS = (
    "foreign_keys = ON",
    "secure_delete = OFF",  # SQLite's default; builds that turn it on write every delete twice.
    "temp_store = MEMORY",
    "cache_size = -32768",
    "wal_autocheckpoint = 4000",
    "journal_size_limit = 67108864",
)

_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_TEMPORARY = frozenset(
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
    """Which file a path leads to: equal for two paths to the same file."""

    device: int
    inode: int


class DatabaseFile:
    """One SQLite file, by its absolute path. Commits are synced to disk, unless the file
    `is_temporary`: then it is deleted after use and need not survive a power cut."""

    def __init__(
        self,
        path: Path,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        *,
        is_temporary: bool = False,
    ) -> None:
        self.path, self.busy_timeout_seconds = path.absolute(), busy_timeout_seconds
        self._is_temporary = is_temporary

    @property
    def identity(self) -> Identity | None:
        """None if the file does not exist or may not be accessed."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return Identity(found.st_dev, found.st_ino)

    @property
    def migrate_command(self) -> str:
        """The command that migrates this file, in backticks."""
        return migrate_command(f"{_SCHEME}{self.path}")

    def connect(self, *, create: bool = False) -> Connection:
        """Opens a connection for the calling thread, in WAL mode."""
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise StoreBroken(
                f"SQLite is {sqlite3.sqlite_version}; Tickwork needs "
                f"{'.'.join(map(str, SQLITE_VERSION_MIN))} or newer"
            )
        if self.path.exists() and not os.access(self.path, os.W_OK):
            # Checked before SQLite opens it and creates a WAL that cannot be written either.
            raise StoreBroken(f"{self.path} is not writable")
        mode = "rwc" if create else "rw"
        if create:
            self._create()
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
            connection.create_function("tickwork_bucket", 1, _bucket, deterministic=True)
            self._use_wal(connection)
            for pragma in (_UNSYNCED if self._is_temporary else _SYNCED, *_PRAGMAS):
                connection.execute(f"PRAGMA {pragma}")
            failed.pop_all()
        return connection

    def _create(self) -> None:
        """Creates an empty file that only its owner may read: it will hold bodies and keys. SQLite
        gives its log and its index the mode of the file."""
        with suppress(OSError):  # It exists, or SQLite says why it cannot be made.
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, FILE_MODE))

    def begin(self, connection: Connection) -> None:
        """Takes the write lock, waiting while another process has it.

        SQLite's own busy handler backs off to 100 ms and then nearly always misses the short
        moments in which a busy process releases the lock: hence many short waits.
        """
        give_up_at = monotonic() + self.busy_timeout_seconds
        connection.shorten_busy_timeout(_LOCK_STEP_MILLISECONDS)
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not is_locked(error) or monotonic() >= give_up_at:
                    raise
            else:
                return

    def as_store_error(self, error: sqlite3.Error | StoreError) -> StoreError:
        """The store error for an error of SQLite; a new object for each caller."""
        if isinstance(error, StoreError):
            return type(error)(*error.args)
        code = primary_code(error)
        if code == sqlite3.SQLITE_CONSTRAINT and str(error).startswith(FROZEN):
            return StoreUnavailable(f"{self.path} is {error}")
        if code in _LOCKED:
            return StoreUnavailable(
                f"{self.path} has been locked by another process for more than "
                f"{self.busy_timeout_seconds:g} s"
            )
        if code in _TEMPORARY:
            return StoreUnavailable(f"{self.path} cannot be read or written now: {error}")
        if code in _NO_ACCESS:
            return StoreBroken(f"{self.path} or its folder is not writable: {error}")
        if code in _CORRUPT:
            return StoreBroken(f"{self.path} is corrupt or not a SQLite database: {error}")
        if code == sqlite3.SQLITE_CANTOPEN:
            return self._why_not_open(error)
        if code == sqlite3.SQLITE_ERROR and str(error).startswith(("no such table", "no such col")):
            advice = f"run {self.migrate_command} ({error})"
            return StoreBroken(f"the database has no schema: {advice}")
        return StoreBroken(f"SQLite rejected a statement: {error}")

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switches to WAL mode. SQLite does not wait for another process that switches too."""
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
                    f"{self.path} does not support a write-ahead log (journal mode {mode}): "
                    "put it on a local disk"
                )
            return

    def _why_not_open(self, error: sqlite3.Error) -> StoreError:
        if not self.path.parent.is_dir():
            return StoreBroken(f"folder {self.path.parent} does not exist")
        if not self.path.exists():
            return StoreBroken(
                f"database {self.path} does not exist: run {self.migrate_command} to create it, "
                "or choose another one with --app, --database or TICKWORK_DATABASE"
            )
        if not self.path.is_file():
            return StoreBroken(f"{self.path} is not a file")
        if not os.access(self.path, os.R_OK | os.W_OK) or not os.access(self.path.parent, os.W_OK):
            return StoreBroken(f"{self.path} and its folder must be writable: {error}")
        return StoreUnavailable(f"{self.path} cannot be opened now: {error}")


def _bucket(microseconds: int) -> int:
    return bucket_of(microseconds / 1e6)


def locate(path_or_url: str | Path) -> Path:
    """The path of a file, from a path, `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    text = str(path_or_url)
    named = text.removeprefix(_SCHEME)
    if not named or ":memory:" in named or named.startswith(("file:", "sqlite:")):
        raise InvalidInput(
            [
                FieldError(
                    "database",
                    "must be a file, such as sqlite:///tickwork.db: an in-memory database "
                    "is not durable and other processes cannot see it",
                )
            ]
        )
    return Path(named)


def primary_code(error: sqlite3.Error) -> int:
    """An error's primary result code. Errors of the Python driver have none: SQLITE_MISUSE."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if code is not None else sqlite3.SQLITE_MISUSE


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection has the lock, so that waiting may help."""
    return primary_code(error) in _LOCKED


def breaks_connection(error: sqlite3.Error) -> bool:
    """Whether the connection may be unusable after this error and has to be reopened."""
    code = primary_code(error)
    return code in _TEMPORARY | _NO_ACCESS | _CORRUPT or code == sqlite3.SQLITE_CANTOPEN


class ManagedConnection:
    """One thread's connection. `on_open` is called with every new connection before its use."""

    def __init__(self, file: DatabaseFile, on_open: Callable[[Connection], object]) -> None:
        self.file, self._on_open = file, on_open
        self._connection: Connection | None = None
        self._identity: Identity | None = None

    def get(self) -> Connection:
        """The connection, reopened if the file was deleted or replaced.

        A deleted file still accepts writes through an open connection, and they would be lost.
        """
        identity = self.file.identity
        if self._connection is not None and identity != self._identity:
            self.close()
        if self._connection is None:
            with ExitStack() as failed:
                connection = self.file.connect()
                failed.callback(connection.close)
                self._on_open(connection)
                failed.pop_all()
            self._connection, self._identity = connection, self.file.identity
        return self._connection

    def roll_back(self) -> None:
        """Rolls back the open transaction, if there is one."""
        if self._connection is not None and self._connection.in_transaction:
            self._connection.rollback()

    def close_if_broken(self, error: BaseException | None) -> None:
        """Closes the connection after an error that may have broken it."""
        if isinstance(error, sqlite3.Error) and breaks_connection(error):
            self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
