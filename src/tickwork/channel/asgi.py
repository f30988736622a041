"""Calls an ASGI application in this process, without a socket.

Contract: as over HTTP. The application gets the same request, its error is a 500, and it has no
part in the handler that calls it: what it sends is stored when it sends it, and is not kept back
for the ack of the caller's message. Each call is a task of its own, cancelled at its timeout. The
application is started before its first call, with a time limit of its own, and stopped at the end,
if it has a lifespan.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any
from urllib.parse import unquote

from tickwork.core.http.call import ServiceCall
from tickwork.core.http.message import ANSWER_BYTES_MAX, HttpResponse
from tickwork.core.problem import MEDIA_TYPE, problem
from tickwork.errors import ServiceUnavailable

LIFESPAN_SECONDS = 30.0
"""Seconds that an application may take to start, and to stop."""

_log = logging.getLogger("tickwork")

Event = MutableMapping[str, Any]


class AsgiService:
    """An ASGI application as a service. `step_out` runs in the context of each call, before it."""

    def __init__(
        self,
        name: str,
        application: Callable[[Any, Any, Any], Awaitable[None]],
        step_out: Callable[[], object],
    ) -> None:
        self._name = name
        self._application = application
        self._step_out = step_out
        self._lifespan = _Lifespan(name, application)

    async def close(self) -> None:
        """Stops the application."""
        await self._lifespan.stop()

    async def call(self, call: ServiceCall) -> HttpResponse:
        """Calls the application and returns its answer. Its start takes no time of the call."""
        await self._lifespan.start()
        exchange, context = _Exchange(self._name, call, self._lifespan.state), copy_context()
        context.run(self._step_out)
        running = asyncio.get_running_loop().create_task(self._run(exchange), context=context)
        try:
            async with asyncio.timeout(call.timeout_seconds):
                return await running
        except TimeoutError:
            fault = f"did not answer within {call.timeout_seconds:g} seconds"
            raise ServiceUnavailable(self._name, fault) from None

    async def _run(self, exchange: _Exchange) -> HttpResponse:
        try:
            await self._application(exchange.scope(), exchange.receive, exchange.send)
        except ServiceUnavailable:
            raise
        except Exception:
            _log.exception("service %s failed: %s", self._name, exchange.shown)
            if exchange.status is None:
                exchange.fail()
        return exchange.answer()


class _Lifespan:
    """Starts and stops an application, as the ASGI lifespan protocol says. An application that
    raises or returns instead has no lifespan."""

    def __init__(self, name: str, application: Callable[[Any, Any, Any], Awaitable[None]]) -> None:
        self._name, self._application = name, application
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._answers: asyncio.Queue[Event] = asyncio.Queue()

    async def start(self) -> None:
        """Starts the application once. Raises `ServiceUnavailable` if that fails; the next call
        starts it again."""
        if self._starting is None:
            # A context of its own: the application outlives the handler that first calls it.
            self._starting = asyncio.get_running_loop().create_task(
                self._start(), context=Context()
            )
        if not self._starting.done():
            await asyncio.shield(self._starting)  # Other calls wait for it, too.

    async def stop(self) -> None:
        """Stops the application, if it was started."""
        starting, self._starting = self._starting, None
        task, self._task = self._task, None
        if starting is not None and not starting.done():
            await _end(starting)
        elif task is not None and not task.done():
            await self._say("lifespan.shutdown", task)
        if task is not None:
            await _end(task)

    async def _start(self) -> None:
        self._events = asyncio.Queue()
        self._answers = asyncio.Queue()
        self.state = {}
        task = self._task = asyncio.create_task(self._run())
        answer = await self._say("lifespan.startup", task)
        if answer is not None and answer["type"] == "lifespan.startup.failed":
            fault = f"did not start: {answer.get('message') or 'it does not say why'}"
        elif answer is None and not task.done():
            fault = f"did not start within {LIFESPAN_SECONDS:g} seconds"
        else:
            return
        self._task = self._starting = None
        await _end(task)
        raise ServiceUnavailable(self._name, fault)

    async def _say(self, event: str, task: asyncio.Task[None]) -> Event | None:
        """Sends the application an event; None if it does not answer."""
        await self._events.put({"type": event})
        answer = asyncio.ensure_future(self._answers.get())
        await asyncio.wait(
            {answer, task}, timeout=LIFESPAN_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if answer.done():
            return answer.result()
        answer.cancel()
        return None

    async def _run(self) -> None:
        asgi = {"version": "3.0", "spec_version": "2.0"}
        scope = {"type": "lifespan", "asgi": asgi, "state": self.state}
        try:
            await self._application(scope, self._events.get, self._answers.put)
        except Exception as error:
            _log.debug("service %s has no lifespan: %r", self._name, error)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class _Exchange:
    """One request and its answer. `state` is what the application has made when it started."""

    def __init__(self, name: str, call: ServiceCall, state: Mapping[str, Any]) -> None:
        self._name = name
        self._call = call
        self._state = state
        self._is_received = False
        self.status: int | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    @property
    def shown(self) -> str:
        """The request in a log line."""
        return f"{self._call.method} {self._call.target}"

    def scope(self) -> Event:
        """The request, without its body."""
        path, _, query = self._call.target.partition("?")
        headers = {"host": self._name, "content-length": str(len(self._call.body))}
        headers |= self._call.headers
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": self._call.method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [
                (name.encode(), value.encode("latin-1")) for name, value in headers.items()
            ],
            "client": None,
            "server": (self._name, None),
            "state": dict(self._state),
        }

    async def receive(self) -> Event:
        """The body, and then nothing until the call ends."""
        if self._is_received:
            await asyncio.get_running_loop().create_future()
        self._is_received = True
        return {"type": "http.request", "body": self._call.body, "more_body": False}

    async def send(self, event: Event) -> None:
        """Takes a part of the answer."""
        if event["type"] == "http.response.start":
            self.status = int(event["status"])
            self._headers = {
                bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
                for name, value in event.get("headers", ())
            }
        elif event["type"] == "http.response.body":
            self._body += event.get("body", b"")
            if len(self._body) > ANSWER_BYTES_MAX:
                fault = f"answered with more than {ANSWER_BYTES_MAX} bytes; ask for less"
                raise ServiceUnavailable(self._name, fault)

    def fail(self) -> None:
        """Answers for an application that raised an error."""
        self.status, self._headers = 500, {"content-type": MEDIA_TYPE}
        self._body[:] = problem(500).encoded()

    def answer(self) -> HttpResponse:
        """The answer. Raises `ServiceUnavailable` if there is none."""
        if self.status is None:
            raise ServiceUnavailable(self._name, "ended without an answer")
        return HttpResponse(
            status=self.status, headers=self._headers, body=bytes(self._body), service=self._name
        )
