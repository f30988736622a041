"""A call of the API as a value, and verbs: methods that both clients have.

```
class Queues(Noun[M]):
    @verb
    def get(self, name: str) -> Call[QueueAnswer]: ...

await client.queues.get("emails")      # Client: a coroutine
sync_client.queues.get("emails")       # SyncClient: the answer
```

A verb returns a `Call`, or is a generator of calls whose return value is the result. Type checkers
and editors see its arguments on both clients.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from enum import Enum
from functools import update_wrapper
from itertools import islice
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import quote

from msgspec import UNSET

from tickwork.client.answers import Page
from tickwork.core.answers.ids import decoder_of

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

PAGE_ITEMS = 100
"""Items that an awaited list returns unless the caller gives a limit, as that of an app does."""

PAGE_ITEMS_MAX = 1_000
"""Maximum number of items that one request for a list asks for."""


class Async:
    """Marks the nouns of `Client`, whose verbs are awaited."""


class Sync:
    """Marks the nouns of `SyncClient`."""


M = TypeVar("M", Async, Sync)


class Repeat(Enum):
    """Whether a request may be sent again if its answer is lost."""

    SAFE = "safe"
    """A repeat changes nothing more."""
    KEYED = "keyed"
    """With an idempotency key, which makes a repeat return the first answer."""
    NEVER = "never"
    """A repeat could have another effect, so a lost answer is an error."""


class Call(Generic[T]):
    """A request and how to read its answer. `wait_seconds` is how long the server may wait before
    it answers. `secret` names the field of the answer that only the first answer has."""

    __slots__ = (
        "body",
        "headers",
        "method",
        "path",
        "query",
        "read",
        "repeat",
        "secret",
        "wait_seconds",
    )

    def __init__(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = UNSET,
        headers: Mapping[str, str] | None = None,
        repeat: Repeat | None = None,
        wait_seconds: float = 0.0,
        secret: str | None = None,
    ) -> None:
        usual = Repeat.NEVER if method in ("POST", "PATCH") else Repeat.SAFE
        self.method = method
        self.path = path
        self.read = read
        self.query = query or {}
        self.body = body
        self.headers = headers or {}
        self.repeat = repeat or usual
        self.wait_seconds, self.secret = wait_seconds, secret


class Pause(NamedTuple):
    """Wait before the next request."""

    seconds: float


Plan = Generator[Call[Any] | Pause, Any, T]
"""Calls, each of which gets the answer of the one before; the return value is the result."""


def at(*parts: object) -> str:
    """The path of these parts: `at("v1", "queues", name)`. A part may contain any character."""
    return "".join(f"/{quote(str(segment), safe='')}" for segment in parts)


def answer(kind: type[T]) -> Callable[[bytes], T]:
    """Reads an answer of this kind."""
    decode: Callable[[bytes], T] = decoder_of(kind).decode
    return decode


def part(kind: type[S], pick: Callable[[S], T]) -> Callable[[bytes], T]:
    """Reads an answer of this kind, and returns a part of it."""
    decode = decoder_of(kind).decode
    return lambda raw: pick(decode(raw))


def nothing(_: bytes) -> None:
    """Reads an answer without a body."""


class Runner(Protocol):
    """Carries out the calls of a plan."""

    def run(self, plan: Plan[Any]) -> Any: ...


class Noun(Generic[M]):
    """What a client can be asked about. `M` says how its verbs are called."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner


def runner_of(noun: Noun[Any]) -> Runner:
    """What carries out the calls of a noun."""
    return noun._runner  # noqa: SLF001  the package's own door


class Verb(Generic[P, T]):
    """A method that returns a `Call`, as both clients have it."""

    def __init__(self, function: Callable[Concatenate[Any, P], Call[T] | Plan[T]]) -> None:
        self._function: Any = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(
        self, noun: Noun[Async], owner: object = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, noun: Noun[Sync], owner: object = None) -> Callable[P, T]: ...

    @overload
    def __get__(self, noun: None, owner: object = None) -> Verb[P, T]: ...

    def __get__(self, noun: Any, owner: object = None) -> Any:
        if noun is None:
            return self
        method, runner = MethodType(self._function, noun), runner_of(noun)

        def call(*args: Any, **kwargs: Any) -> Any:
            return runner.run(as_plan(method(*args, **kwargs)))

        return update_wrapper(call, method)


verb = Verb


def as_plan(given: Call[T] | Plan[T]) -> Plan[T]:
    """The plan of a single call."""
    if isinstance(given, Call):
        result: T = yield given
        return result
    return (yield from given)


class Pages(Generic[T]):
    """A list in pages. `limit` is the number of items in all; None is every item."""

    def __init__(
        self, path: str, kind: Any, limit: int | None, query: Mapping[str, object] | None = None
    ) -> None:
        self.path = path
        self.limit = limit
        self.query = query or {}
        self._read: Callable[[bytes], Page[T]] = answer(Page[kind])

    def page(self, cursor: str | None, limit: int) -> Plan[Page[T]]:
        """One page, behind a cursor."""
        asked = {**self.query, "limit": min(limit, PAGE_ITEMS_MAX), "cursor": cursor}
        found: Page[T] = yield Call("GET", self.path, self._read, query=asked)
        return found

    def first(self) -> Plan[tuple[T, ...]]:
        """As many items as an app returns."""
        wanted = PAGE_ITEMS if self.limit is None else self.limit
        found: list[T] = []
        cursor = None
        while True:
            page = yield from self.page(cursor, wanted - len(found))
            found += page.items
            cursor = page.next_cursor
            if cursor is None or len(found) >= wanted:
                return tuple(found[:wanted])


class AsyncListing(Generic[T]):
    """A list: `async for` goes through all of it, page by page. `await` returns a tuple of the
    first `limit` items, 100 without a limit."""

    def __init__(self, runner: Runner, pages: Pages[T]) -> None:
        self._runner, self._pages = runner, pages

    def __await__(self) -> Generator[Any, Any, tuple[T, ...]]:
        result: Generator[Any, Any, tuple[T, ...]] = self._runner.run(
            self._pages.first()
        ).__await__()
        return result

    async def __aiter__(self) -> AsyncIterator[T]:
        left, cursor = self._pages.limit, None
        while left is None or left > 0:
            size = PAGE_ITEMS if left is None else left
            page: Page[T] = await self._runner.run(self._pages.page(cursor, size))
            for item in page.items[:left]:
                yield item
            left = None if left is None else left - len(page.items)
            cursor = page.next_cursor
            if cursor is None:
                return


class SyncListing(Generic[T]):
    """A list: `for` goes through all of it, page by page, or through the first `limit` items."""

    def __init__(self, runner: Runner, pages: Pages[T]) -> None:
        self._runner, self._pages = runner, pages

    def __iter__(self) -> Iterator[T]:
        return islice(self._items(), self._pages.limit)

    def _items(self) -> Iterator[T]:
        cursor = None
        while True:
            size = PAGE_ITEMS if self._pages.limit is None else self._pages.limit
            page: Page[T] = self._runner.run(self._pages.page(cursor, size))
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return


class Listed(Generic[P, T]):
    """A method that returns `Pages`, as both clients have it."""

    def __init__(self, function: Callable[Concatenate[Any, P], Pages[T]]) -> None:
        self._function: Any = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, noun: Noun[Async], owner: object = None) -> Callable[P, AsyncListing[T]]: ...

    @overload
    def __get__(self, noun: Noun[Sync], owner: object = None) -> Callable[P, SyncListing[T]]: ...

    @overload
    def __get__(self, noun: None, owner: object = None) -> Listed[P, T]: ...

    def __get__(self, noun: Any, owner: object = None) -> Any:
        if noun is None:
            return self
        method, runner = MethodType(self._function, noun), runner_of(noun)
        kind: Any = runner.listing  # type: ignore[attr-defined]

        def call(*args: Any, **kwargs: Any) -> Any:
            return kind(runner, method(*args, **kwargs))

        return update_wrapper(call, method)


listed = Listed


def given(**fields: object) -> dict[str, object]:
    """The fields that are not None."""
    return {name: field for name, field in fields.items() if field is not None}


def texts_of(value: str | Iterable[str]) -> str | list[str]:
    """A text, or a list of texts, as JSON has them."""
    return value if isinstance(value, str) else [*value]
