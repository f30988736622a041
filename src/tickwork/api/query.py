"""Query parameters: unknown ones are refused, so that a misspelt filter is not ignored. Parameters
of the path may have slashes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote

from litestar import Request
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter
from litestar.types import ASGIApp, Receive, Scope, Send

from tickwork.core.fields import Reader, unknown_faults
from tickwork.errors import InvalidInput, UnknownField

SLASH = "\0"
"""Stands for a slash within a parameter of the path. No name has this character."""

PARAMETERS_MAX = 100
"""Maximum number of parameters in a query; no route has as many."""

HAS_SLASHES = "tickwork_slashes"
HAS_NUL = "tickwork_nul"


def keep_slashes(app: ASGIApp) -> ASGIApp:
    """Lets a parameter of the path have slashes: `%2F` separates no segments."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        # Some servers leave the query in it.
        raw, _, _ = (scope.get("raw_path") or b"").partition(b"?")
        if SLASH in scope.get("path", ""):
            scope[HAS_NUL] = True  # type: ignore[literal-required]
        if b"%2F" in raw.upper():
            segments = [unquote(part.decode("latin-1")) for part in raw.split(b"/")]
            scope["path"] = "/".join(segment.replace("/", SLASH) for segment in segments)
            scope[HAS_SLASHES] = True  # type: ignore[literal-required]
        await app(scope, receive, send)

    return handle


async def refuse_unknown_parameters(request: Request[Any, Any, Any]) -> None:
    """Raises `InvalidInput` for parameters in the query that the route does not have. Gives those
    in the path the slashes that `keep_slashes` took."""
    scope: dict[str, Any] = cast(dict[str, Any], request.scope)
    if scope.get(HAS_SLASHES):
        scope["path_params"] = {
            name: value.replace(SLASH, "/") if isinstance(value, str) else value
            for name, value in scope["path_params"].items()
        }
    query = scope["query_string"]
    if not query:
        return
    if query.count(b"&") >= PARAMETERS_MAX:
        # Before they are read: Litestar keeps those of the last thousand requests.
        raise InvalidInput([UnknownField("query", f"has more than {PARAMETERS_MAX} parameters")])
    given = request.query_params.keys()
    known = _known(request.route_handler)
    if not given <= known:
        raise InvalidInput(unknown_faults(given, known))


@lru_cache(maxsize=1_000)
def _known(handler: BaseRouteHandler) -> frozenset[str]:
    names: set[str] = set()
    for name, field in handler.parsed_fn_signature.parameters.items():
        definition = field.kwarg_definition
        if isinstance(definition, QueryParameter):
            names.add(definition.name or name)
    return frozenset(names)


def body_reader(data: dict[str, Any], *known: str) -> Reader:
    """A reader of a body; fields that are not known are refused when it is `finished`."""
    reader = Reader(data, [])
    reader.refuse_unknown(frozenset(known))
    return reader


def flag(reader: Reader, data: dict[str, Any], name: str) -> bool:
    """Whether a field of a body is true. It may be left out, and not be null."""
    return name in data and reader.boolean(name) is True


def finished(reader: Reader) -> None:
    """Raises `InvalidInput` if the reader has found faults."""
    if reader.faults:
        raise InvalidInput(reader.faults)
