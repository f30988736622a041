"""What the server answers besides the nouns of `core.answers`: pages, its health, its stream."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Items(Struct, Generic[T], frozen=True):
    """All of a list."""

    items: tuple[T, ...]


class HealthAnswer(Struct, frozen=True):
    """The server is running."""

    status: str
    version: str


class Readiness(Struct, frozen=True):
    """The server can reach its database. `missing` names the roles that no live process has."""

    status: str
    missing: tuple[str, ...] = ()


class StreamedEvent(Struct, frozen=True, kw_only=True):
    """Something that happened: a hint to read again what it names. Pass `id` as `after` to go on
    behind it."""

    id: str | None
    type: str
    data: dict[str, Any]
