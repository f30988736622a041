"""Reads runs on SQLite: those that many workers ask for, in one read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tickwork.core.limits import is_name
from tickwork.core.workflow.model import (
    EVENT_BYTES,
    STEP_BYTES,
    Run,
    RunHistory,
    RunPage,
    RunStep,
    RunWindow,
)
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.workflows import checkpoints

RUNS_READ_MAX = 100
"""Maximum number of runs that are read at once. While one group is replayed, the next is read."""


class Asked(NamedTuple):
    """A run to read, and what of it."""

    tenant: str
    run_id: str
    with_steps: bool = False
    with_events: bool = False


class Histories:
    """Reads runs with their steps and events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._coalescer: Coalescer[Asked, RunHistory | None] = Coalescer(
            self._read, flights_max=2, rows_max=RUNS_READ_MAX
        )

    async def read(self, asked: Asked) -> RunHistory | None:
        """A run; None if there is none."""
        return await self._coalescer.submit(asked)

    async def page(self, tenant: str, run_id: str, window: RunWindow) -> RunPage | None:
        """A run with a window of its steps; None if there is none."""
        return await self._database.read(
            lambda transaction: _read_page(transaction, tenant, run_id, window)
        )

    def _read(self, asked: Sequence[Asked]) -> asyncio.Future[list[RunHistory | None]]:
        return self._database.read(
            lambda transaction: [read_history(transaction, request) for request in asked]
        )


def find_run(transaction: Transaction, tenant: str, run_id: str) -> Run | None:
    """A run; None if there is none."""
    row = None
    if is_name(tenant) and is_name(run_id):
        row = transaction.execute(SQL.get_run, (tenant, run_id)).fetchone()
    return None if row is None else checkpoints.run(row)


def read_history(transaction: Transaction, asked: Asked) -> RunHistory | None:
    """A run with what is asked of it; None if there is none."""
    run = find_run(transaction, asked.tenant, asked.run_id)
    if run is None:
        return None
    execute, uid = transaction.execute, (run.uid.bytes,)
    steps = execute(SQL.run_steps, uid).fetchall() if asked.with_steps else ()
    has_events = asked.with_events and run.signals
    events = execute(SQL.run_events, uid).fetchall() if has_events else ()
    return RunHistory(
        run,
        tuple(map(checkpoints.run_step, steps)),
        tuple(map(checkpoints.run_event, events)),
        from_microseconds(transaction.now),
    )


def _read_page(
    transaction: Transaction, tenant: str, run_id: str, window: RunWindow
) -> RunPage | None:
    run = find_run(transaction, tenant, run_id)
    if run is None:
        return None
    execute, uid = transaction.execute, run.uid.bytes
    steps = tuple[RunStep, ...]()
    if window.limit:
        asked = (uid, window.offset, window.limit, window.bytes_max, STEP_BYTES)
        steps = tuple(map(checkpoints.run_step, execute(SQL.run_steps_window, asked).fetchall()))
    open_steps = execute(SQL.open_run_steps, (uid, transaction.now)).fetchall()
    (total,) = execute(SQL.count_run_steps, (uid,)).fetchone()
    left = (uid, window.events_offset, window.bytes_left(steps), EVENT_BYTES, not steps)
    events = execute(SQL.run_events_window, left).fetchall()
    (events_total,) = execute(SQL.count_run_events, (uid,)).fetchone()
    return RunPage(
        run,
        steps,
        total,
        tuple(map(checkpoints.run_step, open_steps)),
        tuple(map(checkpoints.run_event, events)),
        from_microseconds(transaction.now),
        events_total,
    )
