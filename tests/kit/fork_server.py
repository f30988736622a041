"""A program of its own: forks children that have imported the package already.

    python -m tests.kit.fork_server SOCKET_FD PARENT_PID

Contract: a child is a child of the test process (`CLONE_PARENT`), on a leash as leash.py has it,
and goes on as `python -m module` would, with the environment and folder that it is given. The
numbers of descriptors that it gets besides are its last arguments. An import
of all of the package takes half a second of processor time; a fork takes a hundredth of it. Nothing
here makes an id or a random number, or children would make the same.
"""

import ctypes
import gc
import importlib
import json
import os
import platform
import runpy
import signal
import socket
import sys
import time
from typing import Any

from tests.kit.leash import leash

CLONE_PARENT = 0x8000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
REQUEST_BYTES_MAX = 1 << 20
DESCRIPTORS = 5
IMPORTED = (
    "aiohttp",
    "aiosmtplib",
    "anyio._backends._asyncio",
    "asyncpg",
    "litestar._kwargs.kwargs_model",
    "litestar.middleware._internal.exceptions.middleware",
    "litestar.middleware.response_cache",
    "litestar.plugins.attrs",
    "litestar.plugins.pydantic",
    "pytest",
    "uvloop",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "tickwork.api.application",
    "tickwork.api.serve",
    "tickwork.channel.webhook",
    "tickwork.cli.queues",
    "tickwork.cli.run",
    "tickwork.cli.up",
    "tickwork.client",
    "tickwork.facade.app",
    "tickwork.service.observe.log_format",
    "tickwork.service.observe.metrics",
    "tickwork.service.observe.watchdog",
    "tickwork.service.scheduler.scheduler",
    "tickwork.service.worker.worker",
    "tickwork.store.postgres.store",
    "tickwork.store.sqlite.store",
    "tickwork.testing",
)


def is_possible() -> bool:
    """Whether this machine forks for another parent."""
    return sys.platform == "linux" and platform.machine() in SYS_CLONE


def fork_for_parent() -> int:
    """As `os.fork`, but the child is a child of our parent."""
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    # PyDLL keeps the lock of the interpreter: the child has it, too.
    pid: int = ctypes.PyDLL(None).syscall(
        SYS_CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0
    )
    if pid:
        python.PyOS_AfterFork_Parent()
    else:
        python.PyOS_AfterFork_Child()
    return pid


def serve(requests: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks a child for each request. Returns in a child, with what it was asked for."""
    while True:
        asked, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, DESCRIPTORS)
        if not asked:
            sys.exit()
        pid = fork_for_parent()
        if not pid:
            requests.close()
            return json.loads(asked), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(pid).encode())


def become(asked: dict[str, Any], descriptors: list[int], parent_pid: int) -> None:
    """Sets up this process as if it had been started for what is asked."""
    stdout, stderr, events, control, *others = descriptors
    os.setsid()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    for source, target in ((stdout, 1), (stderr, 2)):
        os.dup2(source, target)
        os.close(source)
    leash(parent_pid, events, control)
    sys.path[0] = asked["folder"]
    sys.argv = [asked["module"], *asked["arguments"], *map(str, others)]
    time.tzset()


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    connection, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    wanted, given = serve(connection)
    become(wanted, given, parent)
    runpy.run_module(wanted["module"], run_name="__main__", alter_sys=True)
