"""The history of slots, as people read it. Settlements and plans write it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.limits import LIST_LIMIT_MAX, check_limit, is_name
from tickwork.core.message.message_list import END_OF_TIME, LAST_ID
from tickwork.core.model import Scope
from tickwork.core.schedule.firing import (
    SPREAD_MAX,
    ChannelOutcome,
    FiringRecord,
    FiringStatus,
    PlannedSlot,
)
from tickwork.core.schedule.model import Schedule, read_rule
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import Noun, Port, Row, Statement, Steps, reads, searches

_LIST = Statement("list_firings", FiringRecord)
_OF_SLOT = Statement("firings_of_slot", FiringRecord)
_SUCCEEDED = Statement("succeeded_slots", slot=Kind.TIME)
_UNFINISHED = Statement("unfinished_slots", slot=Kind.TIME)
_LAST_DUE = Statement("last_due_slots", id=Kind.ID, slot=Kind.TIME)
_PLANNED = Statement("planned_slots", id=Kind.ID, slot=Kind.TIME, due_at=Kind.TIME)
_PLANNED_OF = Statement("planned_slots_of", id=Kind.ID, slot=Kind.TIME, due_at=Kind.TIME)
_OWNER = Statement("schedule_owner")

_CHANNELS = msgspec.json.Decoder(tuple[ChannelOutcome, ...])


class Firings(Noun):
    """The recorded attempts at slots, and the slots that wait."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    @reads
    def list(
        self,
        scope: Scope,
        schedule_id: UUID,
        limit: int,
        *,
        status: FiringStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> Steps[tuple[FiringRecord, ...]]:
        check_limit(limit)
        values = (limit, status, *(before or (END_OF_TIME, LAST_ID)))
        firings = yield from self._read_firings(_LIST, scope, schedule_id, *values)
        return tuple(firings[::-1][:limit])

    @reads
    def of_slot(
        self, scope: Scope, schedule_id: UUID, at: datetime
    ) -> Steps[tuple[FiringRecord, ...]]:
        values = (at, LIST_LIMIT_MAX)
        firings = yield from self._read_firings(_OF_SLOT, scope, schedule_id, *values)
        return tuple(firings[:LIST_LIMIT_MAX])

    @reads
    def succeeded(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> Steps[frozenset[datetime]]:
        rows = yield from self._read(_SUCCEEDED, scope, schedule_id, since, until)
        return frozenset(row["slot"] for row in rows)

    @reads
    def unfinished(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> Steps[frozenset[datetime]]:
        rows = yield from self._read(_UNFINISHED, scope, schedule_id, since, until)
        return frozenset(row["slot"] for row in rows)

    @reads
    def last_due(
        self, scope: Scope, schedules: Sequence[Schedule], until: datetime
    ) -> Steps[dict[UUID, datetime]]:
        rows = yield from _LAST_DUE.fetch_each(_names(scope, schedules), until)
        return {row["id"]: row["slot"] for row in rows if row["slot"] is not None}

    @searches
    def planned(
        self, scope: Scope, now: datetime, limit: int, *, owner: str | None = None
    ) -> Steps[tuple[PlannedSlot, ...]]:
        check_limit(limit)
        if not all(text is None or is_name(text) for text in (scope.tenant, owner)):
            return ()
        slots: list[PlannedSlot] = []
        for tenant in (yield from self._paths.tenants(scope)):
            rows = yield from _PLANNED.fetch(tenant, now, owner or scope.owner, limit)
            slots += map(_read_planned, rows)
        return tuple(sorted(slots, key=lambda slot: slot.due_at))[:limit]

    @reads
    def planned_of(
        self, scope: Scope, schedules: Sequence[Schedule], now: datetime
    ) -> Steps[tuple[PlannedSlot, ...]]:
        names = _names(scope, schedules)
        rows = yield from _PLANNED_OF.fetch_each(names, now, now - SPREAD_MAX)
        return tuple(sorted(map(_read_planned, rows), key=lambda slot: slot.due_at))

    def _read_firings(
        self, statement: Statement, scope: Scope, schedule_id: UUID, *values: object
    ) -> Steps[Sequence[FiringRecord]]:
        """Firings in the order in which they ended."""
        rows = yield from self._read(statement, scope, schedule_id, *values)
        in_order = sorted(rows, key=lambda row: (row["finished_at"], row["id"]))
        return [*map(read_firing, in_order)]

    def _read(
        self, statement: Statement, scope: Scope, schedule_id: UUID, *values: object
    ) -> Steps[Sequence[Row]]:
        if scope.tenant is not None and not is_name(scope.tenant):
            return []
        if scope.owner is not None:
            owner = yield from _OWNER.fetch_value(scope.tenant, schedule_id)
            if owner != scope.owner:
                return []
        rows: Sequence[Row] = []
        for tenant in (yield from self._paths.tenants(scope)):
            rows = [*rows, *(yield from statement.fetch(tenant, schedule_id, *values))]
        return rows


def _names(scope: Scope, schedules: Sequence[Schedule]) -> list[tuple[str, UUID]]:
    """Those of the schedules that a scope sees."""
    return [
        (schedule.tenant, schedule.id)
        for schedule in schedules
        if scope.tenant in (None, schedule.tenant)
    ]


def _read_planned(row: Row) -> PlannedSlot:
    zone = read_rule(row["rule"], row["id"]).timezone
    return PlannedSlot(row["tenant"], row["id"], row["name"], zone, row["slot"], row["due_at"])


def read_firing(row: Row) -> FiringRecord:
    """A row with the fields of `FiringRecord`."""
    fields = {name: row[name] for name in FiringRecord.__struct_fields__}
    fields["status"] = FiringStatus(fields["status"])
    fields["channels"] = _CHANNELS.decode(fields["channels"])
    return FiringRecord(**fields)
