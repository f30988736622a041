"""The HTTP handlers of an app as an ASGI application.

```
  request ──▶ route (404, 405) ──▶ key (401, 403) ──▶ body (413) ──▶ handler (504) ──▶ answer
```

An error is a problem (RFC 9457), as in the API. A handler that needs a key is called with a key of
the app's own tenant only, because it acts for that tenant. The application knows no server: the
role `http` serves it on a port, and service bindings and the test harness call it without one.

A handler runs as a task, in a thread of its own, or in a process. When its time is over, a task is
cancelled, a thread is stopped before its next bytecode, and a process is killed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from tickwork.app.http import HttpHandlerDeclaration
from tickwork.app.invocation import Made, correlate
from tickwork.app.isolation import Isolation
from tickwork.clock import monotonic
from tickwork.core.access import check_access
from tickwork.core.fields import TEXT_LENGTH_MAX, text_faults
from tickwork.core.http.message import (
    CORRELATION_HEADER,
    REQUEST_BYTES_MAX,
    HttpRequest,
    HttpResponse,
)
from tickwork.core.model import Scope
from tickwork.core.problem import problem
from tickwork.errors import Forbidden, InvalidInput
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.context import Context
from tickwork.ops.send import store_made
from tickwork.ops.stores import Store
from tickwork.service.http_answer import answer_of, answer_of_error, refused, timed_out
from tickwork.service.isolation import PROCESSES_PER_CORE
from tickwork.service.isolation.process_pool import NotHandled, ProcessPool
from tickwork.service.isolation.stoppable import run_stoppable
from tickwork.store.ids import new_id

IN_FLIGHT_MAX = 1_000
"""Maximum number of requests that are handled at a time; further ones get a 503."""

_QUERY_FIELDS_MAX = 1_000
_OVERLOADED = "overloaded"

Event = MutableMapping[str, Any]


class Processes:
    """The processes of an event loop. They are stopped when nobody uses them any more."""

    def __init__(self) -> None:
        self.pool, self.users = ProcessPool(), 0
        self.permits = asyncio.Semaphore(PROCESSES_PER_CORE * (os.cpu_count() or 1))


class HttpApplication:
    """Answers requests with the handlers of an app."""

    def __init__(
        self,
        handlers: list[HttpHandlerDeclaration],
        open_store: Callable[[], Awaitable[Store]],
        tenant: str,
    ) -> None:
        self._handlers = handlers
        self._open_store = open_store
        self._tenant = tenant
        self._authenticator: tuple[Store, Authenticator] | None = None
        self._in_flight = 0
        self._processes: dict[asyncio.AbstractEventLoop, Processes] = {}

    async def __call__(
        self,
        scope: Event,
        receive: Callable[[], Awaitable[Event]],
        send: Callable[[Event], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        correlation_id = _correlation(scope)
        correlate(correlation_id)
        if self._in_flight >= IN_FLIGHT_MAX:
            fault = "Too many requests are being handled; try again soon."
            busy = problem(503, code=_OVERLOADED, detail=fault)
            answer = refused(busy, {"retry-after": "1"})
        else:
            self._in_flight += 1
            try:
                answer = await self._answer(scope, receive, correlation_id)
            finally:
                self._in_flight -= 1
        await _respond(send, answer, correlation_id, has_body=scope["method"] != "HEAD")

    async def close(self) -> None:
        """Finishes what was begun in the background."""
        if self._authenticator is not None:
            await self._authenticator[1].close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keeps the processes of handlers while the context is open. Raises `InvalidInput` for a
        handler that no process can import."""
        async with self._using_processes() as processes:
            await processes.pool.start(
                [handler for handler in self._handlers if handler.isolation is Isolation.PROCESS]
            )
            yield

    @asynccontextmanager
    async def _using_processes(self) -> AsyncIterator[Processes]:
        loop = asyncio.get_running_loop()
        processes = self._processes.setdefault(loop, Processes())
        processes.users += 1
        try:
            yield processes
        finally:
            processes.users -= 1
            if not processes.users:
                del self._processes[loop]
                await processes.pool.stop()

    async def _live(
        self,
        receive: Callable[[], Awaitable[Event]],
        send: Callable[[Event], Awaitable[None]],
    ) -> None:
        await receive()
        try:
            async with self.opened():
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except InvalidInput as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await self.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(
        self, scope: Event, receive: Callable[[], Awaitable[Event]], correlation_id: str
    ) -> HttpResponse:
        method, path = str(scope["method"]), str(scope["path"])
        try:
            found = self._find(method, path)
            if isinstance(found, HttpResponse):
                return found
            handler, params = found
            headers = _headers(scope)
            key_id = await self._admit(handler, headers)
            body = await _body(receive, headers)
            if body is None:
                return refused(problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
            request = HttpRequest(
                method=method,
                path=path,
                params=params,
                query=_query(scope),
                headers=headers,
                body=body,
                correlation_id=correlation_id,
                key_id=key_id,
            )
            return await self._run(handler, request)
        except Exception as error:
            return answer_of_error(error, method, path)

    def _find(
        self, method: str, path: str
    ) -> tuple[HttpHandlerDeclaration, Mapping[str, str]] | HttpResponse:
        parts, allowed = path.split("/")[1:], set[str]()
        for handler in sorted(self._handlers, key=lambda declaration: declaration.route.rank):
            params = handler.route.match(parts)
            if params is None:
                continue
            if handler.route.method == method:
                return handler, params
            allowed.add(handler.route.method)
        if allowed:
            refusal = problem(HTTPStatus.METHOD_NOT_ALLOWED)
            return refused(refusal, {"allow": ", ".join(sorted(allowed))})
        return refused(problem(HTTPStatus.NOT_FOUND, detail=f"There is no handler for {path}."))

    async def _admit(
        self, handler: HttpHandlerDeclaration, headers: Mapping[str, str]
    ) -> str | None:
        """Raises `Unauthorized` or `Forbidden`; returns the key of the caller."""
        if handler.permission is None:
            return None
        store = await self._open_store()
        if self._authenticator is None or self._authenticator[0] is not store:
            self._authenticator = store, Authenticator(store, monotonic)
        caller = await self._authenticator[1].caller(headers.get("authorization"), None)
        check_access(caller, handler.permission)
        if caller.tenant != self._tenant and not caller.is_operator:
            fault = "this service belongs to another tenant; use a key of that tenant"
            raise Forbidden("other_tenant", fault)
        return caller.key_id

    async def _run(self, handler: HttpHandlerDeclaration, request: HttpRequest) -> HttpResponse:
        try:
            async with asyncio.timeout(handler.timeout_seconds):
                if handler.isolation is Isolation.PROCESS:
                    return await self._run_in_process(handler, request)
                if handler.isolation is Isolation.THREAD:
                    return answer_of(await run_stoppable(handler.function, request))
                return answer_of(await handler.function(request))
        except TimeoutError:
            fault = f"The handler did not finish within {handler.timeout_seconds:g} seconds."
            return timed_out(fault)

    async def _run_in_process(
        self, handler: HttpHandlerDeclaration, request: HttpRequest
    ) -> HttpResponse:
        async with self._using_processes() as processes, processes.permits:
            try:
                answered = await processes.pool.answer(handler, request)
            except NotHandled as error:
                if not error.is_over_budget:
                    raise
                return timed_out(f"The handler {error}.")
        made = Made(answered.sends, answered.batches)
        if made:
            scope = Scope(self._tenant)
            await store_made(Context(await self._open_store(), scope), made, request.correlation_id)
        return answered.answer


def _correlation(scope: Event) -> str:
    """The correlation id that the caller gives, or a new one."""
    for name, value in scope["headers"]:
        text = bytes(value).decode("latin-1")
        if bytes(name).lower() == CORRELATION_HEADER.encode() and not text_faults(
            "correlation_id", text, TEXT_LENGTH_MAX
        ):
            return text
    return str(new_id())


def _headers(scope: Event) -> dict[str, str]:
    """The headers by name; values of a name that is given several times are joined."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        known, text = bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")
        found[known] = f"{found[known]}, {text}" if known in found else text
    return found


def _query(scope: Event) -> dict[str, str]:
    text = bytes(scope.get("query_string", b"")).decode("latin-1")
    return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_QUERY_FIELDS_MAX))


async def _body(
    receive: Callable[[], Awaitable[Event]], headers: Mapping[str, str]
) -> bytes | None:
    """The body; None if it is too large."""
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > REQUEST_BYTES_MAX:
        return None
    body = bytearray()
    while True:
        event = await receive()
        body += event.get("body", b"")
        if len(body) > REQUEST_BYTES_MAX:
            return None
        if event["type"] == "http.disconnect" or not event.get("more_body"):
            return bytes(body)


async def _respond(
    send: Callable[[Event], Awaitable[None]],
    answer: HttpResponse,
    correlation_id: str,
    *,
    has_body: bool,
) -> None:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    headers[CORRELATION_HEADER] = correlation_id
    headers["content-length"] = str(len(answer.body))
    if answer.status == HTTPStatus.NO_CONTENT:
        del headers["content-length"]
    encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body if has_body else b""})
