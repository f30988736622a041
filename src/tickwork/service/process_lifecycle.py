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
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from threading import Event
from typing import Any

from tickwork.errors import FieldError, InvalidInput
from tickwork.service.isolation.threads import DaemonThreadExecutor
from tickwork.service.observe.log_events import LogEvent
from tickwork.store.shared.watches import within

SWITCH_INTERVAL_SECONDS = 0.0002
"""Seconds after which a thread that runs Python code yields to others; Python's default is 5 ms.
The thread that writes to SQLite needs the interpreter only to start its next statement, and while
it waits for that, nothing is written. Threads that only compute lose 3 % of their speed."""

GC_THRESHOLD = 10_000
"""Number of new container objects that triggers a garbage collection; Python's default is 700.
Claimed messages live as long as their handlers run, and would be scanned repeatedly in vain."""


def tune_process() -> None:
    """Applies the settings, unless the process has even stronger ones."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_SECONDS))
    young, *older = gc.get_threshold()
    if young:  # 0 disables garbage collection.
        gc.set_threshold(max(young, GC_THRESHOLD), *older)


CLEANUP_SECONDS = 2.0
"""Seconds remaining tasks may take to finish after shutdown. Threads are not waited for."""

_ROLE_DESCRIPTIONS = {"scheduler": "planning schedules", "api": "serving the API"}

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


def announce(queues: Iterable[str], roles: Iterable[str], log_format: str | None) -> None:
    """Reports what this process does: on a terminal as a sentence, otherwise as a log line."""
    from tickwork.service.observe.log_format import (
        choose_format,  # Heavy; processes that only send do not need it.
    )

    known = sorted(roles)
    handled = sorted(set(queues)) if "worker" in known else []
    if choose_format(log_format) == "console":
        doing = [f"handling {', '.join(handled)}"] if handled else []
        doing += [text for role, text in _ROLE_DESCRIPTIONS.items() if role in known]
        sys.stderr.write(f"tickwork: {'; '.join([*doing, 'Ctrl-C stops'])}\n")
    else:
        _log.info(LogEvent("handling" if handled else "running", queues=handled, roles=known))


def run_until_stopped(
    work: Callable[[], AbstractAsyncContextManager[Any]],
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Runs `work` until SIGTERM or SIGINT, then leaves it. A second signal ends the process."""
    check_may_run()
    _check_no_loop()
    tune_process()
    loop = _new_loop()
    threads = DaemonThreadExecutor()
    loop.set_default_executor(threads)
    try:
        loop.run_until_complete(_run(work, on_started))
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
    work: Callable[[], AbstractAsyncContextManager[Any]], on_started: Callable[[], None]
) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, _stop, stop, loop)
    async with work():
        on_started()
        await stop.wait()
        _log.info(LogEvent("stopping: running handlers finish, other messages are released"))


def _stop(stop: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    stop.set()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(each)


def _new_loop() -> asyncio.AbstractEventLoop:
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
