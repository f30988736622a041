"""Pages of a list: their answer, their limit, and the cursor that names the last item of a page.

A cursor is the position of that item in the order of the list, so page 10,000 costs as much as
page 1. It is opaque: callers pass it back unchanged.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from litestar.params import QueryParameter
from msgspec import Meta, Struct

from tickwork.errors import FieldError, InvalidInput

T = TypeVar("T")
Item = TypeVar("Item")
Position = TypeVar("Position")

PAGE_LIMIT = 100
"""Items on a page unless the caller gives a limit."""

PAGE_LIMIT_MAX = 1_000
"""Maximum number of items on a page."""

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


def page_of(
    found: Sequence[Item],
    limit: int,
    position: Callable[[Item], object],
    shown: Callable[[Item], T],
) -> Page[T]:
    """The page of what was found for one item more than the limit: that one tells whether there is
    a next page."""
    kept = found[:limit]
    cursor = write_cursor(position(kept[-1])) if len(found) > limit else None
    return Page(tuple(shown(each) for each in kept), cursor)


def write_cursor(position: object) -> str:
    """A cursor for a position."""
    return urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def read_cursor(cursor: str | None, kind: type[Position] | Any) -> Position | None:
    """The position in a cursor. Raises `InvalidInput` unless a list of this kind returned it."""
    if cursor is None:
        return None
    try:
        if len(cursor) > _CURSOR_LENGTH_MAX:
            raise ValueError(cursor)
        encoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        position: Position = msgspec.json.decode(encoded, type=kind)
    except (ValueError, msgspec.MsgspecError):
        fault = "must be the next_cursor of the page before, unchanged"
        raise InvalidInput([FieldError("cursor", fault)]) from None
    return position
