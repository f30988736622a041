"""The HTTP handlers that an app declares."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tickwork.app.handlers import name_of, shape_fault
from tickwork.app.isolation import (
    CPU_SECONDS,
    MEMORY_BYTES,
    Isolation,
    handler_options,
    isolation_fault,
    limit_faults,
)
from tickwork.core.access import Permission
from tickwork.core.fields import shown
from tickwork.core.http.call import METHODS, timeout_faults
from tickwork.core.http.route import Route, path_faults
from tickwork.errors import FieldError, InvalidInput

HANDLER_SECONDS = 30.0
"""Seconds that an HTTP handler may take, unless it says otherwise."""


class HttpHandlerDeclaration(Struct, frozen=True, kw_only=True):
    """A function that answers requests. `permission` is the scope that a caller's key needs; None
    lets everybody in."""

    route: Route
    function: Callable[..., Any]
    permission: Permission | None
    timeout_seconds: float = HANDLER_SECONDS
    isolation: Isolation
    cpu_seconds: float = CPU_SECONDS
    memory_bytes: int = MEMORY_BYTES

    @property
    def declared_function(self) -> Callable[..., Any]:
        """The function in the app's module."""
        return self.function

    @property
    def name(self) -> str:
        """Module and qualified name of the function."""
        return name_of(self.function)


def declared_http_handler(
    function: Callable[..., Any],
    method: str,
    path: str,
    *,
    key: str | None,
    timeout_seconds: float,
    options: dict[str, Any],
) -> HttpHandlerDeclaration:
    """An HTTP handler. Raises `InvalidInput` with everything that is wrong with it."""
    faults = path_faults(path) + timeout_faults(timeout_seconds)
    if method not in METHODS:
        faults.append(FieldError("method", f"must be one of {', '.join(METHODS)}"))
    if key is not None and key not in [*Permission]:
        scopes = ", ".join(Permission)
        fault = f"must be the scope that a key needs ({scopes}), or None for an open handler"
        faults.append(FieldError("key", f"{fault}; not {shown(key)}"))
    chosen: dict[str, Any] = {}
    try:
        is_coroutine = inspect.iscoroutinefunction(function)
        chosen = handler_options(options, is_coroutine=is_coroutine, is_http=True)
        faults += limit_faults(chosen["cpu_seconds"], chosen["memory_bytes"])
    except InvalidInput as error:
        faults += error.errors
    wrong = shape_fault(function)
    if wrong is None and chosen:
        wrong = isolation_fault(function, chosen["isolation"])
    if wrong is not None:
        faults.append(FieldError(name_of(function), wrong))
    if faults:
        raise InvalidInput(faults)
    return HttpHandlerDeclaration(
        route=Route(method, path),
        function=function,
        permission=None if key is None else Permission(key),
        timeout_seconds=timeout_seconds,
        **chosen,
    )
