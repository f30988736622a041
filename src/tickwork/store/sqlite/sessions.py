"""Sessions of the console on SQLite."""

from __future__ import annotations

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.core.session import Session
from tickwork.core.tenant_limits import SESSIONS_MAX, check_room
from tickwork.errors import NotFound
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds
from tickwork.store.sqlite.engine.work import Transaction


class SqliteSessions:
    """Sessions by the hash of their secret."""

    def __init__(self, database: Database) -> None:
        self._database = database

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

        def work(transaction: Transaction) -> Session:
            expires_at = transaction.now + microseconds(seconds)
            row = transaction.execute(SQL.lock_counted_quotas, (tenant,)).fetchone()
            if row is None:
                raise NotFound("tenant", tenant)
            if ends_others:
                transaction.execute(SQL.end_sessions_of_key, (tenant, key_id))
            if is_limited:
                counted = (transaction.now, tenant, SESSIONS_MAX)
                (count,) = transaction.execute(SQL.count_sessions, counted).fetchone()
                check_room(tenant, "sessions_max", count, row[3])
            values = (session_id, key_id, secret_hash, expires_at, tenant)
            transaction.execute(SQL.start_session, values)
            return Session(
                id=session_id,
                key_id=key_id,
                secret_hash=secret_hash,
                expires_at=from_microseconds(expires_at),
            )

        return await self._database.change(work)

    async def find(self, scope: Scope, session_id: bytes) -> Session | None:
        check_system(scope)
        row = await self._database.read(
            lambda transaction: transaction.execute(SQL.find_session, (session_id,)).fetchone()
        )
        if row is None:
            return None
        key_id, secret_hash, expires_at = row
        return Session(
            id=session_id,
            key_id=key_id,
            secret_hash=secret_hash,
            expires_at=from_microseconds(expires_at),
        )

    async def end(self, scope: Scope, session_id: bytes) -> None:
        check_system(scope)

        def work(transaction: Transaction) -> None:
            transaction.execute(SQL.end_session, (session_id,))

        await self._database.change(work)
