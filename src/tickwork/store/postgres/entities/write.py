"""Writes what calls change of their entities, in the transaction that settles them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tickwork.core.entity.model import EntityChange, EntityState
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.effects import EffectWriter, EndedMessages
from tickwork.store.shared.entity_rows import schedules_text

Changes = Sequence[tuple[str, EntityChange]]
"""Tenants and changes. No entity occurs twice: its calls run one at a time."""


class EntityWriter(EffectWriter[EntityChange]):
    """Stores changes, for many calls in few statements. Deleting an alarm may wait for its message,
    which a transaction that waits for a key may hold."""

    async def write(
        self,
        connection: Connection,
        counted: Sequence[int],
        ended: EndedMessages,  # noqa: ARG002
    ) -> None:
        changes = [(claim.tenant, change) for claim, change, _ in self._of(counted)]
        if changes:
            await write_entities(connection, self._moment, changes)


async def write_entities(connection: Connection, moment: Moment, changes: Changes) -> None:
    old = [(tenant, change.old_alarm) for tenant, change in changes if change.old_alarm is not None]
    if old:
        await connection.execute(SQL.delete_alarms, *_columns(old))
    kept = [(tenant, change) for tenant, change in changes if not change.keeps_state]
    await _write_states(connection, moment, kept)
    results = [
        (tenant, change.id, result.key, result.fingerprint, result.value, result.error)
        for tenant, change in changes
        if (result := change.result) is not None
    ]
    if results:
        await connection.execute(SQL.put_entity_results, moment(), *_columns(results))


async def _write_states(connection: Connection, moment: Moment, changes: Changes) -> None:
    freed = await _delete_values(connection, changes)
    gone = [(tenant, change.id) for tenant, change in changes if change.state is None]
    if gone:
        await connection.execute(SQL.delete_entities, *_columns(gone))
    states: list[tuple[Any, ...]] = [
        (tenant, change.id, change.type, change.key, *_state_values(change.state))
        for tenant, change in changes
        if change.state is not None
    ]
    if not states:
        return
    puts = [
        (tenant, change.id, name, value)
        for tenant, change in changes
        if change.state is not None
        for name, value in change.puts
    ]
    sizes = [freed.get((row[0], row[1]), 0) for row in states]
    values = _columns(puts) if puts else [[], [], [], []]
    await connection.execute(SQL.put_entities, moment(), *_columns(states), *values, sizes)


async def _delete_values(connection: Connection, changes: Changes) -> dict[tuple[str, UUID], int]:
    """Deletes keys; returns the bytes that this freed, by tenant and entity."""
    cleared = [(tenant, change.id) for tenant, change in changes if change.clears]
    deleted = [(tenant, change.id, name) for tenant, change in changes for name in change.deletes]
    if not cleared and not deleted:
        return {}
    rows = await connection.fetch(
        SQL.delete_entity_values,
        *(_columns(cleared) if cleared else [[], []]),
        *(_columns(deleted) if deleted else [[], [], []]),
    )
    return {(row["tenant"], row["entity_id"]): row["bytes"] for row in rows}


def _state_values(state: EntityState) -> tuple[object, ...]:
    alarm = state.alarm
    return (
        state.changed_by, state.schema_version, alarm and alarm.id, alarm and alarm.at,
        state.dead_alarm, schedules_text(state.schedules),
    )  # fmt: skip


def _columns(rows: Sequence[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]
