"""Firings on SQLite: recorded with the end of a handing-out, read by schedule."""

from __future__ import annotations

from uuid import UUID

import msgspec

from tickwork.core.firing import Firing, FiringRecord
from tickwork.core.limits import check_limit
from tickwork.core.model import Scope
from tickwork.store.ids import new_id
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.finding import is_storable
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import duration


class SqliteFirings:
    """What became of slots."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, scope: Scope, schedule_id: UUID, limit: int) -> tuple[Firing, ...]:
        check_limit(limit)
        if scope.tenant is not None and not is_storable(scope.tenant):
            return ()
        values = (scope.tenant, schedule_id.bytes, limit)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.list_firings, values).fetchall()
        )
        return tuple(rows.firing(row) for row in found)


def record(transaction: Transaction, slot: rows.Row, firing: FiringRecord) -> None:
    """Records an attempt at a slot, as `held_slot` has it."""
    now = transaction.now
    transaction.execute(
        SQL.record_firing,
        (
            *slot, new_id().bytes, str(firing.status), firing.reason,
            now - duration(firing.took_seconds), now, firing.result_code, firing.excerpt,
            msgspec.json.encode(firing.channels).decode(),
        ),
    )  # fmt: skip
