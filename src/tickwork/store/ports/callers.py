"""The connection that a caller passes to send in its own transaction: from which driver it is.

A driver is recognised by the module of its class, so none is imported that nobody uses. Sessions of
SQLAlchemy and Django's `connection` are asked for the driver's connection underneath.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

from tickwork.errors import FieldError, InvalidInput
from tickwork.store.ports.callers_thread import in_callers_thread

CONNECTIONS = (
    "pass the connection on which your transaction is open: of asyncpg, psycopg 3, sqlite3 or "
    "aiosqlite, a Connection or Session of SQLAlchemy, or Django's connection"
)
BEGIN = {
    "asyncpg": "`async with connection.transaction():`",
    "psycopg": "`with connection.transaction():`",
    "psycopg_async": "`async with connection.transaction():`",
    "sqlite3": "`connection.execute('BEGIN IMMEDIATE')`",
    "aiosqlite": "`await connection.execute('BEGIN IMMEDIATE')`",
    "sqlalchemy": "`with session.begin():`, without AUTOCOMMIT",
    "django": "`with transaction.atomic():`",
}
"""How a transaction is begun in each library."""

CLASSES_REMEMBERED_MAX = 100
"""Maximum number of classes of which is remembered from which library they are."""

_SESSIONS = frozenset({"Session", "scoped_session"})
_ASYNC_SESSIONS = frozenset({"AsyncSession", "async_scoped_session"})
_ASYNC = frozenset({"AsyncConnection"})

_CONNECTIONS = frozenset(
    {"Connection", "AsyncConnection", "PoolConnectionProxy"}
    | {"BaseDatabaseWrapper", "ConnectionProxy"}
)
"""What is not one of these is refused, such as a cursor or the object of a transaction."""

_POOLS = frozenset(
    {"Pool", "ConnectionPool", "AsyncConnectionPool", "NullConnectionPool", "Engine"}
    | {"AsyncNullConnectionPool", "AsyncEngine", "sessionmaker", "async_sessionmaker"}
)


def refuse(fault: str) -> InvalidInput:
    """The error for a connection that we cannot use."""
    return InvalidInput([FieldError("connection", fault)])


def refuse_outside(library: str) -> InvalidInput:
    """The error for a connection without a transaction."""
    return refuse(f"is not in a transaction; begin one first: {BEGIN[library]}")


def refuse_closed() -> InvalidInput:
    """The error for a closed connection."""
    return refuse(f"is closed; {CONNECTIONS}")


def refuse_failed() -> InvalidInput:
    """The error for a transaction that an earlier error has ended."""
    return refuse("is in a transaction that has failed; roll it back and begin again")


class Callers(ABC):
    """The connections on which verbs run now: one on each, because a savepoint of one verb would
    end with that of another."""

    def __init__(self, store: Callable[[], Any]) -> None:
        """`store` gives the store on which such verbs run."""
        self.store = store
        self._busy: set[int] = set()

    @abstractmethod
    def caller_of(self, given: Given) -> Any:
        """The caller whose connection this is; `InvalidInput` for one of another database."""

    @abstractmethod
    async def check(self, caller: Any) -> None:
        """Raises `InvalidInput` for a connection that cannot be used."""

    async def begin(self, given: object) -> Any:
        """Takes a connection for one verb; `InvalidInput` if it cannot be used."""
        caller = self.caller_of(await driver_connection(given))
        if id(caller.raw) in self._busy:
            raise refuse("runs another call of Tickwork; await it first")
        self._busy.add(id(caller.raw))
        is_taken = False
        try:
            await self.check(caller)
            is_taken = True
        finally:
            if not is_taken:
                self.end(caller)
        return caller

    def end(self, caller: Any) -> None:
        """Gives a connection back."""
        self._busy.discard(id(caller.raw))


class CallersVerb(ABC):
    """One verb in the transaction of its caller: `async with`, which gives the store on which it
    runs. An error undoes what it did.

    A class of its own, not a generator: it runs for each send, and generators take longer.
    """

    _current: ClassVar[ContextVar[Any]]

    def __init__(self, callers: Callers, given: object) -> None:
        self._callers, self._given = callers, given
        self.caller: Any = None

    def __init_subclass__(cls) -> None:
        cls._current = ContextVar(f"{cls.__module__}.{cls.__qualname__}")

    @classmethod
    def current(cls) -> Self:
        """The verb of this task."""
        verb: Self = cls._current.get()
        return verb

    @abstractmethod
    async def end(self) -> None:
        """Keeps what the verb has done."""

    @abstractmethod
    async def undo(self, error: object) -> None:
        """Undoes what the verb has done. May raise another error, which says more."""

    async def __aenter__(self) -> Any:
        self.caller = await self._callers.begin(self._given)
        self._token = self._current.set(self)
        return self._callers.store()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        is_kept = False
        try:
            if error is None:
                await self.end()
                is_kept = True
        finally:
            self._current.reset(self._token)
            try:
                if not is_kept:
                    await self.undo(error)
            finally:
                self._callers.end(self.caller)


class Given(NamedTuple):
    """A driver's connection, and the library that the caller uses it by. `begin` makes that library
    begin the transaction that it would begin with its next statement."""

    driver: str
    connection: Any
    library: str
    begin: Callable[[], Awaitable[None]] | None = None


async def driver_connection(given: object) -> Given:
    """The driver's connection under what a caller passed; `InvalidInput` if there is none."""
    library, names = _origin(given)
    if names & _POOLS:
        shown = type(given).__name__
        raise refuse(f"is a {shown}, which has many connections; {CONNECTIONS}")
    if library == "sqlalchemy":
        return await _of_sqlalchemy(given, names)
    if not names & _CONNECTIONS:
        raise refuse(f"is a {type(given).__name__}; {CONNECTIONS}")
    if library == "django":
        return await in_callers_thread(lambda: _of_django(given))
    if library == "psycopg":
        driver = "psycopg_async" if "AsyncConnection" in names else "psycopg"
        return Given(driver, given, driver)
    return Given(library, given, library)


def _origin(given: object) -> tuple[str, frozenset[str]]:
    """The library that the class of an object is from, and the names of its classes there."""
    kind: Any = type(given)
    return _origin_of(kind)


@lru_cache(CLASSES_REMEMBERED_MAX)
def _origin_of(kind: Any) -> tuple[str, frozenset[str]]:
    classes = [(cls.__module__.partition(".")[0], cls.__name__) for cls in kind.__mro__]
    for library, _ in classes:
        if library in BEGIN or library == "psycopg_pool":
            return library, frozenset(name for root, name in classes if root == library)
    raise refuse(f"is a {kind.__module__}.{kind.__name__}; {CONNECTIONS}")


async def _of_sqlalchemy(given: Any, names: frozenset[str]) -> Given:
    if names & _ASYNC_SESSIONS:
        given, names = await given.connection(), _ASYNC
    elif names & _SESSIONS:
        given = await in_callers_thread(given.connection)
    elif not names & {"Connection", *_ASYNC}:
        raise refuse(f"is a {type(given).__name__}; {CONNECTIONS}")
    if given.closed:
        raise refuse_closed()

    async def begin() -> None:
        if names & _ASYNC:
            await given.exec_driver_sql("SELECT 1")
        else:
            await in_callers_thread(lambda: given.exec_driver_sql("SELECT 1"))

    if not given.in_transaction():
        await begin()
    if names & _ASYNC:
        inner = (await given.get_raw_connection()).driver_connection
    else:
        inner = await in_callers_thread(lambda: given.connection.driver_connection)
    return Given((await driver_connection(inner)).driver, inner, "sqlalchemy", begin)


def _of_django(given: Any) -> Given:
    """Called in the thread that the connection belongs to."""
    if not given.in_atomic_block:
        raise refuse_outside("django")
    if given.needs_rollback:
        raise refuse_failed()
    driver = "sqlite3" if given.vendor == "sqlite" else "psycopg"
    if _origin(given.connection)[0] != driver:
        raise refuse(f"is a connection by {type(given.connection).__module__}; {CONNECTIONS}")
    return Given(driver, given.connection, "django")
