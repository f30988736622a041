"""The parent: runs the children that `core/children` wants, until a signal ends them all.

It listens for them. Children inherit the listening sockets, which stay open while one child is
drained and another one starts, so connections wait there and none is lost.

Children are in process groups of their own: Ctrl-C at a terminal reaches the parent only. Orders
come over the socket pair and not as signals, because a service manager may send SIGTERM to all
processes at once, and a second signal would end the drain of a child.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct, structs

from tickwork.clock import monotonic
from tickwork.core import children as decisions
from tickwork.core.children import Action, Children, Drain, Hurry, Kill, Report, Start
from tickwork.core.merged_metrics import MetricFamily, merged, totals
from tickwork.service.observe.log_events import LogEvent
from tickwork.service.processes.protocol import (
    ChildMetrics,
    ChildSetUp,
    DrainOrder,
    FromParent,
    HurryOrder,
    MergedMetrics,
    MetricsOrder,
    Ready,
    decode_from_child,
    encode,
)

LAST_WORDS_SECONDS = 1.0
"""Seconds that what a child wrote last may take to be read."""

METRICS_SECONDS = 2.0
"""Seconds that children may take to write their metrics."""

LINE_BYTES_MAX = 16_000_000
"""Maximum size of what a child writes at once."""

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STDERR = 2

_log = logging.getLogger("tickwork")


class App(Struct, frozen=True, kw_only=True):
    """What the children run: `module`, which takes the descriptor of its socket, runs the app of
    `target` with the flags of the command line."""

    module: str
    target: str
    flags: dict[str, Any]
    is_debugged: bool
    arguments: list[str]


class _Process:
    """A child: its process, and what is to be written to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: asyncio.subprocess.Process | None = None
        self.is_ready = False
        self._writer: asyncio.StreamWriter | None = None
        self._unsent: list[FromParent] = []
        self.metrics: tuple[MetricFamily, ...] = ()
        self.has_metrics = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def connected(self, writer: asyncio.StreamWriter) -> None:
        """Writes what had to wait for the connection."""
        self._writer = writer
        for message in self._unsent:
            self.send(message)

    def send(self, message: FromParent) -> None:
        """Writes a message, now or when it is connected."""
        if self._writer is None:
            self._unsent.append(message)
        else:
            self._writer.write(encode(message))

    def kill(self) -> None:
        """Kills it, if it has not ended."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()


class Parent:
    """Runs children until a signal ends them all."""

    def __init__(
        self,
        app: App,
        listeners: Mapping[str, socket.socket],
        *,
        wanted: int,
        drain_seconds: float,
    ) -> None:
        self._app, self._listeners = app, listeners
        self._children = Children(wanted=wanted, drain_seconds=drain_seconds)
        self._processes: dict[int, _Process] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._ended_metrics: tuple[MetricFamily, ...] = ()
        self._has_terminal = os.isatty(_STDERR)

    async def run(self) -> int:
        """Runs the children; returns the exit code when none is left."""
        loop = asyncio.get_running_loop()
        for stop_signal in _STOP_SIGNALS:
            loop.add_signal_handler(stop_signal, self._on_stop)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        while True:
            self._changed.clear()
            now = monotonic()
            self._children, actions = decisions.decide(self._children, now)
            for action in actions:
                self._act(action)
            if self._children.is_over:
                await asyncio.gather(*self._tasks)
                return self._children.exit_code or 0
            next_at = self._children.next_at
            with suppress(TimeoutError):
                async with asyncio.timeout(None if next_at is None else next_at - now):
                    await self._changed.wait()

    async def metrics(self) -> tuple[MetricFamily, ...]:
        """The metrics of all processes. Of one that does not answer these are its last ones."""
        asked = [process for process in self._processes.values() if process.is_ready]
        for process in asked:
            process.has_metrics.clear()
            process.send(MetricsOrder())
        answers = [asyncio.create_task(process.has_metrics.wait()) for process in asked]
        if answers:
            _, late = await asyncio.wait(answers, timeout=METRICS_SECONDS)
            for answer in late:
                answer.cancel()
        known = {process.number: process.metrics for process in asked}
        return merged(known, self._ended_metrics)

    # Signals

    def _on_stop(self) -> None:
        for listener in self._listeners.values():
            listener.close()  # When no child listens any more, connections are refused.
        self._enter(decisions.stop)
        if self._children.hurries:
            _log.warning("stopping now: all processes cancel their handlers")
        else:
            _log.info(LogEvent("stopping all processes", processes=len(self._children.all)))

    def _on_hangup(self) -> None:
        """New code, unless the terminal was closed."""
        if self._has_terminal and not os.isatty(_STDERR):
            self._on_stop()
            return
        _log.info("reloading: each process is replaced by one with the new code")
        self._enter(decisions.reload)

    # What is decided

    def _enter(self, change: Callable[[Children, float], Children]) -> None:
        """Enters what has happened, and decides anew."""
        self._children = change(self._children, monotonic())
        self._changed.set()

    def _act(self, action: Action) -> None:
        match action:
            case Start(number):
                process = self._processes[number] = _Process(number)
                self._start_task(self._live(process))
            case Drain(number):
                self._processes[number].send(DrainOrder())
            case Hurry(number):
                self._processes[number].send(HurryOrder())
            case Kill(number):
                _log.error(LogEvent("a process did not end in time; it is killed", process=number))
                self._processes[number].kill()
            case Report.RELOADED:
                _log.info("reloaded: all processes run the new code")
            case Report.NOT_RELOADED:
                _log.error(
                    "the new code does not start; the other processes keep running, and SIGHUP "
                    "tries again"
                )
            case Report.GAVE_UP:
                fault = "a process died at once again and again; all processes are stopped"
                _log.error(LogEvent(fault, deaths=decisions.EARLY_DEATHS_MAX))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, process: _Process) -> None:
        """Writes the metrics of all processes to the one that has asked."""
        process.send(MergedMetrics(await self.metrics()))

    # A child

    async def _live(self, process: _Process) -> None:
        """Runs a child from its start to its end."""
        code = decisions.EXIT_FAILED
        try:
            code = await self._run(process)
        except OSError as error:
            _log.error(
                LogEvent("a process could not be started", process=process.number, error=str(error))
            )
        del self._processes[process.number]
        self._ended_metrics = totals([self._ended_metrics, process.metrics])
        self._report_end(process, code)
        self._enter(lambda children, now: decisions.ended(children, process.number, code, now))

    async def _run(self, process: _Process) -> int:
        ours, theirs = socket.socketpair()
        with theirs:
            listeners = {role: listener.fileno() for role, listener in self._listeners.items()}
            try:
                process.process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", self._app.module, str(theirs.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *listeners.values()),
                    process_group=0,
                )
            except OSError:
                ours.close()
                raise
        reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LINE_BYTES_MAX)
        app = self._app
        set_up = ChildSetUp(
            number=process.number,
            target=app.target,
            flags=app.flags,
            is_debugged=app.is_debugged,
            arguments=app.arguments,
            listeners=listeners,
            is_first=not self._children.has_started,
        )
        writer.write(encode(set_up))
        process.connected(writer)
        reading = asyncio.create_task(self._read(process, reader))
        code = await process.process.wait()
        # What the child has started may keep its end of the socket open.
        await asyncio.wait([reading], timeout=LAST_WORDS_SECONDS)
        reading.cancel()
        writer.close()
        return code

    async def _read(self, process: _Process, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, ValueError, msgspec.MsgspecError):
            while line := await reader.readline():
                match decode_from_child(line):
                    case Ready() as message:
                        self._on_ready(process, message)
                    case ChildMetrics(families):
                        process.metrics = families
                        process.has_metrics.set()
                    case _:
                        self._start_task(self._answer(process))

    def _on_ready(self, process: _Process, message: Ready) -> None:
        process.is_ready = True
        _log.info(LogEvent("a process is ready", process=process.number, pid=process.pid))
        if message.is_alone and self._children.wanted > 1:
            self._children = structs.replace(self._children, wanted=1)
            _log.warning(
                "SQLite has one writer, so this app runs in one process; more need PostgreSQL"
            )
        self._enter(lambda children, now: decisions.ready(children, process.number, now))

    def _report_end(self, process: _Process, code: int) -> None:
        child = self._children.get(process.number)
        is_expected = child is None or child.phase is decisions.Phase.DRAINING
        if is_expected and code in (0, decisions.ENDED_BY_SIGTERM):
            return
        killer = signal.Signals(-code).name if code < 0 else None
        exit_code = code if code >= 0 else None
        _log.error(
            LogEvent(
                "a process ended",
                process=process.number,
                pid=process.pid,
                exit_code=exit_code,
                signal=killer,
            )
        )
