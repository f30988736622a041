"""Processes for handlers: kept and used again, killed when they overrun, replaced when they die.

```
  started ──▶ idle ◀──▶ at work ──▶ worn out (so many messages, or memory used up) ──▶ ended
               │           ├─────▶ died by itself ──▶ its message failed, with what happened
               │           └─────▶ stopped (wall limit, shutdown) ──▶ killed
               └─ for too long ──▶ ended
```

One is started when a handler needs it and none is idle; so there are never more at work than
slots. What a process said before it died is lost with it: its message counts as failed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

import msgspec

from tickwork.app.declarations import HandlerDeclaration
from tickwork.app.handling import Made
from tickwork.app.message import ClaimedMessage, seconds_text
from tickwork.clock import monotonic
from tickwork.core.message.outcome import Failed
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.isolation.function_location import NotImportable, location_of
from tickwork.service.isolation.process_handle import HandlerProcess, ProcessEnded
from tickwork.service.isolation.protocol import (
    HandleMessage,
    LoadHandler,
    LoadResult,
    MessageHandled,
    decode_outcome,
    write_statements,
)
from tickwork.service.worker.invoke import InvocationResult, MessageOutcome, result_when_stopped

MESSAGES_MAX = 1_000
"""So many a process handles: what a handler leaks does not add up for ever."""

IDLE_SECONDS = 60.0
"""So long a process may have nothing to do …"""

IDLE_KEPT = 1
"""… but for so many of them."""

LOAD_SECONDS = 60.0
"""So long it may take to start, and to import a handler."""

CPU_SIGNALS = ("SIGPROF", "SIGXCPU")
"""A process that died of one of these used up its processor time."""


class LoadFailed(Exception):
    """A process could not import a handler; the text is what it raised."""


class ProcessPool:
    """The processes of a worker; belongs to one event loop."""

    def __init__(
        self, *, messages_max: int = MESSAGES_MAX, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._messages_max, self._idle_seconds = messages_max, idle_seconds
        self._loads: dict[HandlerDeclaration, LoadHandler] = {}
        self._living: set[HandlerProcess] = set()
        self._idle: list[HandlerProcess] = []
        self._reaping: dict[HandlerProcess, asyncio.Task[int | None]] = {}
        self._looking: asyncio.TimerHandle | None = None
        self.killed = 0

    @property
    def pids(self) -> list[int]:
        """Those that are not buried yet."""
        return [each.pid for each in self._living]

    async def start(self, handlers: Sequence[HandlerDeclaration]) -> None:
        """Refuses handlers that no process can run (`InvalidInput`): a first one tries."""
        if not handlers:
            return
        if os.name != "posix":
            faults = [
                FieldError(each.name, "wants a process: this system knows no limits of one")
                for each in handlers
            ]
            raise InvalidInput(faults)
        faults = [each for each in map(_fault, handlers) if each is not None]
        try:
            faults = faults or await self._try_loading(handlers)
        finally:
            if faults or not self._idle:
                await self.stop()
        if faults:
            raise InvalidInput(faults)

    async def stop(self) -> None:
        """Ends all of them; nothing is left when it returns."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._idle.clear()
        await asyncio.gather(*map(self._reap, [*self._living]))

    async def invoke(
        self, handler: HandlerDeclaration, message: ClaimedMessage[object]
    ) -> InvocationResult:
        """One invocation; its process is killed if it is cancelled."""
        try:
            process = self._take()
        except OSError as error:
            return result_when_stopped(
                message, Failed(f"no process could be started for it: {error}")
            )
        try:
            await self._load(process, handler)
            ended = await process.ask(self._work(handler, message), MessageHandled)
            invoked = _invoked(message, ended)
        except ProcessEnded:
            self.killed += 1
            code = await asyncio.shield(self._reap(process))
            return result_when_stopped(message, Failed(_cause(code, handler)))
        except LoadFailed as error:
            self._reap(process)
            return result_when_stopped(message, Failed(str(error)))
        except (ValueError, msgspec.DecodeError) as error:
            self._reap(process)
            return result_when_stopped(message, Failed(f"it did not end as handlers do: {error}"))
        except asyncio.CancelledError:
            self.killed += 1
            process.kill()
            self._reap(process)
            raise
        self._give_back(process, is_worn_out=ended.is_worn_out)
        return invoked

    def _work(self, handler: HandlerDeclaration, message: ClaimedMessage[object]) -> HandleMessage:
        return HandleMessage(
            load=self._load_of(handler),
            message=message.stored,
            seconds_left=message.time_left(),
            cpu_seconds=handler.cpu_seconds,
            memory_bytes=handler.memory_bytes,
        )

    # Who is there

    def _take(self) -> HandlerProcess:
        while self._idle:
            # The last one: so those that are not needed stay idle for long.
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
        if self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(self._idle_seconds, self._end_idle)

    def _end_idle(self) -> None:
        """Ends those that have had nothing to do for too long."""
        self._looking = None
        long_ago = monotonic() - self._idle_seconds
        tired = [each for each in self._idle[IDLE_KEPT:] if each.idle_since <= long_ago]
        for process in tired:
            self._idle.remove(process)
            self._reap(process)
        if len(self._idle) > IDLE_KEPT:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(self._idle_seconds, self._end_idle)

    def _reap(self, process: HandlerProcess) -> asyncio.Task[int | None]:
        """Sees to its end; returns what tells its exit code."""
        if process not in self._reaping:
            task = self._reaping[process] = asyncio.create_task(process.reap())
            task.add_done_callback(lambda _: self._reaped(process))
        return self._reaping[process]

    def _reaped(self, process: HandlerProcess) -> None:
        del self._reaping[process]
        self._living.discard(process)

    # What they know

    async def _try_loading(self, handlers: Sequence[HandlerDeclaration]) -> list[FieldError]:
        """What one process says to all of them; it stays, for the first message."""
        faults = []
        process = self._take()
        for each in handlers:
            try:
                await self._load(process, each)
            except LoadFailed as error:
                faults.append(FieldError(each.name, str(error)))
            except ProcessEnded:
                code = await asyncio.shield(self._reap(process))
                faults.append(FieldError(each.name, f"cannot be imported: {_cause(code, each)}"))
                return faults
        self._give_back(process, is_worn_out=False)
        return faults

    async def _load(self, process: HandlerProcess, handler: HandlerDeclaration) -> None:
        load = self._load_of(handler)
        if load in process.loaded:
            return
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                loaded = await process.ask(load, LoadResult)
        except TimeoutError:
            raise LoadFailed(f"was not imported within {LOAD_SECONDS:g} seconds") from None
        if loaded.fault is not None:
            raise LoadFailed(f"cannot be imported by a process of its own: {loaded.fault}")
        process.loaded.add(load)

    def _load_of(self, handler: HandlerDeclaration) -> LoadHandler:
        if handler not in self._loads:
            location = location_of(handler.function)
            self._loads[handler] = LoadHandler(location, handler.queue, handler.type)
        return self._loads[handler]


def _fault(handler: HandlerDeclaration) -> FieldError | None:
    """Why no other process can find a handler."""
    try:
        location_of(handler.function)
    except NotImportable as error:
        return FieldError(handler.name, f"wants a process of its own, but {error}")
    return None


def _invoked(message: ClaimedMessage[object], ended: MessageHandled) -> InvocationResult:
    outcome = decode_outcome(ended)
    if ended.statements:
        write_statements(ended.statements, message.transaction())
    message.end()
    said = MessageOutcome(message, outcome, Made(ended.sends, ended.batches))
    return InvocationResult([said], Made(), ended.is_failed)


def _cause(code: int | None, handler: HandlerDeclaration) -> str:
    """What a process died of, by its exit code."""
    if code is None:
        return "its process gave no answer any more, and was killed"
    if code >= 0:
        return f"its process ended by itself, with exit code {code}"
    name = _signal_name(-code)
    if name in CPU_SIGNALS:
        used = seconds_text(handler.cpu_seconds)
        return f"used more than {used} of processor time, and was stopped"
    if name == "SIGKILL":
        return "its process was killed from outside: by the system for want of memory, or by hand"
    return f"its process died of {name}"


def _signal_name(number: int) -> str:
    known = {each.value: each.name for each in signal.Signals}
    return known.get(number, f"signal {number}")
