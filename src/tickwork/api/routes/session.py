"""Sessions of the console: sign in with an API key, look who is signed in, and sign out.

The cookie is HttpOnly and SameSite=Strict, and Secure unless the browser is on this machine. A
sign-in needs JSON, and no page of another site may ask for one. The routes are for the console only
and not part of the description of the API.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Annotated, Any

from litestar import Request, Response, delete, get, post
from litestar.datastructures import Cookie
from litestar.di import NamedDependency
from litestar.exceptions import HTTPException
from litestar.params import Body
from msgspec import Struct

from tickwork.api.access import (
    TENANT_HEADER,
    authenticated,
    caller_with_key,
    check_origin,
    check_rate,
    client_of,
    cookie_of,
    is_direct,
    session_cookie,
)
from tickwork.api.bodies import Documented
from tickwork.api.query import body_reader, finished, flag
from tickwork.api.server_state import ServerState
from tickwork.core.access import Caller, Permission
from tickwork.core.session import SESSION_SECONDS, csrf_token, session_ended
from tickwork.errors import StoreUnavailable, Unauthorized
from tickwork.ops.audit import ACTOR
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.sessions import end_session, start_session


class SignIn(Struct, frozen=True, kw_only=True):
    """The API key to sign in with. With `end_others`, other sessions of the key end."""

    key: str
    end_others: bool = False


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """Who is signed in. Changes need the `csrf_token` in the header `X-CSRF-Token`."""

    tenant: str
    owner: str | None
    key_id: str | None
    scopes: tuple[Permission, ...]
    csrf_token: str
    expires_at: datetime


_OPEN: dict[str, Any] = {"opt": {"permission": "open"}, "include_in_schema": False}
_PATH = "/v1/session"
_log = logging.getLogger(__name__)
_NOT_STORED = {"Cache-Control": "no-store"}


@post(_PATH, dto=Documented[SignIn], return_dto=None, status_code=201, **_OPEN)
async def sign_in(
    data: Annotated[dict[str, Any], Body()],
    request: Request[Any, Any, Any],
    server: NamedDependency[ServerState],
) -> Response[SessionAnswer]:
    """Starts a session and sets its cookie."""
    check_origin(server, request)
    if request.content_type[0].strip().lower() != "application/json":
        raise HTTPException(status_code=415)  # A form of another site could send anything else.
    reader = body_reader(data, "key", "end_others")
    token = (reader.text("key") or "").strip()
    ends_others = flag(reader, data, "end_others")
    finished(reader)
    authenticator = _authenticator(server)
    try:
        caller = await caller_with_key(server, request, f"Bearer {token}", None)
    except Unauthorized:
        _log.warning("a sign-in from %s was refused", client_of(server, request))
        raise
    await check_rate(server, caller)
    ACTOR.set(caller.name)
    started = await start_session(server.store, caller, token, ends_others=ends_others)
    if ends_others:
        authenticator.forget_sessions(caller.key_id)
    cookie = _cookie(request, server, started.secret, int(SESSION_SECONDS))
    return Response(
        _answer(caller, started.secret, started.session.expires_at),
        cookies=[cookie],
        headers=_NOT_STORED,
    )


@get(_PATH, **_OPEN)
async def who(
    request: Request[Any, Any, Any], server: NamedDependency[ServerState]
) -> Response[SessionAnswer]:
    """Says who is signed in. An operator may name the tenant to act for."""
    secret = _secret(request, server)
    signed_in = await _authenticator(server).caller_of_session(
        secret, request.headers.get(TENANT_HEADER)
    )
    return Response(_answer(signed_in.caller, secret, signed_in.expires_at), headers=_NOT_STORED)


@delete(_PATH, status_code=204, **_OPEN)
async def sign_out(
    request: Request[Any, Any, Any], server: NamedDependency[ServerState]
) -> Response[None]:
    """Ends the session and removes its cookie."""
    secret = _secret(request, server)
    caller = await authenticated(server, request)
    ACTOR.set(caller.name)
    await end_session(server.store, caller, secret)
    _authenticator(server).forget_session(secret)
    return Response(None, cookies=[_cookie(request, server, "", 0)], headers=_NOT_STORED)


def _authenticator(server: ServerState) -> Authenticator:
    if server.authenticator is None:
        raise StoreUnavailable("this process has no database")
    return server.authenticator


def _secret(request: Request[Any, Any, Any], server: ServerState) -> str:
    secret = cookie_of(request, session_cookie(server, request))
    if secret is None:
        raise session_ended()
    return secret


def _cookie(
    request: Request[Any, Any, Any], server: ServerState, value: str, seconds: int
) -> Cookie:
    return Cookie(
        session_cookie(server, request),
        value=value,
        path="/",
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=not is_direct(server, request),
    )


def _answer(caller: Caller, secret: str, expires_at: datetime) -> SessionAnswer:
    return SessionAnswer(
        tenant=caller.tenant,
        owner=caller.owner,
        key_id=caller.key_id,
        scopes=tuple(permission for permission in Permission if permission in caller.scopes),
        csrf_token=csrf_token(secret),
        expires_at=expires_at,
    )


SESSION_ROUTES = (sign_in, who, sign_out)
