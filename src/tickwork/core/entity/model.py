"""The values of entities: the state of one, what a call reads of it, and what it changes."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from tickwork.core.effects import Effect, LockRank


class Alarm(Struct, frozen=True):
    """The alarm of an entity: the id of its message, and when it was set to fire."""

    id: UUID
    at: datetime


class EntityState(Struct, frozen=True, kw_only=True):
    """The stored state of an entity besides its storage. `changed_by` is the message of the call
    that changed it last. `dead_alarm` is an alarm that used up its retries: its dead letter can be
    replayed."""

    changed_by: UUID
    schema_version: int
    alarm: Alarm | None = None
    dead_alarm: UUID | None = None
    schedules: tuple[str, ...] = ()


class CallResult(Struct, frozen=True, kw_only=True):
    """The result of a call under its idempotency key: a value as JSON, or an error that is an
    answer."""

    key: str
    fingerprint: bytes
    value: bytes | None = None
    error: str | None = None


SMALL_STORAGE_BYTES_MAX = 16_384
"""Bytes of a storage that a call reads as a whole, together with the state."""


class EntityHead(Struct, frozen=True, kw_only=True):
    """What a call reads first: the time, the state and its bytes (None without a stored entity),
    and the result of an earlier call with the same idempotency key. `values` is the whole storage
    if it is small."""

    now: datetime
    state: EntityState | None = None
    storage_bytes: int = 0
    result: CallResult | None = None
    values: dict[str, bytes] | None = None


class EntityChange(Effect, frozen=True, kw_only=True):
    """What a call changes, in one transaction with its ack.

    With `clears` the whole storage is deleted first. Without a `state` the entity does not exist
    afterwards. With `keeps_state` only the result is stored. `old_alarm` is the message of an alarm
    that was replaced or deleted.
    """

    RANK = LockRank.ENTITY
    MAY_BE_REFUSED = True

    id: UUID
    type: str
    key: str
    state: EntityState | None = None
    keeps_state: bool = False
    clears: bool = False
    puts: tuple[tuple[str, bytes], ...] = ()
    deletes: tuple[str, ...] = ()
    old_alarm: UUID | None = None
    result: CallResult | None = None


class CountedType(Struct, frozen=True):
    """A type of entities that an app has registered, and how many of them the tenant has:
    `entities` is 1,000 if there are more."""

    type: str
    entities: int


class EntityRecord(Struct, frozen=True, kw_only=True):
    """An entity as lists show it."""

    type: str
    key: str
    storage_bytes: int
    schema_version: int
    alarm_at: datetime | None
    schedules: tuple[str, ...]
    created_at: datetime
    updated_at: datetime


class StorageSelection(Struct, frozen=True, kw_only=True):
    """Keys of a storage, in the order of their bytes: from `start` on (or after `start_after`), to
    before `end`. Without a `limit` all of them: the bytes of a storage are limited."""

    prefix: str = ""
    start: str | None = None
    start_after: str | None = None
    end: str | None = None
    reverse: bool = False
    limit: int | None = None

    def has(self, name: str) -> bool:
        """Whether a key is selected. Texts compare by code points, which is the order of their
        bytes in UTF-8."""
        return (
            name.startswith(self.prefix)
            and (self.start is None or name >= self.start)
            and (self.start_after is None or name > self.start_after)
            and (self.end is None or name < self.end)
        )


class StorageValues(Struct, frozen=True):
    """Values by key, and the call that changed the entity last (None: there is no entity)."""

    changed_by: UUID | None
    values: dict[str, bytes]
