"""A process of its own for an app: what it prints, what it serves, and how it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from tickwork import wiring
from tickwork.engine.app_engine import AppEngine
from tickwork.ops.context import Context
from tickwork.ops.keys import create_first_key, first_key_text
from tickwork.ops.schedules.next_fires import upcoming
from tickwork.ops.stores import Store
from tickwork.service.process_lifecycle import (
    Shutdown,
    ShutdownReport,
    announce,
    print_on_terminal,
    print_once,
    run_until_stopped,
)
from tickwork.wiring import server

if TYPE_CHECKING:
    from tickwork.service.processes.child import ParentLink
    from tickwork.service.worker.worker import Worker


_log = logging.getLogger("tickwork")


def run(
    engine: AppEngine,
    on_started: Callable[[], None],
    options: dict[str, Any],
    parent: ParentLink | None = None,
) -> None:
    """Runs this process until SIGTERM or SIGINT, then drains. With a `parent` it is one of several,
    and serves at the sockets of that."""
    chosen = engine.settings(**options)
    opening = [f"version {_version()}, database {wiring.shown_database(chosen)}"]

    async def look_ahead(store: Store) -> None:
        if coming := (await upcoming(Context(store, engine.own_scope), limit=1)).fires:
            at, name = coming[0].due_at.astimezone(), coming[0].name or coming[0].schedule_id
            opening.append(f"next tick {at:%Y-%m-%d %H:%M:%S %Z}: {name}")

    async def report_first_key(url: str) -> None:
        made = await create_first_key(await engine.open(), chosen.admin_key)
        if made is not None:
            print_once(first_key_text(made, url, is_chosen=chosen.admin_key is not None))

    def started() -> None:
        if parent is not None:
            parent.ready(is_alone=wiring.has_one_writer(chosen))
            if not parent.set_up.is_first:
                return
        for line in opening:
            print_on_terminal(line, chosen.log_format)
        handled = [handler.queue for handler in engine.registry.handlers]
        announce(handled, chosen.roles, chosen.log_format)
        on_started()

    def hosted() -> AbstractAsyncContextManager[Worker]:
        types = engine.tenant, engine.payload_sent
        return server.hosted(
            chosen, running, engine.http_application, report_first_key, types, parent
        )

    drain_seconds = chosen.drain_seconds
    running = partial(
        engine.running, drain_seconds=drain_seconds, roles=chosen.roles, on_declared=look_ahead
    )
    report = ShutdownReport(chosen.log_format, drain_seconds)
    if parent is None:
        if chosen.processes != 1:
            _log.warning("app.run() runs one process; `tickwork run` runs %s", chosen.processes)
        attach: Callable[[Shutdown], None] = _alone
    else:
        attach = parent.attach
    before = partial(server.prepare, chosen, parent)
    try:
        run_until_stopped(hosted, started, report, before, attach)
    finally:
        if parent is not None:
            parent.write_metrics()


def _alone(_: Shutdown) -> None:
    """Only signals end a process without a parent."""


def _version() -> str:
    from tickwork import __version__  # It imports us.

    return __version__
