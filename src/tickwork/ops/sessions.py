"""Sessions of the console: sign in with an API key, and sign out."""

from __future__ import annotations

from typing import NamedTuple

from tickwork.core.access import Caller
from tickwork.core.api_key import hash_of, parse_token
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.session import SESSION_SECONDS, Session, session_id
from tickwork.errors import Unauthorized
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import random_bytes

_SECRET_BYTES = 32


class StartedSession(NamedTuple):
    """A session with the secret that its cookie holds."""

    session: Session
    secret: str

    def __repr__(self) -> str:
        return f"StartedSession({self.session!r}, '***')"


async def start_session(
    store: Store, caller: Caller, token: str, *, ends_others: bool = False
) -> StartedSession:
    """Starts a session of a caller who was authenticated with the API key `token`. With
    `ends_others`, the other sessions of the key end. Raises `TooMany` if the tenant has as many
    sessions as it may; the operator, who can change that, is let in."""
    parsed = parse_token(token)
    if parsed is None:
        raise Unauthorized("unauthorized", "sign in with an API key of the form tw_<id>_<secret>")
    secret = random_bytes(_SECRET_BYTES).hex()
    async with recorded(Context(store, Scope(caller.tenant)), "session.start", parsed.key_id):
        session = await store.sessions.start(
            SYSTEM,
            session_id(secret),
            tenant=caller.tenant,
            key_id=parsed.key_id,
            secret_hash=hash_of(parsed.secret),
            seconds=SESSION_SECONDS,
            ends_others=ends_others,
            is_limited=not caller.is_operator,
        )
    return StartedSession(session, secret)


async def end_session(store: Store, caller: Caller, secret: str) -> None:
    """Ends a session. A repeat has no effect."""
    async with recorded(Context(store, Scope(caller.tenant)), "session.end", caller.key_id):
        await store.sessions.end(SYSTEM, session_id(secret))
