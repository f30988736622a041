"""Progress of claimed messages on SQLite."""

from __future__ import annotations

from collections.abc import Mapping

from tickwork.core.limits import is_own_claim
from tickwork.core.message.progress import check_progress
from tickwork.core.model import Claim, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction


class SqliteProgress:
    """Rows by work key and name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, scope: Scope, claim: Claim, work: str, rows: Mapping[str, str]) -> bool:
        check_progress(work, rows)
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)
        named = tuple(rows.items())

        def carry_out(transaction: Transaction) -> bool:
            if transaction.execute(SQL.claimed_rowid, fence).fetchone() is None:
                return False
            for name, value in named:
                values = (claim.tenant, work, name, value, transaction.now)
                transaction.execute(SQL.record_progress, values)
            return True

        return await self._database.write(carry_out, rows=len(named))

    async def get(self, scope: Scope, work: str) -> dict[str, str]:
        named = (own_tenant(scope), work)
        found = await self._database.read(
            lambda transaction: transaction.execute(SQL.get_progress, named).fetchall()
        )
        return dict(found)
