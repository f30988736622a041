"""Entities, as calls and people read them. Direct calls are in each store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tickwork.core.entity.call import WAITING_CALLS_MAX
from tickwork.core.entity.model import (
    CallResult,
    EntityHead,
    EntityRecord,
    StorageSelection,
    StorageValues,
)
from tickwork.core.limits import check_limit
from tickwork.core.model import NewMessage, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.entity_rows import bounds, record_of
from tickwork.store.steps import Noun, Port, Row, Statement, Steps, reads

_ENTERED = Statement("entered_call", id=Kind.ID, is_claimed=Kind.FLAG)
_COUNT_WAITING = Statement("count_waiting_calls")
_VALUES = Statement("entity_values", changed_by=Kind.ID)
_STORAGE = Statement("list_entity_storage", changed_by=Kind.ID)
_STORAGE_REVERSED = Statement("list_entity_storage_reversed", changed_by=Kind.ID)
_LIST = Statement("list_entities", alarm_at=Kind.TIME, created_at=Kind.TIME, updated_at=Kind.TIME)
_COUNT = Statement("count_entities")
_RECORD = (
    "type", "key", "bytes", "schema_version", "alarm_at", "schedules", "created_at", "updated_at",
)  # fmt: skip


class NewCall(NamedTuple):
    """A direct call that is to be stored."""

    caller: UUID
    scope: Scope
    queue: str
    message: NewMessage
    result_key: str | None = None


class Entities(Noun, ABC):
    """Entities of a tenant."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    @reads
    def count_waiting(self, scope: Scope, queue: str, key: str) -> Steps[int]:
        queue_id = (yield from self._paths.queue(scope, queue)).id
        values = (queue_id, own_tenant(scope), key, WAITING_CALLS_MAX)
        count: int = yield from _COUNT_WAITING.fetch_value(*values)
        return count

    @reads
    def entered(self, scope: Scope, calls: Sequence[UUID]) -> Steps[dict[UUID, bool]]:
        rows = yield from _ENTERED.fetch_each([(call,) for call in calls], own_tenant(scope))
        return {row["id"]: row["is_claimed"] for row in rows}

    @abstractmethod
    async def head(self, scope: Scope, entity: UUID, result_key: str | None = None) -> EntityHead:
        """As the contract says."""

    async def result(self, scope: Scope, entity: UUID, key: str) -> CallResult | None:
        return (await self.head(scope, entity, key)).result

    @reads
    def values(self, scope: Scope, entity: UUID, names: Sequence[str]) -> Steps[StorageValues]:
        return _values((yield from _VALUES.fetch(own_tenant(scope), entity, [*names])))

    @reads
    def listed(
        self, scope: Scope, entity: UUID, selection: StorageSelection
    ) -> Steps[StorageValues]:
        statement = _STORAGE_REVERSED if selection.reverse else _STORAGE
        values = (own_tenant(scope), entity, *bounds(selection), selection.limit)
        return _values((yield from statement.fetch(*values)))

    @reads
    def list(
        self, scope: Scope, type_name: str, limit: int, *, prefix: str = "", after: str = ""
    ) -> Steps[tuple[EntityRecord, ...]]:
        check_limit(limit)
        first, _, end = bounds(StorageSelection(prefix=prefix))
        rows = yield from _LIST.fetch(own_tenant(scope), type_name, first, end, after, limit)
        return tuple(record_of(*(row[name] for name in _RECORD)) for row in rows)

    @reads
    def count(self, scope: Scope, type_name: str, limit: int) -> Steps[int]:
        check_limit(limit)
        count: int = yield from _COUNT.fetch_value(own_tenant(scope), type_name, limit)
        return count


def _values(rows: Sequence[Row]) -> StorageValues:
    values = {row["name"]: row["value"] for row in rows if row["name"] is not None}
    return StorageValues(rows[0]["changed_by"], values)
