"""A handler's process, from within: `python -m tickwork.service.isolation.process_main DESCRIPTOR`.

It handles one message at a time, as its worker says, over the socket that it was given. When the
worker is gone the socket ends, and then it ends too, whatever it is doing.

What a handler's process may use up for one message, held by the system itself.

Processor time: a timer of the system counts it, of all threads, and its signal ends the process
whatever the code is doing; should the code have taken that signal for itself, a limit some seconds
further on ends it all the same. Memory, where the system counts it (Linux does): there is no more,
and Python raises MemoryError.

This very process, and no copy that a handler forked.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import math
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple

from msgspec import structs

from tickwork.app.declarations import HandlerDeclaration, Registry
from tickwork.app.handling import Handling, enter
from tickwork.app.message import ClaimedMessage, Composer, Message
from tickwork.app.payloads import Payload, PayloadInvalid, declared_payload
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed, Outcome
from tickwork.ops.send import RegistryComposer
from tickwork.service.isolation.function_location import FunctionLocation, import_function
from tickwork.service.isolation.protocol import (
    HEAD,
    BufferedRows,
    HandleMessage,
    LoadHandler,
    LoadResult,
    MessageHandled,
    Request,
    SetModulePath,
    decode_frame,
    encode_frame,
    encode_outcome,
    statements_of,
)
from tickwork.service.process_lifecycle import forbid_apps
from tickwork.service.worker.invoke import (
    InvocationResult,
    decode_payload,
    result_of,
    run_coroutine,
    run_function,
)

CPU_SPARE_SECONDS = 2
"""So much later the second limit of processor time comes."""

_MEBIBYTE = 1024 * 1024


class MemoryLimitExceeded(Exception):
    """The handler wanted more memory than it may have."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"used more than {limit_bytes / _MEBIBYTE:g} MiB of memory")


class ResourceLimits:
    """Limits while it is entered; afterwards there are none, so that the end can be told."""

    def __init__(self, *, cpu_seconds: float, memory_bytes: int) -> None:
        self._cpu_seconds, self._memory_bytes = cpu_seconds, memory_bytes
        self.is_used_up = False

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._cpu_seconds)
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = used.ru_utime + used.ru_stime + self._cpu_seconds + CPU_SPARE_SECONDS
        _limit(resource.RLIMIT_CPU, math.ceil(until))
        _limit(resource.RLIMIT_DATA, self._memory_bytes)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _limit(resource.RLIMIT_DATA, None)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        _limit(resource.RLIMIT_CPU, None)
        if isinstance(error, MemoryError):
            self.is_used_up = True
            raise MemoryLimitExceeded(self._memory_bytes) from error


def _limit(which: int, soft: int | None) -> None:
    """Sets the soft limit, as far as the hard one allows."""
    _, hard = resource.getrlimit(which)
    if soft is None or (hard != resource.RLIM_INFINITY and soft > hard):
        soft = hard
    resource.setrlimit(which, (soft, hard))


_FAILED = 1


class OriginalProcess:
    """What is entered is left by the process that made this, and by no other.

    A copy has the same stack and the same socket. One that comes back up (its program could not
    be started, or it just returned) would answer for us, and so it ends here: with the code that
    it would have ended with elsewhere, and nothing flushed or closed that is ours.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._pid:
            return
        code = _code(error)
        if code is None:
            traceback.print_exception(error)  # Nobody else will tell.
        os._exit(_FAILED if code is None else code)


def _code(error: BaseException | None) -> int | None:
    """What it ends with; None for what nobody chose."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else None


EXIT_SECONDS = 2.0
"""So long it may take to end by itself when the worker is gone."""

_PR_SET_PDEATHSIG = 1
_LOST = 1


class LoadedHandler(NamedTuple):
    """A handler that was imported, and what makes its messages."""

    handler: HandlerDeclaration
    compose: Composer


class HandlerGuards(NamedTuple):
    """What a handler may use up, and who may come back from it."""

    budget: ResourceLimits
    origin: OriginalProcess


class HandlerServer:
    """Handles what its worker sends."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._origin = OriginalProcess()
        self._requests: SimpleQueue[tuple[Request, int] | None] = SimpleQueue()
        self._known: dict[LoadHandler, LoadedHandler] = {}
        self._runner = asyncio.Runner()
        self._is_busy = False

    def serve(self) -> None:
        """Returns when the worker wants no more."""
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
            case SetModulePath(module_path):
                sys.path[:] = module_path
                return None
            case LoadHandler():
                return encode_frame(LoadResult(self._load(request)), number)
            case HandleMessage():
                return self._handle(request, number)

    # Reading, in a thread of its own: a handler may keep us busy when the worker goes away

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
        os._exit(_LOST)

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

    def _load(self, load: LoadHandler) -> str | None:
        """Imports a handler; returns why it cannot be."""
        found: list[Callable[..., Any]] = []

        def find(location: FunctionLocation) -> None:
            with self._origin:
                found.append(import_function(location))

        failure = run_function(find, load.location)
        if failure is not None:
            return str(encode_outcome(failure)[0])
        registry, handler = _declared(found[0], load)
        registry.made.update(registry.queues)  # By the worker: it was here before us.
        self._known[load] = LoadedHandler(handler, RegistryComposer(registry))
        return None

    def _handle(self, work: HandleMessage, number: int) -> bytes:
        budget = ResourceLimits(cpu_seconds=work.cpu_seconds, memory_bytes=work.memory_bytes)
        deadline = monotonic() + work.seconds_left
        try:
            invoked = self._invoke(work, budget, deadline)
            return encode_frame(_ended(invoked, is_worn_out=budget.is_used_up), number)
        except (PayloadInvalid, ValueError) as error:  # Or what was said cannot cross.
            failed = Failed(str(error))
            return encode_frame(
                MessageHandled(
                    outcome=Failed.__name__, values=encode_outcome(failed), is_failed=True
                ),
                number,
            )

    def _invoke(
        self, work: HandleMessage, budget: ResourceLimits, deadline: float
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
        limits = HandlerGuards(budget, self._origin)
        # A copy for each message: what a handler sets there ends with it.
        context, function = copy_context(), handler.function
        if inspect.iscoroutinefunction(function):
            running = _run_coroutine(function, handling, message, limits)
            failure = self._runner.run(running, context=context)
        else:
            failure = context.run(_run_function, function, handling, message, limits)
        return result_of(message, handling.end(), failure)


async def _run_coroutine(
    function: Callable[[Any], Any],
    handling: Handling,
    message: ClaimedMessage[Any],
    limits: HandlerGuards,
) -> Outcome | None:
    enter(handling)

    async def limited(given: Message[Any]) -> Any:
        with limits.budget, limits.origin:
            returned = await function(given)
            await handling.finish()
        return returned

    return await run_coroutine(limited, handling, message)


def _run_function(
    function: Callable[[Any], Any],
    handling: Handling,
    message: ClaimedMessage[Any],
    limits: HandlerGuards,
) -> Outcome | None:
    enter(handling)

    def limited(given: Message[Any]) -> Any:
        with limits.budget, limits.origin:
            return function(given)

    return run_function(limited, message)


def _ended(invoked: InvocationResult, *, is_worn_out: bool) -> MessageHandled:
    (said,) = invoked.outcomes
    return MessageHandled(
        outcome=type(said.outcome).__name__,
        values=encode_outcome(said.outcome),
        sends=said.made.sends,
        batches=said.made.batches,
        statements=statements_of(said.message.rows),
        is_failed=invoked.is_failed,
        is_worn_out=is_worn_out,
    )


def _declared(
    function: Callable[..., Any], load: LoadHandler
) -> tuple[Registry, HandlerDeclaration]:
    """The app that importing the handler made, if it made one, and what it declares."""
    for registry in Registry.known():
        for each in registry.handlers:
            if each.function is function and (each.queue, each.type) == (load.queue, load.type):
                return registry, structs.replace(each, payload=registry.payload_of(each))
    payload: Payload[Any] = Payload(declared_payload(function, Message))
    handler = HandlerDeclaration(
        queue=load.queue, type=load.type, function=function, payload=payload, is_batch=False
    )
    return Registry(), handler


def _die_with_worker() -> None:
    """The system ends us with our worker, where it can. The reading thread sees its end too, but
    may never have its turn: code that is not Python's can keep it out."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _leave_signals_to_worker() -> None:
    """A signal to all processes of a service is the worker's to answer; it lets us finish.

    They are not ignored, but answered with nothing: what is ignored, a program that a handler
    starts would ignore too.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: None)
    for each in (signal.SIGPROF, signal.SIGXCPU):
        signal.signal(each, signal.SIG_DFL)


def main() -> None:
    """A process's life."""
    _die_with_worker()
    _leave_signals_to_worker()
    forbid_apps()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        HandlerServer(connection).serve()


if __name__ == "__main__":
    main()
