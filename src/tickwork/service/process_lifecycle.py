"""A process that runs until it is told to stop.

What a process that does nothing but run an app sets for itself.

Both are settings of the whole process, which belongs to whoever started it: `app.run()` and
`tickwork run` make them, `app.running()` in somebody's own process does not.

A port to listen on: from then on a client that connects is served, or waits.
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
from tickwork.store.shared.waiting import within

SWITCH_INTERVAL_SECONDS = 0.0002
"""So long a thread that runs Python keeps others waiting that could; of itself, Python lets them
wait for 5 ms. The thread that writes to SQLite needs Python only to begin its next statement, and
while it waits for that, nothing is written. Threads that do nothing but compute pay 3 % for it."""

GC_THRESHOLD = 10_000
"""So many containers more than before, and Python looks for rings among the young ones; of itself,
every 700. What was claimed lives for as long as its handlers take, and would be looked at again and
again, in vain."""


def tune_process() -> None:
    """Makes the settings, but where somebody has gone further."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL_SECONDS))
    young, *older = gc.get_threshold()
    if young:  # With 0 there is no looking at all.
        gc.set_threshold(max(young, GC_THRESHOLD), *older)


CLEANUP_SECONDS = 2.0
"""So long a task may take to end when everything else has. A thread is not waited for."""

_ROLE_DESCRIPTIONS = {"scheduler": "planning schedules", "api": "serving the API"}

_is_forbidden = Event()

_log = logging.getLogger("tickwork")


def forbid_apps() -> None:
    """This process is here to handle messages for another one: no app runs in it."""
    _is_forbidden.set()


def check_may_run() -> None:
    """Raises `InvalidInput` if no app may run here."""
    if _is_forbidden.is_set():
        fault = (
            "the app is run by a module that a handler's process only imports; put it under "
            "`if __name__ == '__main__':`"
        )
        raise InvalidInput([FieldError("app.run()", fault)])


def announce(queues: Iterable[str], roles: Iterable[str], log_format: str | None) -> None:
    """Says what this process does, of what its roles may be: to somebody at a terminal in a
    sentence; where lines are JSON this is one too."""
    from tickwork.service.observe.log_format import (
        choose_format,  # Heavy, and whoever only sends does without.
    )

    known = sorted(roles)
    handled = sorted(set(queues)) if "worker" in known else []
    if choose_format(log_format) == "console":
        doing = [f"handling {', '.join(handled)}"] if handled else []
        doing += [said for role, said in _ROLE_DESCRIPTIONS.items() if role in known]
        sys.stderr.write(f"tickwork: {'; '.join([*doing, 'Ctrl-C stops'])}\n")
    else:
        _log.info(LogEvent("handling" if handled else "running", queues=handled, roles=known))


def run_until_stopped(
    work: Callable[[], AbstractAsyncContextManager[Any]],
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Enters, waits for SIGTERM or SIGINT, and leaves; a second signal does not wait for that."""
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
    """Raises `InvalidInput` if an event loop runs in this thread: it would stand still."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    fault = (
        "makes an event loop, and one runs here already; call it outside of coroutines, or use "
        "`async with app.running():`"
    )
    raise InvalidInput([FieldError("app.run()", fault)])


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what is left. Unlike under `asyncio.run`, a task that will not be cancelled (a handler
    that was left behind), or a generator that will not close, keeps the process from ending only
    for a moment, and a thread of `asyncio.to_thread` not at all."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=CLEANUP_SECONDS))
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
        _log.info(LogEvent("stopping: what runs is finished, the rest is given back"))


def _stop(stop: asyncio.Event, loop: asyncio.AbstractEventLoop) -> None:
    stop.set()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(each)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # There is none for this system.
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


LISTEN_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; `InvalidInput` that names `host` or `port` if it cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server(address, family=family, backlog=LISTEN_BACKLOG)
    except (socket.gaierror, UnicodeError):
        fault = f"the host {host!r} is not known; choose another"
        raise InvalidInput([FieldError("host", fault)]) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        fault = f"port {port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("port", fault)]) from None
