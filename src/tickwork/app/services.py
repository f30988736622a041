"""The services that an app is bound to."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from tickwork.core.delivery.headers import check_headers
from tickwork.core.fields import NAME_LENGTH_MAX, shown, text_faults
from tickwork.core.http.call import TIMEOUT_SECONDS, timeout_faults
from tickwork.errors import FieldError, InvalidInput

AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
"""An ASGI application, as Starlette, FastAPI and Litestar make."""


class ServiceDeclaration(Struct, frozen=True, kw_only=True):
    """A service by its name. `target` is an ASGI application, a URL, or None: then the topology
    file has its URL. Each call has the `headers`."""

    name: str
    target: AsgiApp | str | None
    headers: Mapping[str, str]
    timeout_seconds: float


def declared_service(
    known: Mapping[str, ServiceDeclaration],
    name: str,
    target: Any,
    *,
    headers: Mapping[str, str] | None,
    timeout_seconds: float | None,
) -> ServiceDeclaration:
    """A service, or the one that is declared with this name. Raises `InvalidInput`."""
    faults = text_faults("name", name, NAME_LENGTH_MAX)
    if target is not None and not isinstance(target, str) and not callable(target):
        fault = f"must be an ASGI application or a URL, not {shown(target)}"
        faults.append(FieldError("target", fault))
    faults += timeout_faults(TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds)
    if faults:
        raise InvalidInput(faults)
    check_headers(headers or {})
    first = known.get(name)
    if first is not None and target is None and headers is None and timeout_seconds is None:
        return first
    declared = ServiceDeclaration(
        name=name,
        target=target,
        headers={header.lower(): value for header, value in (headers or {}).items()},
        timeout_seconds=TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds,
    )
    if first is not None and first != declared:
        fault = f"{shown(name)} is bound already, to something else; bind it once and reuse it"
        raise InvalidInput([FieldError("name", fault)])
    return declared
