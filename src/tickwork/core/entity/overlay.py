"""The changes of a running call, laid over the committed storage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tickwork.core.entity.call import CHANGES_MAX
from tickwork.core.entity.model import StorageSelection
from tickwork.errors import FieldError, InvalidInput


class Overlay:
    """Puts and deletes of a call. A deleted key is None."""

    def __init__(self) -> None:
        self.is_cleared = False
        self._changes: dict[str, bytes | None] = {}

    def __bool__(self) -> bool:
        return self.is_cleared or bool(self._changes)

    def knows(self, name: str) -> bool:
        """Whether the value of a key is known without reading the storage."""
        return self.is_cleared or name in self._changes

    def value(self, name: str) -> bytes | None:
        """The value of a known key; None if it is deleted."""
        return self._changes.get(name)

    def put(self, name: str, value: bytes) -> None:
        """Sets a value."""
        self._change(name, value)

    def delete(self, name: str) -> None:
        """Deletes a key."""
        self._change(name, None)

    def clear(self) -> None:
        """Deletes all keys."""
        self.is_cleared, self._changes = True, {}

    def _change(self, name: str, value: bytes | None) -> None:
        if name not in self._changes and len(self._changes) >= CHANGES_MAX:
            fault = f"a call may change at most {CHANGES_MAX} keys"
            raise InvalidInput([FieldError("storage", fault)])
        self._changes[name] = value

    @property
    def puts(self) -> tuple[tuple[str, bytes], ...]:
        """The new values, in the order of their keys."""
        return tuple(
            (name, value) for name, value in sorted(self._changes.items()) if value is not None
        )

    @property
    def deletes(self) -> tuple[str, ...]:
        """The deleted keys, which a cleared storage does not have anyway."""
        if self.is_cleared:
            return ()
        return tuple(sorted(name for name, value in self._changes.items() if value is None))

    @property
    def put_bytes(self) -> int:
        """Bytes of the new keys and values."""
        return sum(len(name.encode()) + len(value) for name, value in self.puts)

    def committed_limit(self, selection: StorageSelection) -> int | None:
        """Number of committed keys to read for a list: as many more as this may hide."""
        return None if selection.limit is None else selection.limit + len(self._changes)

    def listed(
        self, committed: Mapping[str, bytes], selection: StorageSelection
    ) -> dict[str, bytes]:
        """The selected keys and values, given the first committed ones of the selection."""
        visible: dict[str, bytes] = {} if self.is_cleared else dict(committed)
        for name in [key for key in visible if key in self._changes]:
            del visible[name]
        visible.update((name, value) for name, value in self.puts if selection.has(name))
        ordered = sorted(visible, reverse=selection.reverse)[: selection.limit]
        return {name: visible[name] for name in ordered}


def sizes(values: Mapping[str, bytes], names: Iterable[str]) -> int:
    """Bytes of those of the names that have a value, with their keys."""
    return sum(len(name.encode()) + len(values[name]) for name in names if name in values)
