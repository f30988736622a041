"""A service of an app: call it, in this process or over HTTP, with the same code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tickwork.app.services import ServiceDeclaration
from tickwork.core.http.call import TIMEOUT_SECONDS
from tickwork.core.http.message import HttpResponse

if TYPE_CHECKING:
    from tickwork.engine.app_engine import AppEngine
    from tickwork.ops.services import ServiceCaller


CLIENT_NAME = "tickwork.http"


class CallOptions(TypedDict, total=False):
    """Options of a call."""

    query: Mapping[str, object] | None
    headers: Mapping[str, str] | None
    timeout_seconds: float | None


def client_of(engine: AppEngine) -> Service:
    """Calls the HTTP handlers of an app in this process."""
    declared = ServiceDeclaration(
        name=CLIENT_NAME,
        target=engine.http_application,
        headers={},
        timeout_seconds=TIMEOUT_SECONDS,
    )
    return Service(engine.service_caller, declared)


class Service:
    """A service of the app, by its name.

    Every call returns an `HttpResponse`, whatever its status: `answer.check()` raises if it is an
    error. `ServiceUnavailable` is raised if the service does not answer. Calls carry the
    correlation id of what is being handled, and a `traceparent`.
    """

    def __init__(self, caller: ServiceCaller, declared: ServiceDeclaration) -> None:
        self._caller, self._declared = caller, declared

    @property
    def name(self) -> str:
        """The name of the service."""
        return self._declared.name

    async def get(self, path: str, **options: Unpack[CallOptions]) -> HttpResponse:
        """Calls the service with GET. Options: `query`, `headers`, `timeout_seconds`."""
        return await self.call("GET", path, **options)

    async def post(
        self, path: str, json: Any = None, **options: Unpack[CallOptions]
    ) -> HttpResponse:
        """Calls the service with POST and a JSON body."""
        return await self.call("POST", path, json=json, **options)

    async def put(
        self, path: str, json: Any = None, **options: Unpack[CallOptions]
    ) -> HttpResponse:
        """Calls the service with PUT and a JSON body."""
        return await self.call("PUT", path, json=json, **options)

    async def patch(
        self, path: str, json: Any = None, **options: Unpack[CallOptions]
    ) -> HttpResponse:
        """Calls the service with PATCH and a JSON body."""
        return await self.call("PATCH", path, json=json, **options)

    async def delete(self, path: str, **options: Unpack[CallOptions]) -> HttpResponse:
        """Calls the service with DELETE."""
        return await self.call("DELETE", path, **options)

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        body: bytes | None = None,
        **options: Unpack[CallOptions],
    ) -> HttpResponse:
        """Calls the service.

        Args:
            method: Such as `POST`.
            path: Such as `/v1/search`; characters that a path cannot have are written as `%XX`.
            json: The body, as values.
            body: The body, as bytes; give its `content-type` as a header.
            options: `query` (names and values), `headers`, and `timeout_seconds`, which are by
                default those of the service.
        """
        return await self._caller.call(
            self._declared, method, path, json=json, body=body, **options
        )
