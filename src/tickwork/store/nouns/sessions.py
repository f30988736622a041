"""Sessions of the console."""

from __future__ import annotations

from tickwork.core.limits import check_system
from tickwork.core.model import Scope
from tickwork.core.options.tenant import SESSIONS_MAX
from tickwork.core.session import Session
from tickwork.core.tenant_limits import check_room
from tickwork.errors import NotFound
from tickwork.store.nouns.tenants import LOCK_QUOTAS
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Noun, Statement, Steps, changes, reads

_START = Statement("start_session", expires_at=Kind.TIME)
_FIND = Statement("find_session", expires_at=Kind.TIME)
_COUNT = Statement("count_sessions")
_END = Statement("end_session")
_END_OF_KEY = Statement("end_sessions_of_key")


class Sessions(Noun):
    """Sessions by the hash of their secret."""

    @changes
    def start(
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
    ) -> Steps[Session]:
        check_system(scope)
        quotas = yield from LOCK_QUOTAS.fetch_row(tenant)
        if quotas is None:
            raise NotFound("tenant", tenant)
        if ends_others:
            yield from _END_OF_KEY.execute(tenant, key_id)
        if is_limited:
            count = yield from _COUNT.fetch_value(NOW, tenant, SESSIONS_MAX)
            check_room(tenant, "sessions_max", count, quotas["sessions_max"])
        values = (session_id, key_id, secret_hash, seconds, tenant)
        return Session(
            id=session_id,
            key_id=key_id,
            secret_hash=secret_hash,
            expires_at=(yield from _START.fetch_value(NOW, *values)),
        )

    @reads
    def find(self, scope: Scope, session_id: bytes) -> Steps[Session | None]:
        check_system(scope)
        row = yield from _FIND.fetch_row(session_id)
        return None if row is None else Session(id=session_id, **row)

    @changes
    def end(self, scope: Scope, session_id: bytes) -> Steps[None]:
        check_system(scope)
        yield from _END.execute(session_id)
