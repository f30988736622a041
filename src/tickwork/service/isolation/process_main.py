"""The main module of a handler process: `python -m tickwork.service.isolation.process_main FD`.

It handles one message or HTTP request at a time, as its worker asks over the inherited socket. When
the worker exits, the socket is closed, and this process exits too, whatever it is doing.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple

from msgspec import structs

from tickwork.app.declarations import HandlerDeclaration, Registry
from tickwork.app.firing import Firing, firing_handler
from tickwork.app.invocation import NOTHING_MADE, Handling, correlate, enter
from tickwork.app.message import ClaimedMessage, Composer, Message
from tickwork.app.payloads import Payload, PayloadInvalid, declared_payload
from tickwork.clock import monotonic
from tickwork.core.http.message import HttpRequest, HttpResponse
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.ops.send import RegistryComposer
from tickwork.service.http_answer import answer_of, answer_of_error
from tickwork.service.isolation.function_location import FunctionLocation, import_function
from tickwork.service.isolation.process_guards import (
    HandlerGuards,
    OriginalProcess,
    ResourceLimits,
)
from tickwork.service.isolation.protocol import (
    BEGUN_LENGTH,
    HEAD,
    AnswerRequest,
    BufferedRows,
    HandleMessage,
    Load,
    LoadHandler,
    LoadHttpHandler,
    LoadResult,
    MessageHandled,
    Request,
    RequestAnswered,
    SetUp,
    decode_frame,
    encode_frame,
    encode_outcome,
    statements_of,
)
from tickwork.service.observe.log_set_up import LogSetUp
from tickwork.service.process_lifecycle import forbid_apps
from tickwork.service.worker.invoke import (
    InvocationResult,
    decode_payload,
    result_of,
    run_coroutine,
    run_function,
)

EXIT_SECONDS = 2.0
"""Seconds an idle process may take to exit by itself when the worker is gone."""

_PR_SET_PDEATHSIG = 1
_EXIT_WORKER_GONE = 1


class LoadedHandler(NamedTuple):
    """An imported handler, and the composer of the messages it sends."""

    handler: HandlerDeclaration
    compose: Composer


class LoadedHttpHandler(NamedTuple):
    """An imported handler of HTTP requests, and the composer of the messages it sends."""

    function: Callable[..., Any]
    compose: Composer


class HandlerServer:
    """Answers the requests of the worker."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._origin = OriginalProcess()
        self._requests: SimpleQueue[tuple[Request, int] | None] = SimpleQueue()
        self._known: dict[LoadHandler, LoadedHandler] = {}
        self._answering: dict[LoadHttpHandler, LoadedHttpHandler] = {}
        self._runner = asyncio.Runner()
        self._is_busy = False
        self._logging: LogSetUp | None = None

    def serve(self) -> None:
        """Answers requests until the worker closes the socket."""
        threading.Thread(target=self._read_all, name="tickwork-requests", daemon=True).start()
        with self._runner:
            while (asked := self._requests.get()) is not None:
                self._is_busy = True
                with self._origin:
                    answer = self._answer(*asked)
                self._is_busy = False
                if answer is not None:
                    self._connection.sendall(answer)

    def _answer(self, request: Request, number: int) -> bytes | None:
        match request:
            case SetUp(module_path, logging):
                sys.path[:], self._logging = module_path, logging
                return None
            case LoadHandler() | LoadHttpHandler():
                return encode_frame(LoadResult(self._load(request)), number)
            case HandleMessage():
                return self._handle(request, number)
            case AnswerRequest():
                return self._answer_request(request, number)

    # Reading, in its own thread: the worker may exit while a handler runs

    def _read_all(self) -> None:
        while (head := self._read(HEAD.size)) is not None:
            length, number = HEAD.unpack(head)
            body = self._read(length)
            if body is None:
                break
            self._requests.put((decode_frame(body, Request), number))  # type: ignore[arg-type]
        self._requests.put(None)
        if not self._is_busy:
            threading.Event().wait(EXIT_SECONDS)
        os._exit(_EXIT_WORKER_GONE)

    def _read(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self._connection.recv(count - len(parts))
            except OSError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)

    # Handling

    def _load(self, load: Load) -> str | None:
        """Imports a handler; returns the error if it fails."""
        found: list[Callable[..., Any]] = []

        def find(location: FunctionLocation) -> None:
            with self._origin:
                found.append(import_function(location))

        failure = run_function(find, load.location)
        if failure is not None:
            return str(encode_outcome(failure)[0])
        if self._logging is not None:
            # After the import, as in the worker: an app that configures logging keeps its own.
            self._logging.apply()
            self._logging = None
        if isinstance(load, LoadHttpHandler):
            registry = _http_registry(found[0])
            self._answering[load] = LoadedHttpHandler(found[0], RegistryComposer(registry))
        else:
            registry, handler = _declared(found[0], load)
            self._known[load] = LoadedHandler(handler, RegistryComposer(registry))
        registry.created.update(registry.queues)  # The worker has created them.
        return None

    def _handle(self, work: HandleMessage, number: int) -> bytes:
        limits = ResourceLimits(cpu_seconds=work.cpu_seconds, memory_bytes=work.memory_bytes)
        deadline = monotonic() + work.seconds_left
        self._connection.sendall(HEAD.pack(BEGUN_LENGTH, number))
        try:
            invoked = self._invoke(work, limits, deadline)
            return encode_frame(_ended(invoked, is_worn_out=limits.is_memory_exceeded), number)
        except (PayloadInvalid, ValueError) as error:  # Or the result cannot be encoded.
            failed = Failed(str(error))
            return encode_frame(
                MessageHandled(
                    outcome=Failed.__name__, values=encode_outcome(failed), is_failed=True
                ),
                number,
            )

    def _invoke(
        self, work: HandleMessage, limits: ResourceLimits, deadline: float
    ) -> InvocationResult:
        handler, compose = self._known[work.load]
        message = ClaimedMessage(
            work.message,
            decode_payload(handler, work.message),
            compose=compose,
            monotonic=monotonic,
            deadline=deadline,
            make_rows=BufferedRows,
        )
        handling = Handling(message, has_store=False)
        guards = HandlerGuards(limits, self._origin)
        # A copy per message: what a handler sets there ends with it.
        context, function = copy_context(), handler.function
        if inspect.iscoroutinefunction(function):
            running = _run_coroutine(function, handling, message, guards)
            failure = self._runner.run(running, context=context)
        else:
            failure = context.run(_run_function, function, handling, message, guards)
        return result_of(message, handling.end(), failure)

    # Answering HTTP requests

    def _answer_request(self, work: AnswerRequest, number: int) -> bytes:
        limits = ResourceLimits(cpu_seconds=work.cpu_seconds, memory_bytes=work.memory_bytes)
        handler, request = self._answering[work.load], work.request
        handling = Handling(handler, has_store=False, is_repeated=False)
        guards, context = HandlerGuards(limits, self._origin), copy_context()
        self._connection.sendall(HEAD.pack(BEGUN_LENGTH, number))
        context.run(correlate, request.correlation_id)
        context.run(enter, handling)
        try:
            if inspect.iscoroutinefunction(handler.function):
                running = _await_answer(handler.function, handling, request, guards)
                answer = self._runner.run(running, context=context)
            else:
                answer = context.run(_call_for_answer, handler.function, request, guards)
            made = handling.end()
        except BaseException as error:  # Including sys.exit(), which is no reason to end.
            handling.end()
            answer, made = answer_of_error(error, request.method, request.path), NOTHING_MADE
        answered = RequestAnswered(
            answer=answer,
            sends=made.sends,
            batches=made.batches,
            is_worn_out=limits.is_memory_exceeded,
        )
        try:
            return encode_frame(answered, number)
        except ValueError as error:
            failed = answer_of_error(error, request.method, request.path)
            return encode_frame(RequestAnswered(answer=failed), number)


async def _await_answer(
    function: Callable[[Any], Any], handling: Handling, request: HttpRequest, guards: HandlerGuards
) -> HttpResponse:
    handling.loop = asyncio.get_running_loop()
    try:
        with guards.limits, guards.origin:
            answer = answer_of(await function(request))
            await handling.finish()
    finally:
        await handling.abandon()
    return answer


def _call_for_answer(
    function: Callable[[Any], Any], request: HttpRequest, guards: HandlerGuards
) -> HttpResponse:
    with guards.limits, guards.origin:
        return answer_of(function(request))


async def _run_coroutine(
    function: Callable[[Any], Any],
    handling: Handling,
    message: ClaimedMessage[Any],
    guards: HandlerGuards,
) -> Outcome | None:
    enter(handling)

    async def limited(given: Message[Any]) -> Any:
        with guards.limits, guards.origin:
            returned = await function(given)
            await handling.finish()
        return returned

    return await run_coroutine(limited, handling, message)


def _run_function(
    function: Callable[[Any], Any],
    handling: Handling,
    message: ClaimedMessage[Any],
    guards: HandlerGuards,
) -> Outcome | None:
    enter(handling)

    def limited(given: Message[Any]) -> Any:
        with guards.limits, guards.origin:
            return function(given)

    return run_function(limited, message)


def _ended(invoked: InvocationResult, *, is_worn_out: bool) -> MessageHandled:
    (handled,) = invoked.outcomes
    return MessageHandled(
        outcome=type(handled.outcome).__name__,
        values=encode_outcome(handled.outcome),
        sends=handled.made.sends,
        batches=handled.made.batches,
        statements=statements_of(handled.message.rows),
        is_failed=invoked.is_failed,
        is_worn_out=is_worn_out,
    )


def _declared(
    function: Callable[..., Any], load: LoadHandler
) -> tuple[Registry, HandlerDeclaration]:
    """The registry that importing the handler created, if any, and the handler's declaration."""
    for registry in Registry.known():
        for handler in registry.handlers:
            if handler.declared_function is function and (handler.queue, handler.type) == (
                load.queue,
                load.type,
            ):
                return registry, structs.replace(handler, payload=registry.payload_of(handler))
    payload: Payload[Any] = Payload(
        declared_payload(function, Firing if load.is_firing else Message)
    )
    if load.is_firing:
        function = firing_handler(function, load.type or "")
    handler = HandlerDeclaration(
        queue=load.queue,
        type=load.type,
        function=function,
        payload=payload,
        is_batch=False,
        is_firing=load.is_firing,
    )
    return Registry(), handler


def _http_registry(function: Callable[..., Any]) -> Registry:
    """The registry that importing an HTTP handler created, if any."""
    for registry in Registry.known():
        if any(handler.function is function for handler in registry.http_handlers):
            return registry
    return Registry()


def _die_with_worker() -> None:
    """Lets the system kill this process with its worker, where possible. The reading thread notices
    too, but native code that holds the interpreter's lock can keep it from running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave_signals_to_worker() -> None:
    """Leaves SIGTERM and SIGINT, sent to all processes of a service, to the worker, which drains.

    They get an empty handler instead of being ignored: a program that a handler starts would
    inherit an ignored signal.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGPROF, signal.SIGXCPU):
        signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Runs the process."""
    _die_with_worker()
    _leave_signals_to_worker()
    forbid_apps()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        HandlerServer(connection).serve()


if __name__ == "__main__":
    main()
