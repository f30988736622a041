"""Query parameters: unknown ones are refused, so that a misspelt filter is not ignored."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from litestar import Request
from litestar.handlers import BaseRouteHandler
from litestar.params import QueryParameter

from tickwork.core.fields import Reader, unknown_faults
from tickwork.errors import FieldError, InvalidInput


def refuse_unknown_parameters(request: Request[Any, Any, Any]) -> None:
    """Raises `InvalidInput` for parameters in the query that the route does not have."""
    given = request.query_params.keys()
    if not given:
        return
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


def finished(reader: Reader) -> None:
    """Raises `InvalidInput` if the reader has found faults."""
    if reader.faults:
        raise InvalidInput(reader.faults)


def not_both(one: str, other: str) -> InvalidInput:
    """The error of two parameters that exclude each other."""
    return InvalidInput([FieldError(one, f"cannot be combined with {other}")])
