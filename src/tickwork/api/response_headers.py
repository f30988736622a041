"""Headers of every response: the id of its request, no guessing of content types, and no copies of
what was answered to somebody with a key or a session."""

from __future__ import annotations

from functools import lru_cache

from litestar import Litestar
from litestar.datastructures import MutableScopeHeaders
from litestar.routes import HTTPRoute
from litestar.types import Message, Scope

from tickwork.api.request_id import HEADER, request_id_of

_CREDENTIALS = frozenset({b"authorization", b"cookie"})


async def add_headers(message: Message, scope: Scope) -> None:
    """Adds them to a response. A route may say for itself how long its answer is kept."""
    if message["type"] != "http.response.start":
        return
    headers = MutableScopeHeaders.from_message(message)
    headers[HEADER] = request_id_of(scope)
    headers["X-Content-Type-Options"] = "nosniff"
    if "Cache-Control" not in headers and any(name in _CREDENTIALS for name, _ in scope["headers"]):
        headers["Cache-Control"] = "no-store"
    if scope.get("method") == "OPTIONS" and "Allow" in headers:
        # Litestar lists the methods of the first route of a path only.
        headers["Allow"] = methods_of(scope["litestar_app"])[scope["path_template"]]


@lru_cache(maxsize=100)
def methods_of(api: Litestar) -> dict[str, str]:
    """The methods of each path, as the header `Allow` lists them."""
    return {
        route.path_format: ", ".join(sorted(route.methods))
        for route in api.routes
        if isinstance(route, HTTPRoute)
    }
