"""Calls a service: composes the request and passes it to what answers for the service.

What answers belongs to an event loop, because its connections do. It is closed with its loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from msgspec import structs

from tickwork import spans
from tickwork.app.invocation import correlation_now
from tickwork.app.services import ServiceDeclaration
from tickwork.core.http.call import ServiceTarget, service_call
from tickwork.core.http.message import TRACE_HEADER, HttpResponse
from tickwork.store.ids import new_id

OpenService = Callable[[ServiceDeclaration], ServiceTarget]


class ServiceCaller:
    """Calls the services of an app."""

    def __init__(self, open_service: OpenService) -> None:
        self._open_service = open_service
        self._by_loop: dict[
            asyncio.AbstractEventLoop, dict[str, AsyncGenerator[ServiceTarget]]
        ] = {}
        self._opened: dict[tuple[asyncio.AbstractEventLoop, str], ServiceTarget] = {}

    async def call(
        self,
        service: ServiceDeclaration,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        """Makes one call. It has the correlation of what is being handled, or a new one."""
        call_id = str(new_id())
        call = service_call(
            method,
            path,
            query=query,
            json=json,
            body=body,
            headers=headers or {},
            own_headers=service.headers,
            timeout_seconds=service.timeout_seconds if timeout_seconds is None else timeout_seconds,
            correlation_id=correlation_now() or call_id,
            call_id=call_id,
        )
        target = await self._target(service)
        about = {"service.peer.name": service.name, "http.request.method": method}
        with spans.span(f"{method} {service.name}", "client", about):
            if (trace := spans.traceparent()) is not None:
                call = structs.replace(call, headers={**call.headers, TRACE_HEADER: trace})
            return await target.call(call)

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        for target in self._by_loop.pop(asyncio.get_running_loop(), {}).values():
            await target.aclose()

    async def _target(self, service: ServiceDeclaration) -> ServiceTarget:
        loop = asyncio.get_running_loop()
        known = self._opened.get((loop, service.name))
        if known is not None:
            return known
        # In a thread: the HTTP client takes half a second to import.
        opened = await asyncio.to_thread(self._open_service, service)
        known = self._opened.get((loop, service.name))
        if known is not None:  # Another call has opened it meanwhile.
            await opened.close()
            return known
        lifetime = self._keep_open(loop, service.name, opened)
        self._by_loop.setdefault(loop, {})[service.name] = lifetime
        return await anext(lifetime)

    async def _keep_open(
        self, loop: asyncio.AbstractEventLoop, name: str, target: ServiceTarget
    ) -> AsyncGenerator[ServiceTarget]:
        # An async generator, because an ending event loop closes its async generators.
        self._opened[loop, name] = target
        try:
            yield target
        finally:
            del self._opened[loop, name]
            await target.close()
