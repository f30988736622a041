"""Pages of a list: their answer, their limit, and the cursor that names the last item of a page.

A cursor is the position of that item in the order of the list, so page 10,000 costs as much as
page 1. It is opaque: callers pass it back unchanged. A page ends after 4 MB: the rest is on the
next one.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar.params import QueryParameter
from msgspec import Meta, Struct

from tickwork.core.answers.ids import ENCODER
from tickwork.errors import FieldError, InvalidInput

T = TypeVar("T")
Item = TypeVar("Item")
Position = TypeVar("Position")

PAGE_LIMIT = 100
"""Items on a page unless the caller gives a limit."""

PAGE_LIMIT_MAX = 1_000
"""Maximum number of items on a page."""

PAGE_BYTES_MAX = 4_000_000
"""Maximum number of bytes of the items on a page, unless a single one has more."""

TURN_BYTES = 200_000
"""Number of bytes of items that are encoded at a time."""

SLICE_ITEMS = 64
"""Number of items that are read at a time where they may be large."""

_CURSOR_LENGTH_MAX = 1_000

Limit = Annotated[
    int, QueryParameter(ge=1, le=PAGE_LIMIT_MAX, description="Maximum number of items on the page.")
]
Cursor = Annotated[
    str | None,
    QueryParameter(description="`next_cursor` of the page before; none for the first page."),
]


class Page(Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: tuple[T, ...]
    next_cursor: Annotated[
        str | None, Meta(description="Pass it as `cursor` for the next page; null on the last one.")
    ] = None


def _as_it_is(item: Any) -> Any:
    return item


class _Items(Generic[Item]):
    """The items of a page so far, encoded. They end at the limit, or where they would have more
    than `PAGE_BYTES_MAX` bytes; the first one always fits."""

    def __init__(self, limit: int, shown: Callable[[Item], object]) -> None:
        self._limit, self._shown = limit, shown
        self._bytes = self._bytes_before = 0
        self.encoded: list[msgspec.Raw] = []
        self.last: Item | None = None

    def add(self, item: Item) -> bool:
        """Adds an item; returns whether there was room for it."""
        if len(self.encoded) >= self._limit:
            return False
        encoded = ENCODER.encode(self._shown(item))
        if self.encoded and self._bytes + len(encoded) > PAGE_BYTES_MAX:
            return False
        self.encoded.append(msgspec.Raw(encoded))
        self._bytes += len(encoded)
        self.last = item
        return True

    def has_turn_ended(self) -> bool:
        """Whether so many bytes were added since the last time that others should have a turn."""
        if self._bytes - self._bytes_before < TURN_BYTES:
            return False
        self._bytes_before = self._bytes
        return True

    def add_all(self, found: Sequence[Item]) -> bool:
        """Adds items; returns whether there was room for all of them. If not, none is added."""
        before, bytes_before = len(self.encoded), self._bytes
        if all(map(self.add, found)):
            return True
        del self.encoded[before:]
        self._bytes = bytes_before
        return False

    def page(self, next_position: object = None) -> Page[Any]:
        """The page of these items, before the one at a position."""
        cursor = None if next_position is None else write_cursor(next_position)
        return Page(tuple(self.encoded), cursor)


def page_of(
    found: Sequence[Item],
    limit: int,
    position: Callable[[Item], object],
    shown: Callable[[Item], T] = _as_it_is,
) -> Page[T]:
    """The page of what was found for one item more than the limit: that one shows whether there is
    a next page."""
    items = _Items(limit, shown)
    for item in found:
        if not items.add(item):
            assert items.last is not None
            return items.page(position(items.last))
    return items.page()


async def read_page(
    read: Callable[[int, Position | None], Awaitable[Sequence[Item]]],
    limit: int,
    after: Position | None,
    position: Callable[[Item], Position],
    shown: Callable[[Item], T] = _as_it_is,
) -> Page[T]:
    """As `page_of`, of items that may be large. `read` returns so many items after a position; it
    is asked for a few at a time, so that a page needs little more memory than it sends."""
    items = _Items(limit, shown)
    while True:
        count = min(limit + 1 - len(items.encoded), SLICE_ITEMS)
        found = await read(count, after)
        for item in found:
            if not items.add(item):
                return items.page(after)
            after = position(item)
            if items.has_turn_ended():
                await asyncio.sleep(0)
        if len(found) < count:
            return items.page()


class Listed(Struct, Generic[Item, Position], frozen=True):
    """Items of a list that looks at a bounded number of rows. `next` is the position behind which
    it goes on, or None at its end."""

    items: Sequence[Item]
    next: Position | None


async def read_filtered(
    read: Callable[[int, Position | None], Awaitable[Listed[Item, Position]]],
    limit: int,
    after: Position | None,
    shown: Callable[[Item], T] = _as_it_is,
) -> Page[T]:
    """As `read_page`, of a list that says itself where it goes on. Where it finds few items, the
    page is short. The page ends before a slice with too many bytes; if that is the first one, it
    is read again with half as many items."""
    items = _Items(limit, shown)
    count = min(limit, SLICE_ITEMS)
    while True:
        listed = await read(count, after)
        if not items.add_all(listed.items):
            if items.encoded:
                return items.page(after)
            count //= 2
            continue
        after = listed.next
        if after is None or len(listed.items) < count or len(items.encoded) == limit:
            return items.page(after)
        count = min(limit - len(items.encoded), SLICE_ITEMS)


def write_cursor(position: object) -> str:
    """A cursor for a position."""
    return urlsafe_b64encode(ENCODER.encode(position)).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: type[Position] | Any) -> Position | None:
    """The position in a cursor. Raises `InvalidInput` unless a list of this kind returned it."""
    if cursor is None:
        return None
    try:
        if len(cursor) > _CURSOR_LENGTH_MAX:
            raise ValueError(cursor)
        encoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        if b"\\u0000" in encoded:  # No name has a NUL character, and no database stores it.
            raise ValueError(cursor)
        position: Position = msgspec.json.decode(encoded, type=kind)
    except (ValueError, msgspec.MsgspecError):
        fault = "must be the next_cursor of the page before, unchanged"
        raise InvalidInput([FieldError("cursor", fault)]) from None
    return position
