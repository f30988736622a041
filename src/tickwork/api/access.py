"""Access of requests: a route declares its scope, and a guard lets only callers in who have it.

```
@get("/v1/queues", opt={"permission": "read"})
async def list_queues(context: NamedDependency[Context]) -> …:
    return await queues.list_queues(context)
```

`permission` is a scope of `Permission`, or `open` for a route that needs no key. A route with
`"owners": True` is also for owner-bound callers, and has to restrict them to what they own;
any other route refuses them. A route with `"open_on_loopback": True` needs no key if the server
listens on a loopback address, the request comes through no proxy, and its `Host` is this machine.
An application with a route that declares no permission does not start. A request without
`Authorization` may have the cookie of the console instead. The header `Tickwork-Tenant` names the
tenant that an operator acts for.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, TypeAlias

from litestar import Litestar, Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.openapi.spec import SecurityScheme

from tickwork.api.nul import refuse_nul
from tickwork.api.server_state import ServerState
from tickwork.core.access import Caller, Permission, check_access
from tickwork.core.http.client_address import PROXY_HEADERS, names_loopback
from tickwork.core.session import check_csrf
from tickwork.errors import Forbidden, StoreUnavailable
from tickwork.ops.audit import ACTOR
from tickwork.ops.quotas import request_quota

OPEN = "open"
"""The permission of a route that needs no key."""

TENANT_HEADER = "Tickwork-Tenant"
CSRF_HEADER = "X-CSRF-Token"
SESSION_COOKIE = "tickwork_session"
COOKIES_MAX = 200
"""Number of cookies of a request among which ours is looked for."""

Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]

SECURITY_SCHEME = "key"
SECURITY = SecurityScheme(
    type="http", scheme="bearer", description="An API key `tw_…`, or a JWT of a configured issuer."
)

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_DECLARATIONS = frozenset({OPEN, *Permission})


async def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Raises `Unauthorized` or `Forbidden` unless the caller may use the route."""
    refuse_nul(connection)
    declared = handler.opt.get("permission")
    if declared == OPEN or connection.scope.get("method") == "OPTIONS":
        return  # OPTIONS says no more than the description of the API, which is open.
    server: ServerState = connection.app.state.server
    if handler.opt.get("open_on_loopback") is True and is_from_here(server, connection):
        return
    caller = await authenticated(server, connection)
    check_access(
        caller, Permission(str(declared)), is_open_to_owners=handler.opt.get("owners") is True
    )
    await check_rate(server, caller)
    connection.scope["auth"] = caller
    ACTOR.set(caller.name)


async def check_rate(server: ServerState, caller: Caller) -> None:
    """Counts a request. Raises `RateExceeded` if its key, or all keys of its tenant together, make
    too many. The quota of a tenant does not hold for the operator, who can change it."""
    if server.gate is not None:
        quota = None if caller.is_operator else await request_quota(server.context(caller))
        server.gate.check(caller, quota)


async def authenticated(server: ServerState, connection: Connection) -> Caller:
    """Who makes a request: the header `Authorization` says so, and without it the cookie of the
    console. A change with a cookie needs the CSRF token of its session."""
    if server.authenticator is None:
        raise StoreUnavailable("this process has no database")
    authorization, tenant = (
        connection.headers.get(name) for name in ("Authorization", TENANT_HEADER)
    )
    secret = cookie_of(connection, session_cookie(server, connection))
    if authorization is not None or secret is None:
        return await caller_with_key(server, connection, authorization, tenant)
    signed_in = await server.authenticator.caller_of_session(secret, tenant)
    if connection.scope.get("method") not in _READS:
        check_csrf(secret, connection.headers.get(CSRF_HEADER))
    return signed_in.caller


async def caller_with_key(
    server: ServerState,
    connection: Connection,
    authorization: str | None,
    tenant: str | None,
) -> Caller:
    """Who has this key. Wrong keys are counted by the address of the client, and refused with
    `RateExceeded` if there are too many."""
    if server.authenticator is None:
        raise StoreUnavailable("this process has no database")
    gate = server.gate
    if gate is None:
        return await server.authenticator.caller(authorization, tenant)
    host = client_of(server, connection)
    credential = None if authorization is None else _print_of(authorization)
    async with gate.guess(host, credential):
        return await server.authenticator.caller(authorization, tenant)


def _print_of(authorization: str) -> str:
    """Names a key in the memory of this process, which does not have the key itself."""
    return blake2b(authorization.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_direct(server: ServerState, connection: Connection) -> bool:
    """Whether a request comes from this machine, and through no proxy: one on this machine may
    forward requests of others."""
    return (
        server.is_on_loopback
        and not any(name in connection.headers for name in PROXY_HEADERS)
        and not server.trusted_proxies.has(_peer(connection))
    )


def is_from_here(server: ServerState, connection: Connection) -> bool:
    """Whether a request comes from a program on this machine, and not from a page of another site
    in a browser on it."""
    return is_direct(server, connection) and names_loopback(connection.headers.get("Host"))


def client_of(server: ServerState, connection: Connection) -> str:
    """The address of the client, for logs and limits."""
    forwarded_for = connection.headers.get("X-Forwarded-For")
    return server.trusted_proxies.client(_peer(connection), forwarded_for) or "unknown"


def session_cookie(server: ServerState, connection: Connection) -> str:
    """The name of the console's cookie. With its prefix a browser takes it only over TLS, from this
    host and for all paths, so that no other host of the domain can set one."""
    return SESSION_COOKIE if is_direct(server, connection) else f"__Host-{SESSION_COOKIE}"


def cookie_of(connection: Connection, name: str) -> str | None:
    """The value of a cookie, as it was sent: ours are not quoted. `connection.cookies` would read
    all of them, which takes seconds for some (CVE-2024-7592), and keep them for other requests."""
    for part in connection.headers.get("Cookie", "").split(";", COOKIES_MAX):
        found, _, value = part.partition("=")
        if found.strip() == name:
            return value.strip()
    return None


def check_origin(server: ServerState, connection: Connection) -> None:
    """Raises `Forbidden` for a request that a page of another site makes: a browser names that site
    in `Origin`. A program names none."""
    origin, host = (connection.headers.get(name) for name in ("Origin", "Host"))
    if origin is None:
        return
    own = {f"http://{host}", f"https://{host}"}
    public_url = server.outside.public_url()
    if public_url is not None:
        own.add("/".join(public_url.split("/")[:3]))
    if origin.lower() not in {address.lower() for address in own}:
        fault = "Origin: must be this server; set TICKWORK_PUBLIC_URL if it has another address"
        raise Forbidden("origin", fault)


def _peer(connection: Connection) -> str | None:
    return None if connection.client is None else connection.client.host


def caller_of_request(request: Request[Any, Any, Any]) -> Caller:
    """The dependency `caller`. It names `server` so that one is provided after the other: Litestar
    starts a task for each of several dependencies that it can provide at once."""
    caller = request.auth
    assert isinstance(caller, Caller)
    return caller


def check_declarations(api: Litestar) -> None:
    """Raises `LookupError` for routes that do not declare their permission."""
    missing = [
        f"{handler.handler_name} at {path}"
        for path, handler in declared_routes(api)
        if handler.opt.get("permission") not in _DECLARATIONS
    ]
    if missing:
        raise LookupError(f"routes without opt={{'permission': …}}: {', '.join(missing)}")


def declared_routes(api: Litestar) -> list[tuple[str, HTTPRouteHandler]]:
    """All routes with their paths, without the OPTIONS that Litestar adds."""
    return [
        (route.path, handler)
        for route in api.routes
        for handler in getattr(route, "route_handlers", ())
        if handler.http_methods != {"OPTIONS"}
    ]
