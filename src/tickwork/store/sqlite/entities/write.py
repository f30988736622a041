"""Writes what a call changes of its entity, in the transaction that settles it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tickwork.core.entity.model import CallResult, EntityChange, EntityState
from tickwork.store.shared.entity_rows import schedules_text
from tickwork.store.sqlite.engine.sql import SQL, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.effects import EffectWriter


class EntityWriter(EffectWriter[EntityChange]):
    """Stores changes. No entity occurs twice: its calls run one at a time."""

    def write(self, transaction: Transaction, counted: Sequence[int]) -> None:
        write_entities(
            transaction, [(claim.tenant, change) for claim, change, _ in self._of(counted)]
        )


def write_entities(transaction: Transaction, changes: Iterable[tuple[str, EntityChange]]) -> None:
    """Stores changes of entities of tenants. Their claims must be valid, so each entity has one."""
    puts: list[tuple[Any, ...]] = []
    states: list[tuple[Any, ...]] = []
    for tenant, change in changes:
        named = (tenant, change.id.bytes)
        if change.old_alarm is not None:
            transaction.execute(SQL.delete_alarms, (tenant, change.old_alarm.bytes))
        if not change.keeps_state:
            size = _delete_values(transaction, named, change)
            for name, value in change.puts:
                puts.append((*named, name, value))
                size += len(name.encode()) + len(value)
            if change.state is None:
                transaction.execute(SQL.delete_entities, named)
            else:
                states.append(_state_values(transaction, named, change, change.state, size))
        if change.result is not None:
            _write_result(transaction, named, change.result)
    if puts:
        transaction.connection.executemany(SQL.put_entity_value, puts)
    if states:
        transaction.connection.executemany(SQL.put_entities, states)


def _delete_values(transaction: Transaction, named: tuple[str, bytes], change: EntityChange) -> int:
    """Deletes what is deleted or replaced; returns by how many bytes the storage has grown, a
    negative number."""
    execute, size = transaction.execute, 0
    if change.clears:
        size -= sum(freed for (freed,) in execute(SQL.clear_entity_values, named).fetchall())
    for name in (*change.deletes, *(name for name, _ in change.puts)):
        freed = execute(SQL.delete_entity_values, (*named, name)).fetchone()
        size -= 0 if freed is None else freed[0]
    return size


def _state_values(
    transaction: Transaction,
    named: tuple[str, bytes],
    change: EntityChange,
    state: EntityState,
    size: int,
) -> tuple[Any, ...]:
    alarm, dead = state.alarm, state.dead_alarm
    return (
        *named, change.type, change.key, state.changed_by.bytes, state.schema_version,
        None if alarm is None else alarm.id.bytes,
        None if alarm is None else to_microseconds(alarm.at),
        None if dead is None else dead.bytes,
        schedules_text(state.schedules), size, transaction.now,
    )  # fmt: skip


def _write_result(transaction: Transaction, named: tuple[str, bytes], result: CallResult) -> None:
    values = (*named, result.key, result.fingerprint, result.value, result.error)
    transaction.execute(SQL.put_entity_results, (*values, transaction.now))
