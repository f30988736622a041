"""A pool of handler processes: reused, killed when they overrun, replaced when they die.

```
  started ──▶ idle ◀──▶ working ──▶ worn out (message count, or memory limit hit) ──▶ stopped
               │           ├─────▶ died by itself ──▶ its message fails, with the cause
               │           └─────▶ stopped (timeout, shutdown) ──▶ killed
               ├─ idle for too long ──▶ stopped
               └─ died before the handler of its next message began ──▶ another one is asked
```

A process is started when a handler needs one and none is idle, so there are never more working
processes than permits. What a handler did before its process died is lost: its message fails.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from tickwork.app.declarations import HandlerDeclaration
from tickwork.app.http import HttpHandlerDeclaration
from tickwork.app.invocation import Made
from tickwork.app.message import ClaimedMessage, seconds_text
from tickwork.clock import monotonic
from tickwork.core.http.message import HttpRequest
from tickwork.core.message.outcome import Failed
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.isolation.function_location import NotImportable, location_of
from tickwork.service.isolation.process_handle import HandlerProcess, ProcessEnded
from tickwork.service.isolation.protocol import (
    AnswerRequest,
    HandleMessage,
    Load,
    LoadHandler,
    LoadHttpHandler,
    LoadResult,
    MessageHandled,
    RequestAnswered,
    decode_outcome,
    write_statements,
)
from tickwork.service.worker.invoke import InvocationResult, MessageOutcome, result_when_stopped

MESSAGES_MAX = 1_000
"""Maximum number of messages a process handles, so that leaks do not add up forever."""

IDLE_SECONDS = 60.0
"""Seconds after which an idle process is stopped."""

IDLE_KEPT = 1
"""Number of idle processes that are kept."""

LOAD_SECONDS = 60.0
"""Seconds a process may take to start and import a handler."""

CPU_SIGNALS = ("SIGPROF", "SIGXCPU")
"""Signals that end a process that used up its CPU time."""


ProcessHandler: TypeAlias = HandlerDeclaration | HttpHandlerDeclaration
"""A handler that may run in a process."""

R = TypeVar("R")

Ask: TypeAlias = Callable[[HandlerProcess], Awaitable[tuple[R, bool]]]
"""Asks a process; returns the result, and whether the process is worn out."""


class LoadFailed(Exception):
    """A process could not import a handler; the text says why."""


class NotHandled(Exception):
    """A handler has not ended by itself; the text says why. `is_over_budget`: it used more CPU time
    than it may."""

    def __init__(self, cause: str, *, is_over_budget: bool = False) -> None:
        super().__init__(cause)
        self.is_over_budget = is_over_budget


class ProcessPool:
    """The processes of a worker, or of the HTTP handlers of an app; belongs to one event loop."""

    def __init__(
        self, *, messages_max: int = MESSAGES_MAX, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._messages_max, self._idle_seconds = messages_max, idle_seconds
        self._loads: dict[ProcessHandler, Load] = {}
        self._living: set[HandlerProcess] = set()
        self._idle: list[HandlerProcess] = []
        self._reaping: dict[HandlerProcess, asyncio.Task[int | None]] = {}
        self._idle_timer: asyncio.TimerHandle | None = None
        self.killed = 0

    @property
    def pids(self) -> list[int]:
        """The pids of all processes that are not reaped."""
        return [process.pid for process in self._living]

    async def start(self, handlers: Sequence[ProcessHandler]) -> None:
        """Starts a first process and imports all handlers there. Raises `InvalidInput` for
        handlers that cannot run in a process."""
        if not handlers:
            return
        if os.name != "posix":
            faults = [
                FieldError(handler.name, "needs a process, and this system cannot limit processes")
                for handler in handlers
            ]
            raise InvalidInput(faults)
        faults = [handler for handler in map(_fault, handlers) if handler is not None]
        try:
            faults = faults or await self._try_loading(handlers)
        finally:
            if faults or not self._idle:
                await self.stop()
        if faults:
            raise InvalidInput(faults)

    async def stop(self) -> None:
        """Stops all processes; none is left when it returns."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._idle.clear()
        await asyncio.gather(*map(self._reap, [*self._living]))

    async def invoke(
        self, handler: HandlerDeclaration, message: ClaimedMessage[object]
    ) -> InvocationResult:
        """Runs one invocation. Cancelling it kills its process."""
        load = self._load_of(handler)
        assert isinstance(load, LoadHandler)
        work = HandleMessage(
            load=load,
            message=message.stored,
            seconds_left=message.time_left(),
            cpu_seconds=handler.cpu_seconds,
            memory_bytes=handler.memory_bytes,
        )

        async def ask(process: HandlerProcess) -> tuple[InvocationResult, bool]:
            handled = await process.ask(work, MessageHandled)
            return _invoked(message, handled), handled.is_worn_out

        try:
            return await self._run(handler, ask)
        except NotHandled as error:
            return result_when_stopped(message, Failed(str(error)))

    async def answer(
        self, handler: HttpHandlerDeclaration, request: HttpRequest
    ) -> RequestAnswered:
        """Answers one HTTP request. Cancelling it kills its process. Raises `NotHandled`."""
        load = self._load_of(handler)
        assert isinstance(load, LoadHttpHandler)
        work = AnswerRequest(load, request, handler.cpu_seconds, handler.memory_bytes)

        async def ask(process: HandlerProcess) -> tuple[RequestAnswered, bool]:
            answered = await process.ask(work, RequestAnswered)
            return answered, answered.is_worn_out

        return await self._run(handler, ask)

    async def _run(self, handler: ProcessHandler, ask: Ask[R]) -> R:
        """Asks a process that has the handler. Raises `NotHandled` if that gives no answer."""
        while True:
            try:
                process = self._take()
            except OSError as error:
                raise NotHandled(f"could not start a process: {error}") from None
            was_idle = process.idle_since is not None
            try:
                return await self._run_in(process, handler, ask)
            except ProcessEnded:
                code = await asyncio.shield(self._reap(process))
            if was_idle and not process.has_begun:
                continue  # It died while it was idle, and nobody had noticed yet.
            self.killed += 1
            raise NotHandled(_cause(code, handler), is_over_budget=_is_over_budget(code))

    async def _run_in(self, process: HandlerProcess, handler: ProcessHandler, ask: Ask[R]) -> R:
        try:
            await self._load(process, handler)
            result, is_worn_out = await ask(process)
        except LoadFailed as error:
            self._reap(process)
            raise NotHandled(str(error)) from None
        except (ValueError, msgspec.DecodeError) as error:
            self._reap(process)
            raise NotHandled(f"its process sent no valid answer: {error}") from None
        except asyncio.CancelledError:
            self.killed += 1
            process.kill()
            self._reap(process)
            raise
        self._give_back(process, is_worn_out=is_worn_out)
        return result

    # Taking and returning processes

    def _take(self) -> HandlerProcess:
        while self._idle:
            # The most recent one, so that unneeded ones stay idle and are stopped.
            process = self._idle.pop()
            if process.is_usable:
                return process
            self._reap(process)
        process = HandlerProcess()
        self._living.add(process)
        return process

    def _give_back(self, process: HandlerProcess, *, is_worn_out: bool) -> None:
        process.messages += 1
        if is_worn_out or process.messages >= self._messages_max:
            self._reap(process)
            return
        process.idle_since = monotonic()
        self._idle.append(process)
        if self._idle_timer is None:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._idle_seconds, self._stop_idle)

    def _stop_idle(self) -> None:
        """Stops processes that were idle for too long."""
        self._idle_timer = None
        idle_since_max = monotonic() - self._idle_seconds
        expired = [
            process
            for process in self._idle[IDLE_KEPT:]
            if (process.idle_since or 0) <= idle_since_max
        ]
        for process in expired:
            self._idle.remove(process)
            self._reap(process)
        if len(self._idle) > IDLE_KEPT:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(self._idle_seconds, self._stop_idle)

    def _reap(self, process: HandlerProcess) -> asyncio.Task[int | None]:
        """Stops and reaps a process; the task returns its exit code."""
        if process not in self._reaping:
            task = self._reaping[process] = asyncio.create_task(process.reap())
            task.add_done_callback(lambda _: self._reaped(process))
        return self._reaping[process]

    def _reaped(self, process: HandlerProcess) -> None:
        del self._reaping[process]
        self._living.discard(process)

    # Loading handlers

    async def _try_loading(self, handlers: Sequence[ProcessHandler]) -> list[FieldError]:
        """Loads all handlers in one process, which stays for a first message; returns errors."""
        faults = []
        process = self._take()
        for handler in handlers:
            try:
                await self._load(process, handler)
            except LoadFailed as error:
                faults.append(FieldError(handler.name, str(error)))
            except ProcessEnded:
                code = await asyncio.shield(self._reap(process))
                faults.append(
                    FieldError(handler.name, f"cannot be imported: {_cause(code, handler)}")
                )
                return faults
        self._give_back(process, is_worn_out=False)
        return faults

    async def _load(self, process: HandlerProcess, handler: ProcessHandler) -> None:
        load = self._load_of(handler)
        if load in process.loaded:
            return
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                loaded = await process.ask(load, LoadResult)
        except TimeoutError:
            raise LoadFailed(f"was not imported within {LOAD_SECONDS:g} seconds") from None
        if loaded.fault is not None:
            raise LoadFailed(f"cannot be imported in its own process: {loaded.fault}")
        process.loaded.add(load)

    def _load_of(self, handler: ProcessHandler) -> Load:
        if handler not in self._loads:
            location = location_of(handler.declared_function)
            self._loads[handler] = (
                LoadHandler(location, handler.queue, handler.type, handler.is_firing)
                if isinstance(handler, HandlerDeclaration)
                else LoadHttpHandler(location)
            )
        return self._loads[handler]


def _fault(handler: ProcessHandler) -> FieldError | None:
    """The reason why no other process can import a handler."""
    try:
        location_of(handler.declared_function)
    except NotImportable as error:
        return FieldError(handler.name, f"needs its own process, but {error}")
    return None


def _invoked(message: ClaimedMessage[object], ended: MessageHandled) -> InvocationResult:
    outcome = decode_outcome(ended)
    if ended.statements:
        write_statements(ended.statements, message.transaction())
    message.end()
    outcome_of_message = MessageOutcome(message, outcome, Made(ended.sends, ended.batches))
    return InvocationResult([outcome_of_message], Made(), ended.is_failed)


def _cause(code: int | None, handler: ProcessHandler) -> str:
    """Why a process ended, by its exit code."""
    if code is None:
        return "its process did not answer, and was killed"
    if code >= 0:
        return f"its process exited with code {code}"
    name = _signal_name(-code)
    if _is_over_budget(code):
        used = seconds_text(handler.cpu_seconds)
        return f"used more than {used} of CPU time, and was stopped"
    if name == "SIGKILL":
        return "its process was killed from outside: by the system (out of memory), or by hand"
    return f"its process was ended by {name}"


def _is_over_budget(code: int | None) -> bool:
    """Whether the exit code is that of a process that used up its CPU time."""
    return code is not None and code < 0 and _signal_name(-code) in CPU_SIGNALS


def _signal_name(number: int) -> str:
    known = {known_signal.value: known_signal.name for known_signal in signal.Signals}
    return known.get(number, f"signal {number}")
