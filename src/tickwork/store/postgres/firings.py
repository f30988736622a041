"""What became of slots, on PostgreSQL. Settling records it; here it is read."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec

from tickwork.core.firing import ChannelOutcome, Firing, FiringStatus
from tickwork.core.limits import check_limit, is_name
from tickwork.core.model import Scope
from tickwork.store.postgres.database import SQL, Database

_FIELDS = Firing.__struct_fields__
_STATUS, _CHANNELS = _FIELDS.index("status"), _FIELDS.index("channels")
_OUTCOMES = msgspec.json.Decoder(tuple[ChannelOutcome, ...])


class PostgresFirings:
    """The recorded attempts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list(self, scope: Scope, schedule_id: UUID, limit: int) -> tuple[Firing, ...]:
        check_limit(limit)
        if scope.tenant is not None and not is_name(scope.tenant):
            return ()
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.list_firings, scope.tenant, schedule_id, limit)
        )
        return tuple(_firing(row) for row in found)


def _firing(row: Any) -> Firing:
    values = list(row)
    values[_STATUS] = FiringStatus(values[_STATUS])
    values[_CHANNELS] = _OUTCOMES.decode(values[_CHANNELS])
    return Firing(*values)
