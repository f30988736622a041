"""Methods of a store that are written once: generators that yield statements and get rows.

```
_GET = Statement("get_tenant", Tenant)

class Tenants(Noun):
    @reads
    def get(self, tenant_id: str) -> Steps[Tenant]:
        row = yield from _GET.fetch_row(tenant_id)
        ...

await store.tenants.get("acme")
```

A statement is named as its file in `sql/` of each store, and has the same parameters and columns in
both. A port (`store/ports`) runs it: it encodes the values and decodes the columns. A method says
what it needs: `reads`, `writes` or `changes`. A generator takes what it shares with others by
`yield from`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Sequence
from datetime import datetime
from enum import Enum
from functools import cache, wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar
from typing import get_args as arguments_of
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.store.ids import own_tenant
from tickwork.store.shared.columns import Kind

P = ParamSpec("P")
T = TypeVar("T")


class Row(Protocol):
    """A row, by the names of its columns. `Record(**row)` makes a record of it."""

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Iterable[str]: ...


class _Now:
    """Stands for the time of the transaction."""


NOW = _Now()
"""As a value of a statement: the time. PostgreSQL gets NULL for its own clock."""


class Want(Enum):
    """What of its result a statement returns."""

    ROWS = "rows"
    ROW = "row"
    VALUE = "value"
    COUNT = "count"
    EACH = "each"


class Query(NamedTuple):
    """A statement to run, with its values. For `Want.EACH` these are followed by those of each of
    the `rows`. One that `locks` takes the rows that no other transaction has locked."""

    statement: Statement
    want: Want
    values: tuple[object, ...]
    rows: Sequence[tuple[object, ...]] = ()
    locks: bool = False


class Native(NamedTuple):
    """A step that is written for its database: it gets the transaction of SQLite, or the connection
    of PostgreSQL, where it returns an awaitable. Its result is the answer."""

    work: Callable[[Any], Any]


class Wake(NamedTuple):
    """Wakes whoever waits for these queues, after the commit."""

    queue_ids: frozenset[UUID]


class Clock(NamedTuple):
    """Asks for the time of the transaction, which is the virtual one if there is one."""


class After(NamedTuple):
    """Something to do in this process after the commit, and only then. On PostgreSQL it may be a
    coroutine."""

    act: Callable[[], object]


Steps = Generator[Query | Native | Clock | Wake | After, Any, T]
"""What a method of a noun yields; the return value is its result."""


class Statement:
    """A statement of both stores, by the name of its file.

    `record` has the types of its columns, and `kinds` those of others: what the stores represent
    differently. All other columns are what they are.
    """

    __slots__ = ("kinds", "name", "named")

    def __init__(self, name: str, record: type[Struct] | None = None, **kinds: Kind) -> None:
        self.name, self.named = name, kinds
        self.kinds = {**(_kinds_of(record) if record else {}), **kinds}

    def fetch(self, *values: object, locks: bool = False) -> Steps[list[Row]]:
        """All rows; with `locks` those that no other transaction has locked."""
        rows: list[Row] = yield Query(self, Want.ROWS, values, locks=locks)
        return rows

    def fetch_row(self, *values: object) -> Steps[Row | None]:
        """The first row; None if there is none."""
        row: Row | None = yield Query(self, Want.ROW, values)
        return row

    def fetch_value(self, *values: object) -> Steps[Any]:
        """The first column of the first row; None if there is none."""
        return (yield Query(self, Want.VALUE, values))

    def execute(self, *values: object) -> Steps[int]:
        """Number of rows that the statement wrote."""
        count: int = yield Query(self, Want.COUNT, values)
        return count

    def fetch_each(
        self, rows: Sequence[tuple[object, ...]], *values: object, locks: bool = False
    ) -> Steps[list[Row]]:
        """All rows of running it for each of some rows, whose values follow the others; with
        `locks` as for `fetch`.

        PostgreSQL runs it once, and gets each column of the rows as an array.
        """
        if not rows:
            return []
        found: list[Row] = yield Query(self, Want.EACH, values, rows, locks)
        return found


def page(
    statement: Statement, read: Callable[[Row], T], scope: Scope, *values: object, limit: int
) -> Steps[tuple[T, ...]]:
    """Up to `limit` records of a tenant. It is the first value of the statement, and the limit the
    last. A tenant that cannot exist has none."""
    check_limit(limit)
    tenant = own_tenant(scope)
    if not is_name(tenant):
        return ()
    return tuple(map(read, (yield from statement.fetch(tenant, *values, limit))))


def read_clock() -> Steps[datetime]:
    """The time of the transaction."""
    now: datetime = yield Clock()
    return now


_KINDS: dict[Any, Kind] = {UUID: Kind.ID, datetime: Kind.TIME, bool: Kind.FLAG}


@cache
def _kinds_of(record: type[Struct]) -> dict[str, Kind]:
    """The kinds of a record's fields that the stores represent differently."""
    kinds: dict[str, Kind] = {}
    for field in msgspec.structs.fields(record):
        for type_ in (field.type, *arguments_of(field.type)):
            if type_ in _KINDS:
                kinds[field.name] = _KINDS[type_]
    return kinds


class Access(Enum):
    """What a method does with the database."""

    READ = "read"
    """Reads, on any connection."""
    SEARCH = "search"
    """Reads, with plans for the values that are given: for statements with optional filters."""
    STATEMENT = "statement"
    """One statement that writes, which is a transaction of its own."""
    TRANSACTION = "transaction"
    """Writes in one transaction."""
    CHANGE = "change"
    """The same, together with the writes that the caller joins to it."""


class Way(NamedTuple):
    """How a method is run. After a lost connection it is run again if it is `repeatable`."""

    access: Access
    repeatable: bool = True


class Port(Protocol):
    """Runs the steps of methods on one database."""

    def run(self, make: Callable[[], Steps[T]], way: Way) -> Coroutine[Any, Any, T]:
        """Runs the steps that `make` returns; each attempt makes new ones."""

    def inside(self, make: Callable[[], Steps[None]]) -> Callable[[Any], Any]:
        """The same as a function of an open transaction, for a write that joins a change."""


class Noun:
    """What a store can be asked about."""

    def __init__(self, port: Port) -> None:
        self._port = port


N = TypeVar("N", bound=Noun)
Function = Callable[Concatenate[N, P], Steps[T]]
Method = Callable[Concatenate[N, P], Coroutine[Any, Any, T]]


def _method(function: Function[N, P, T], way: Way) -> Method[N, P, T]:
    @wraps(function)
    def method(noun: N, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return noun._port.run(lambda: function(noun, *args, **kwargs), way)  # noqa: SLF001

    return method


def reads(function: Function[N, P, T]) -> Method[N, P, T]:
    """A method that only reads."""
    return _method(function, Way(Access.READ))


def searches(function: Function[N, P, T]) -> Method[N, P, T]:
    """A method that only reads, by statements whose plan depends on their values."""
    return _method(function, Way(Access.SEARCH))


def changes(function: Function[N, P, T]) -> Method[N, P, T]:
    """A method that makes a change in one transaction, with the writes that the caller joins to
    it: an audit record, or the answer of a request."""
    return _method(function, Way(Access.CHANGE))


def changes_once(function: Function[N, P, T]) -> Method[N, P, T]:
    """The same, of a change that must not be repeated after a lost answer."""
    return _method(function, Way(Access.CHANGE, repeatable=False))


def writes(
    *, repeatable: bool, is_single: bool = False
) -> Callable[[Function[N, P, T]], Method[N, P, T]]:
    """A method that writes in one transaction, which is nobody's change. One that `is_single` runs
    one statement, and needs no transaction around it."""
    way = Way(Access.STATEMENT if is_single else Access.TRANSACTION, repeatable)
    return lambda function: _method(function, way)


class Run(Generic[T]):
    """Steps on their way: `query` is the next one to answer, until `is_over`. After the commit,
    `after` is done and the queues `woken` are woken."""

    __slots__ = ("_steps", "after", "is_over", "query", "result", "woken")

    query: Query | Native | Clock
    result: T

    def __init__(self, steps: Steps[T]) -> None:
        self._steps, self.is_over = steps, False
        self.after: list[Callable[[], object]] = []
        self.woken: set[UUID] = set()
        self.advance(None)

    def advance(self, answer: object) -> None:
        """Gives the steps what they asked for."""
        try:
            step = self._steps.send(answer)
            while not isinstance(step, Query | Native | Clock):
                if isinstance(step, After):
                    self.after.append(step.act)
                else:
                    self.woken |= step.queue_ids
                step = self._steps.send(None)
            self.query = step
        except StopIteration as end:
            self.result, self.is_over = end.value, True

    def finish(self) -> T:
        """Does what was to be done after the commit, and returns the result."""
        for act in self.after:
            act()
        return self.result


def attempts(make: Callable[[], Steps[T]]) -> Iterator[Run[T]]:
    """One run after another of the same method. A port begins the first before it takes a
    connection: what the caller got wrong needs none."""
    while True:
        yield Run(make())
