"""Progress of claimed messages on PostgreSQL: the records of many callers in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tickwork.core.limits import is_own_claim
from tickwork.core.message.progress import check_progress
from tickwork.core.model import Claim, Scope
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.group_commit import Coalescer


class _Record(NamedTuple):
    claim: Claim
    work: str
    rows: Mapping[str, str]


class PostgresProgress:
    """Rows by work key and name."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment
        self._coalescer: Coalescer[_Record, bool] = Coalescer(self._commit)

    async def record(self, scope: Scope, claim: Claim, work: str, rows: Mapping[str, str]) -> bool:
        check_progress(work, rows)
        if not is_own_claim(scope, claim):
            return False
        return await self._coalescer.submit(_Record(claim, work, dict(rows)), len(rows))

    async def get(self, scope: Scope, work: str) -> dict[str, str]:
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.get_progress, own_tenant(scope), work)
        )
        return {row["name"]: row["value"] for row in found}

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, records: Sequence[_Record]) -> list[bool]:
        claims = [record.claim for record in records]
        rows = [
            (number, record.work, name, value)
            for number, record in enumerate(records, start=1)
            for name, value in record.rows.items()
        ]
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.record_progress,
                self._moment(),
                [claim.tenant for claim in claims],
                [claim.id for claim in claims],
                [claim.number for claim in claims],
                [claim.holder for claim in claims],
                *map(list, zip(*rows, strict=True)),
            )
        )
        valid = {row["number"] for row in found}
        return [number in valid for number in range(1, len(records) + 1)]
