"""The storage of an entity during a call: reads go to the store, writes wait for the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, overload
from uuid import UUID

import msgspec

from tickwork.core.entity.call import (
    KEYS_AT_ONCE_MAX,
    STORAGE_BYTES_MAX,
    check_storage_key,
    encode_value,
)
from tickwork.core.entity.model import StorageSelection, StorageValues
from tickwork.core.entity.overlay import Overlay, sizes
from tickwork.core.fields import shown
from tickwork.core.model import Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.contract import Store


class StateChanged(Exception):
    """The entity changed between two reads of a method that only reads."""


_MISSING: Any = object()


class Storage:
    """Keys and JSON values of one entity."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        entity: UUID,
        *,
        changed_by: UUID | None,
        values: Mapping[str, bytes] | None,
        is_read_only: bool,
        on_cleared: Callable[[], None],
    ) -> None:
        self._store = store
        self._scope = scope
        self._entity = entity
        self._changed_by, self._is_read_only = changed_by, is_read_only
        self._whole = values
        self._overlay, self._on_cleared = Overlay(), on_cleared
        self._has_ended = self.has_seen_change = False

    # Reading

    @overload
    async def get(self, key: str, default: Any = None) -> Any: ...

    @overload
    async def get(self, key: Sequence[str]) -> dict[str, Any]: ...

    async def get(self, key: str | Sequence[str], default: Any = None) -> Any:
        """The value of a key, or `default`; of a list of keys those that have a value."""
        if isinstance(key, str):
            values = await self._values([key])
            return msgspec.json.decode(values[key]) if key in values else default
        wanted = _as_list(key)
        values = await self._values(wanted)
        return {name: msgspec.json.decode(values[name]) for name in wanted if name in values}

    async def list(
        self,
        prefix: str = "",
        *,
        start: str | None = None,
        start_after: str | None = None,
        end: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> dict[str, Any]:
        """Keys and values in the order of the keys' bytes.

        Args:
            prefix: Only keys that begin with it.
            start: Only this key and those after it.
            start_after: Only keys after it, in place of `start`.
            end: Only keys before it.
            reverse: From the last key to the first.
            limit: Number of keys. Without it all of them.
        """
        self.check_open()
        _check_list(start, start_after, limit)
        selection = StorageSelection(
            prefix=prefix,
            start=start,
            start_after=start_after,
            end=end,
            reverse=reverse,
            limit=limit,
        )
        committed: Mapping[str, bytes] = {}
        if self._whole is not None:
            whole = self._whole.items()
            committed = {name: value for name, value in whole if selection.has(name)}
        elif not self._overlay.is_cleared:
            asked = msgspec.structs.replace(
                selection, limit=self._overlay.committed_limit(selection)
            )
            found = await self._store.entities.listed(self._scope, self._entity, asked)
            committed = self._checked(found)
        shown = self._overlay.listed(committed, selection)
        return {name: msgspec.json.decode(value) for name, value in shown.items()}

    # Writing

    @overload
    async def put(self, key: str, value: Any) -> None: ...

    @overload
    async def put(self, key: Mapping[str, Any]) -> None: ...

    async def put(self, key: str | Mapping[str, Any], value: Any = _MISSING) -> None:
        """Stores a value, or several from a mapping. Values are JSON, up to 131,072 bytes."""
        self._check_writable()
        entries = _entries(key, value)
        _check_names(entries)
        encoded = {name: encode_value(name, entry) for name, entry in entries.items()}
        for name, encoded_value in encoded.items():
            self._overlay.put(name, encoded_value)

    async def delete(self, key: str | Sequence[str]) -> int:
        """Deletes a key, or several; returns how many existed."""
        self._check_writable()
        names = [key] if isinstance(key, str) else _as_list(key)
        existing = await self._values(names)
        for name in existing:
            self._overlay.delete(name)
        return len(existing)

    async def delete_all(self) -> None:
        """Deletes all keys, the alarm and the schedules of the entity."""
        self._check_writable()
        self._overlay.clear()
        self._on_cleared()

    # For the call

    @property
    def changes(self) -> Overlay:
        """What the call has changed."""
        return self._overlay

    @contextmanager
    def writable(self) -> Iterator[None]:
        """Allows a migration to write, also before a method that only reads."""
        before, self._is_read_only = self._is_read_only, False
        try:
            yield
        finally:
            self._is_read_only = before

    def end(self) -> None:
        """Refuses further calls, and forgets the call: a cycle of objects would stay in memory
        until the next garbage collection."""
        self._has_ended, self._on_cleared = True, _do_nothing

    async def check_size(self, committed_bytes: int) -> None:
        """Raises `InvalidInput` if the storage would be too large."""
        overlay = self._overlay
        before = 0 if overlay.is_cleared else committed_bytes
        if before + overlay.put_bytes <= STORAGE_BYTES_MAX:
            return
        if before:
            names = [*overlay.deletes, *(name for name, _ in overlay.puts)]
            found = await self._store.entities.values(self._scope, self._entity, names)
            before -= sizes(found.values, names)
        if before + overlay.put_bytes > STORAGE_BYTES_MAX:
            fault = f"would have more than {STORAGE_BYTES_MAX} bytes; delete some keys"
            raise InvalidInput([FieldError("storage", fault)])

    async def _values(self, names: Sequence[str]) -> dict[str, bytes]:
        self.check_open()
        _check_names(names)
        overlay = self._overlay
        unknown = [name for name in names if not overlay.knows(name)]
        values: dict[str, bytes] = {}
        if unknown and self._whole is not None:
            values = {name: self._whole[name] for name in unknown if name in self._whole}
        elif unknown:
            found = await self._store.entities.values(self._scope, self._entity, unknown)
            values = dict(self._checked(found))
        for name in names:
            if overlay.knows(name) and (value := overlay.value(name)) is not None:
                values[name] = value
        return values

    def _checked(self, found: StorageValues) -> Mapping[str, bytes]:
        """The values, if they are those of the state that the call began with. Only a method that
        only reads can see another: it does not keep other calls out."""
        if self._is_read_only and found.changed_by != self._changed_by:
            self.has_seen_change = True
            raise StateChanged
        return found.values

    def check_open(self, field: str = "storage") -> None:
        """Raises `InvalidInput` after the call has ended."""
        if self._has_ended:
            fault = "belongs to a call that has ended; await it inside the method"
            raise InvalidInput([FieldError(field, fault)])

    def _check_writable(self) -> None:
        self.check_open()
        if self._is_read_only:
            fault = "cannot be written by a method with @read; remove @read"
            raise InvalidInput([FieldError("storage", fault)])


def _entries(key: str | Mapping[str, Any], value: Any) -> dict[str, Any]:
    """What a put stores."""
    if isinstance(key, Mapping):
        if value is not _MISSING:
            fault = "takes a key and a value, or only a mapping"
            raise InvalidInput([FieldError("put", fault)])
        return dict(key)
    if value is _MISSING:
        fault = f"has no value for {shown(key)}; put(key, None) stores null, delete(key) deletes"
        raise InvalidInput([FieldError("put", fault)])
    return {key: value}


def _check_list(start: str | None, start_after: str | None, limit: object) -> None:
    if start is not None and start_after is not None:
        fault = "cannot be given together with start_after; give one of them"
        raise InvalidInput([FieldError("start", fault)])
    is_number = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and (not is_number or not limit >= 1):  # type: ignore[operator]
        fault = f"must be a whole number from 1 on, not {shown(limit)}; leave it out for all keys"
        raise InvalidInput([FieldError("limit", fault)])


def _as_list(names: object) -> list[str]:
    return [*names] if isinstance(names, list | tuple | set | frozenset) else [names]  # type: ignore[list-item]


def _check_names(names: Iterable[str]) -> None:
    wanted = [*names]
    if len(wanted) > KEYS_AT_ONCE_MAX:
        fault = f"has {len(wanted)} keys; at most {KEYS_AT_ONCE_MAX} at once"
        raise InvalidInput([FieldError("storage", fault)])
    for name in wanted:
        check_storage_key(name)


def _do_nothing() -> None:
    """Forgets that the storage was cleared."""
