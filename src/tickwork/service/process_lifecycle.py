"""Runs a process of ours until a signal stops it; tunes it, and opens listening sockets.

The tuning and the signal handlers are settings of the whole process, which belongs to whoever
started it: `app.run()` and `tickwork run` apply them, `app.running()` in somebody's own process
does not.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from threading import Event
from typing import Any, NamedTuple, Protocol

from tickwork.errors import FieldError, InvalidInput
from tickwork.service.isolation.threads import DaemonThreadExecutor
from tickwork.service.observe.log_events import LogEvent
from tickwork.service.observe.log_set_up import LogSetUp
from tickwork.store.shared.watches import within

SWITCH_INTERVAL_SECONDS = 0.0002
"""Seconds after which a thread that runs Python code yields to others; Python's default is 5 ms.
The thread that writes to SQLite needs the interpreter only to start its next statement, and while
it waits for that, nothing is written. Threads that only compute lose 3 % of their speed."""

GC_THRESHOLD = 50_000
"""Number of new container objects that triggers a garbage collection; Python's default is 700.
Claimed messages and runs live as long as their handlers run, and would be scanned repeatedly in
vain. Their own objects form no cycles, so this bounds the garbage of an app's code."""


def tune_process() -> None:
    """Applies the settings, unless the process has even stronger ones."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_SECONDS))
    young, *older = gc.get_threshold()
    if young:  # 0 disables garbage collection.
        gc.set_threshold(max(young, GC_THRESHOLD), *older)


CLEANUP_SECONDS = 2.0
"""Seconds remaining tasks may take to finish after shutdown. Threads are not waited for."""

_ROLE_DESCRIPTIONS = {
    "scheduler": "planning schedules",
    "api": "serving the API",
    "http": "serving HTTP handlers",
}

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_is_forbidden = Event()

_log = logging.getLogger("tickwork")


def forbid_apps() -> None:
    """Forbids running an app in this process, because it is a handler process."""
    _is_forbidden.set()


def check_may_run() -> None:
    """Raises `InvalidInput` if no app may run here."""
    if _is_forbidden.is_set():
        fault = (
            "a handler process imported the module that runs the app; put the call under "
            "`if __name__ == '__main__':`"
        )
        raise InvalidInput([FieldError("app.run()", fault)])


class Drainable(Protocol):
    """What a process runs, as its shutdown sees it."""

    @property
    def running(self) -> int:
        """Number of running handlers."""
        ...

    def hurry(self) -> bool:
        """Ends the drain at once, now or later; returns whether the shutdown has begun."""
        ...


class Shutdown(NamedTuple):
    """How somebody else than a signal drains this process, and ends its drain; in any thread."""

    drain: Callable[[], None]
    hurry: Callable[[], None]


class ShutdownReport:
    """Reports the shutdown to the operator: on a terminal in sentences, otherwise in log lines."""

    def __init__(self, log_format: str | None = "json", drain_seconds: float = 0.0) -> None:
        self._log_format, self._drain_seconds = log_format, drain_seconds

    def stopping(self, handlers: int) -> None:
        """The first signal: running handlers may finish."""
        if is_console(self._log_format):
            if handlers:
                wait = f"{_count(handlers)} may take {self._drain_seconds:g} seconds to finish"
                _write(f"stopping: {wait}; Ctrl-C again cancels and returns the messages")
            else:
                _write("stopping: no handler is running")
        else:
            event = "stopping: running handlers finish, other messages are released"
            _log.info(LogEvent(event, handlers=handlers, drain_seconds=self._drain_seconds))

    def hurried(self, handlers: int) -> None:
        """The second signal: running handlers are cancelled."""
        if is_console(self._log_format):
            what = f"{_count(handlers)} cancelled; the messages lose no attempt"
            _write(f"stopping now: {what}; Ctrl-C again ends the process at once")
        else:
            event = "stopping now: running handlers are cancelled, their messages are released"
            _log.warning(LogEvent(event, handlers=handlers))


def is_console(log_format: str | None) -> bool:
    """Whether a person reads the output of this process."""
    from tickwork.service.observe.log_format import (
        choose_format,  # Heavy; processes that only send do not need it.
    )

    return choose_format(log_format) == "console"


def _count(handlers: int) -> str:
    return "1 handler" if handlers == 1 else f"{handlers} handlers"


def _write(text: str) -> None:
    set_up = LogSetUp.current()
    number = "" if set_up is None or set_up.process is None else f" {set_up.process}"
    sys.stderr.write(f"tickwork{number}: {text}\n")


def print_on_terminal(text: str, log_format: str | None) -> None:
    """Prints a text for whoever started this process on a terminal; a log has no use for it."""
    if is_console(log_format):
        _write(text)


def print_once(text: str) -> None:
    """Prints a text that is shown only once, with or without a terminal. On stdout: it is no log
    line, and logs are on stderr."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def shown_url(host: str, port: int) -> str:
    """The URL at which this machine reaches a server that listens there."""
    any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (only shown)
    shown = any_address.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def announce(queues: Iterable[str], roles: Iterable[str], log_format: str | None) -> None:
    """Reports what this process does: on a terminal as a sentence, otherwise as a log line."""
    known = sorted(roles)
    handled = sorted(set(queues)) if "worker" in known else []
    doing = [f"handling {', '.join(handled)}"] if handled else []
    doing += [text for role, text in _ROLE_DESCRIPTIONS.items() if role in known]
    print_on_terminal("; ".join([*doing, "Ctrl-C stops"]), log_format)
    if not is_console(log_format):
        _log.info(LogEvent("handling" if handled else "running", queues=handled, roles=known))


def run_until_stopped(
    work: Callable[[], AbstractAsyncContextManager[Drainable | None]],
    on_started: Callable[[], None] = lambda: None,
    report: ShutdownReport | None = None,
    before: Callable[[], Awaitable[None]] | None = None,
    attach: Callable[[Shutdown], None] = lambda _: None,
) -> None:
    """Runs `work` until SIGTERM or SIGINT, then leaves it, which drains. Waits for `before` first,
    which the first signal ends. `attach` gets what has the effects of the signals.

    A second signal ends the drain: running handlers are cancelled and their messages released. A
    third one ends the process at once; its messages return when its lease has expired.
    """
    check_may_run()
    _check_no_loop()
    tune_process()
    loop = new_loop()
    threads = DaemonThreadExecutor()
    loop.set_default_executor(threads)
    shutdown = _ShutdownState(loop, report or ShutdownReport())
    try:
        loop.run_until_complete(_run(work, on_started, shutdown, before, attach))
    except asyncio.CancelledError:
        if not shutdown.is_cancelled:
            raise
    finally:
        _close(loop)
        threads.shutdown()


def _check_no_loop() -> None:
    """Raises `InvalidInput` if an event loop runs in this thread: it would be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    fault = (
        "starts an event loop, but one is already running; call it outside of coroutines, or use "
        "`async with app.running():`"
    )
    raise InvalidInput([FieldError("app.run()", fault)])


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels remaining tasks and closes the loop. Unlike `asyncio.run`, a task that ignores its
    cancellation (an abandoned handler) or a generator that does not close delays the exit only
    briefly, and a thread of `asyncio.to_thread` not at all."""
    remaining = asyncio.all_tasks(loop)
    for task in remaining:
        task.cancel()
    if remaining:
        loop.run_until_complete(asyncio.wait(remaining, timeout=CLEANUP_SECONDS))
    loop.run_until_complete(within(CLEANUP_SECONDS, loop.shutdown_asyncgens()))
    loop.close()


async def _run(
    work: Callable[[], AbstractAsyncContextManager[Drainable | None]],
    on_started: Callable[[], None],
    shutdown: _ShutdownState,
    before: Callable[[], Awaitable[None]] | None,
    attach: Callable[[Shutdown], None],
) -> None:
    shutdown.install()
    attach(shutdown.for_others())
    if before is not None and not await _is_done_first(before(), shutdown.requested):
        return
    async with work() as running:
        shutdown.running = running
        on_started()
        await shutdown.requested.wait()
        shutdown.report.stopping(shutdown.handlers)


async def _is_done_first(work: Awaitable[None], stopped: asyncio.Event) -> bool:
    """Whether work ended before somebody stopped it; it is cancelled otherwise."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
            return True
        return False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ShutdownState:
    """The signals of a process: what each one does, and how far the shutdown is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, report: ShutdownReport) -> None:
        self._loop, self.report = loop, report
        self._task: asyncio.Task[Any] | None = None
        self.requested = asyncio.Event()
        self.running: Drainable | None = None
        self.is_cancelled = self._is_hurried = False

    @property
    def handlers(self) -> int:
        return 0 if self.running is None else self.running.running

    def install(self) -> None:
        self._task = asyncio.current_task()
        for stop_signal in _STOP_SIGNALS:
            self._loop.add_signal_handler(stop_signal, self._on_signal)

    def for_others(self) -> Shutdown:
        """The same for other threads, which need not count."""

        def drain() -> None:
            self._loop.call_soon_threadsafe(self.requested.set)

        def hurry() -> None:
            self._loop.call_soon_threadsafe(self._hurry)

        return Shutdown(drain, hurry)

    def _on_signal(self) -> None:
        if self.requested.is_set():
            self._hurry()
        else:
            self.requested.set()

    def _hurry(self) -> None:
        self.requested.set()
        if self._is_hurried:
            return
        self._is_hurried = True
        for stop_signal in _STOP_SIGNALS:
            self._loop.remove_signal_handler(stop_signal)
            signal.signal(
                stop_signal, signal.SIG_DFL
            )  # For SIGINT, Python's default would clean up.
        self.report.hurried(self.handlers)
        if self.running is None or not self.running.hurry():
            assert self._task is not None
            self.is_cancelled = self._task.cancel()  # It still starts, or closes the API.


def new_loop() -> asyncio.AbstractEventLoop:
    """The event loop of a process that serves an app."""
    try:
        import uvloop
    except ImportError:  # Not available on this system.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


LISTEN_BACKLOG = 2048
"""Maximum number of connections that wait to be accepted."""


def listen(host: str, port: int) -> socket.socket:
    """Opens a listening socket. `InvalidInput` names `host` or `port` if that fails."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server(address, family=family, backlog=LISTEN_BACKLOG)
    except (socket.gaierror, UnicodeError):
        fault = f"the host {host!r} is unknown; choose another"
        raise InvalidInput([FieldError("host", fault)]) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("port", fault)]) from None
