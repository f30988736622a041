"""The workflows that an app declares."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

from msgspec import Struct

from tickwork.app.handlers import name_of
from tickwork.app.payloads import Payload
from tickwork.core.fields import choice_error, shown, text_faults
from tickwork.core.workflow.model import WORKFLOW_NAME_LENGTH_MAX
from tickwork.core.workflow.queue import VERSION_MARK
from tickwork.errors import FieldError, InvalidInput

VERSION_LENGTH_MAX = 120

ON_DIVERGENCE = ("stop", "accept")
"""What a run does whose record does not agree with its code."""

FUNCTIONS_KNOWN_MAX = 1_000
"""Maximum number of functions of steps whose types are cached."""

_PLAIN = Payload[Any](Any)


class WorkflowDeclaration(Struct, frozen=True, kw_only=True):
    """A version of a workflow. `pin`: runs of versions that are not declared wait for their code,
    instead of running on this one. `accepts_divergence`: a run whose record does not agree with
    this code goes on with a warning, instead of waiting."""

    name: str
    version: str | None
    function: Callable[..., Any]
    params: Payload[Any]
    result: Payload[Any]
    takes_params: bool = True
    pin: bool = False
    accepts_divergence: bool = False
    max_concurrency: int | None = None


def declared_workflow(
    function: Callable[..., Any],
    *,
    name: str | None,
    version: str | None,
    pin: bool,
    on_divergence: str,
    max_concurrency: int | None,
) -> WorkflowDeclaration:
    """A workflow from its function `async def content(step, params)`. Raises `InvalidInput`."""
    if not inspect.iscoroutinefunction(function):
        fault = "must be a coroutine function: async def content(step, params)"
        raise InvalidInput([FieldError(name_of(function), fault)])
    parameters = [*inspect.signature(function).parameters.values()]
    if len(parameters) not in (1, 2):
        fault = f"is called with step and params; it takes {inspect.signature(function)}"
        raise InvalidInput([FieldError(name_of(function), fault)])
    known_as = name or function.__name__
    faults = text_faults("name", known_as, WORKFLOW_NAME_LENGTH_MAX)
    if VERSION_MARK in known_as:
        faults.append(FieldError("name", f"cannot contain {VERSION_MARK}; use version="))
    if (message := choice_error(on_divergence, ON_DIVERGENCE)) is not None:
        faults.append(FieldError("on_divergence", message))
    if version is not None:
        faults += _version_faults(version)
    if faults:
        raise InvalidInput(faults)
    hints = type_hints(function)
    params = hints.get(parameters[1].name, Any) if len(parameters) == 2 else Any
    return WorkflowDeclaration(
        name=known_as,
        version=version,
        function=function,
        params=payload_of(params),
        result=payload_of(hints.get("return", Any)),
        takes_params=len(parameters) == 2,
        pin=pin,
        accepts_divergence=on_divergence == "accept",
        max_concurrency=max_concurrency,
    )


def _version_faults(version: object) -> list[FieldError]:
    if isinstance(version, str):
        faults = text_faults("version", version, VERSION_LENGTH_MAX)
        if version.startswith(VERSION_MARK):
            faults.append(FieldError("version", f"cannot begin with {VERSION_MARK}"))
        return faults
    return [FieldError("version", f"must be a text such as '2', not {shown(version)}")]


def result_payload(function: Callable[..., Any]) -> Payload[Any]:
    """How the result of a step's function is stored: as the type that it declares."""
    declared = getattr(function, "__annotations__", None)
    if not declared or "return" not in declared:
        return _PLAIN
    return _declared_result(function)


@lru_cache(FUNCTIONS_KNOWN_MAX)
def _declared_result(function: Callable[..., Any]) -> Payload[Any]:
    return payload_of(type_hints(function).get("return", Any))


def item_payload(function: Callable[..., Any]) -> Payload[Any]:
    """How an item for a function is stored: as the type that its first parameter declares."""
    if not isinstance(function, FunctionType | MethodType):
        return _PLAIN  # An object that can be called, or a function of an extension.
    return _declared_item(function)


@lru_cache(FUNCTIONS_KNOWN_MAX)
def _declared_item(function: FunctionType | MethodType) -> Payload[Any]:
    first = next(iter(inspect.signature(function).parameters), None)
    return payload_of(type_hints(function).get(first, Any)) if first else _PLAIN


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; none if they cannot be evaluated."""
    try:
        return typing.get_type_hints(inspect.unwrap(function))
    except (AttributeError, NameError, SyntaxError, TypeError):
        return {}


def payload_of(declared: Any) -> Payload[Any]:
    """The payload of an annotation; plain JSON for one that is no payload type."""
    if declared in (Any, None, type(None), object):
        return _PLAIN
    try:
        return Payload[Any](declared)
    except InvalidInput:
        return _PLAIN
