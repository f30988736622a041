"""Runs an app in several processes: how many, what they listen on, and their parent."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import ExitStack
from math import ceil
from pathlib import Path

from tickwork.core.merged_metrics import MetricFamily
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.observe.log_set_up import LogSetUp
from tickwork.service.observe.metrics import serve_metrics
from tickwork.service.process_lifecycle import listen
from tickwork.service.processes.metrics import merged_registry
from tickwork.service.processes.parent import App, Parent
from tickwork.settings import AUTO, Role, Settings
from tickwork.wiring.server import check_ports

_QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Where a container on Linux reads how much processor time it has: microseconds of a period."""


def run_processes(app: App, settings: Settings) -> int:
    """Runs the app in as many processes as the settings say, until a signal ends them. Returns the
    exit code. Raises `InvalidInput` if a port cannot be used."""
    if os.name != "posix":
        fault = "this system cannot pass sockets on to processes; run one"
        raise InvalidInput([FieldError("processes", fault)])
    check_ports(settings)
    LogSetUp(settings.log_format, settings.log_level).apply()
    with ExitStack() as opened:
        listeners = {
            role: opened.enter_context(listener) for role, listener in _listen(settings).items()
        }
        parent = Parent(
            app,
            listeners,
            wanted=_count(settings),
            drain_seconds=settings.drain_seconds,
        )
        return asyncio.run(_run(parent, settings))


async def _run(parent: Parent, settings: Settings) -> int:
    """Runs the parent, and serves the metrics of all its processes if `metrics_port` is set."""
    loop = asyncio.get_running_loop()

    def fetch() -> tuple[MetricFamily, ...]:
        return asyncio.run_coroutine_threadsafe(parent.metrics(), loop).result()

    with ExitStack() as served:
        if settings.metrics_port is not None:
            host, port = settings.metrics_host, settings.metrics_port
            served.enter_context(serve_metrics(merged_registry(fetch), host=host, port=port))
        return await parent.run()


def _listen(settings: Settings) -> dict[str, socket.socket]:
    """The listening sockets of the roles of these settings."""
    found = dict[str, socket.socket]()
    if Role.API in settings.roles:
        found[Role.API] = listen(settings.host, settings.port)
    if Role.HTTP in settings.roles:
        try:
            found[Role.HTTP] = listen(settings.http_host, settings.http_port)
        except InvalidInput:
            for listener in found.values():
                listener.close()
            raise
    return found


def _count(settings: Settings) -> int:
    """How many processes the settings ask for."""
    if settings.processes != AUTO:
        return int(settings.processes)
    cores = _usable_cores()
    try:
        quota, period = _QUOTA.read_text().split()
        return max(min(cores, ceil(int(quota) / int(period))), 1)
    except (OSError, ValueError):  # There is no such file, or no limit in it.
        return cores


def _usable_cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
