"""Sessions of the console on PostgreSQL."""

from __future__ import annotations

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.core.session import Session
from tickwork.core.tenant_limits import SESSIONS_MAX, check_room
from tickwork.errors import NotFound
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL


class PostgresSessions:
    """Sessions by the hash of their secret."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment

    async def start(
        self,
        scope: Scope,
        session_id: bytes,
        *,
        tenant: str,
        key_id: str,
        secret_hash: bytes,
        seconds: float,
        ends_others: bool = False,
        is_limited: bool = True,
    ) -> Session:
        check_system(scope)
        values = (self._moment(), session_id, key_id, secret_hash, seconds, tenant)

        async def work(connection: Connection) -> Session:
            quotas = await connection.fetchrow(SQL.lock_counted_quotas, tenant)
            if quotas is None:
                raise NotFound("tenant", tenant)
            if ends_others:
                await connection.execute(SQL.end_sessions_of_key, tenant, key_id)
            if is_limited:
                counted = (self._moment(), tenant, SESSIONS_MAX)
                count = await connection.fetchval(SQL.count_sessions, *counted)
                check_room(tenant, "sessions_max", count, quotas["sessions_max"])
            return Session(
                id=session_id,
                key_id=key_id,
                secret_hash=secret_hash,
                expires_at=await connection.fetchval(SQL.start_session, *values),
            )

        return await self._database.change(work)

    async def find(self, scope: Scope, session_id: bytes) -> Session | None:
        check_system(scope)
        row = await self._database.run(
            lambda connection: connection.fetchrow(SQL.find_session, session_id)
        )
        return None if row is None else Session(id=session_id, **row)

    async def end(self, scope: Scope, session_id: bytes) -> None:
        check_system(scope)

        async def work(connection: Connection) -> None:
            await connection.execute(SQL.end_session, session_id)

        await self._database.change(work)
