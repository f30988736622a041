"""What the server answers about runs, entities, keys, nodes and what something waits for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from tickwork.core.api_key import ApiKey


class CallAnswer(Struct, frozen=True, kw_only=True):
    """The result of a method; `done` is False if it has not run yet."""

    done: bool
    result: Any = None


class StorageEntry(Struct, frozen=True):
    """A key and its value."""

    name: str
    value: Any


class AlarmBody(Struct, frozen=True):
    """When the alarm is set to fire."""

    at: datetime


class CreatedKey(ApiKey, frozen=True, kw_only=True):
    """A key with its text, `tw_…`, which is not shown again."""

    token: str

    def __repr__(self) -> str:
        return f"CreatedKey(id={self.id!r}, name={self.name!r}, token='***')"


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
