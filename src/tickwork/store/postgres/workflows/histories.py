"""Reads runs on PostgreSQL: those that many workers ask for, in at most three statements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tickwork.core.workflow.model import (
    EVENT_BYTES,
    STEP_BYTES,
    RunEvent,
    RunHistory,
    RunPage,
    RunStep,
    RunWindow,
    StepKind,
    StepState,
)
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.columns import RUN_STEP, read_run
from tickwork.store.shared.group_commit import Coalescer

RUNS_READ_MAX = 100
"""Maximum number of runs that are read at once. While one group is replayed, the next is read."""

_KINDS = {str(kind): kind for kind in StepKind}
_STATES = {str(state): state for state in StepState}
_STEP_FIELDS, _EVENT_FIELDS = [name for name, _ in RUN_STEP], RunEvent.__struct_fields__


class Asked(NamedTuple):
    """A run to read, and what of it."""

    tenant: str
    run_id: str
    with_steps: bool = False
    with_events: bool = False


class Histories:
    """Reads runs with their steps and events."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment
        self._coalescer: Coalescer[Asked, RunHistory | None] = Coalescer(
            self._read, flights_max=2, rows_max=RUNS_READ_MAX
        )

    async def read(self, asked: Asked) -> RunHistory | None:
        """A run; None if there is none."""
        return await self._coalescer.submit(asked)

    async def page(self, tenant: str, run_id: str, window: RunWindow) -> RunPage | None:
        """A run with a window of its steps; None if there is none."""
        return await self._database.run(
            lambda connection: self._page_on(connection, (tenant, run_id), window)
        )

    async def _read(self, asked: Sequence[Asked]) -> list[RunHistory | None]:
        return await self._database.run(lambda connection: self._read_on(connection, asked))

    async def _read_on(
        self, connection: Connection, asked: Sequence[Asked]
    ) -> list[RunHistory | None]:
        found = await find_runs(connection, self._moment, {request[:2] for request in asked})
        runs = [found.get(request[:2]) for request in asked]
        both = [
            (request, history.run) for request, history in zip(asked, runs, strict=True) if history
        ]
        steps = await _steps(connection, {run.uid for request, run in both if request.with_steps})
        events = await _events(
            connection, {run.uid for request, run in both if request.with_events and run.signals}
        )
        return [
            None
            if history is None
            else RunHistory(
                history.run,
                tuple(steps.get(history.run.uid, ())) if request.with_steps else (),
                tuple(events.get(history.run.uid, ())) if request.with_events else (),
                history.now,
            )
            for request, history in zip(asked, runs, strict=True)
        ]

    async def _page_on(
        self, connection: Connection, named: tuple[str, str], window: RunWindow
    ) -> RunPage | None:
        found = (await find_runs(connection, self._moment, [named])).get(named)
        if found is None:
            return None
        uid, now = found.run.uid, found.now
        steps = tuple[RunStep, ...]()
        if window.limit:
            asked = (uid, window.offset, window.limit, window.bytes_max, STEP_BYTES)
            steps = tuple(map(_step, await connection.fetch(SQL.run_steps_window, *asked)))
        open_steps = await connection.fetch(SQL.open_run_steps, uid, now)
        total = await connection.fetchval(SQL.count_run_steps, uid)
        left = (window.events_offset, window.bytes_left(steps), EVENT_BYTES, not steps)
        events = await connection.fetch(SQL.run_events_window, uid, *left)
        return RunPage(
            found.run,
            steps,
            total,
            tuple(map(_step, open_steps)),
            tuple(map(_event, events)),
            now,
            await connection.fetchval(SQL.count_run_events, uid),
        )


async def find_runs(
    connection: Connection, moment: Moment, named: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], RunHistory]:
    """Those of the runs that exist, by tenant and id, without steps and events."""
    tenants, ids = zip(*named, strict=True)
    rows = await connection.fetch(SQL.find_runs, moment(), tenants, ids)
    found = [RunHistory(read_run(values), (), (), now) for now, *values in rows]
    return {(history.run.tenant, history.run.id): history for history in found}


async def _steps(connection: Connection, uids: Collection[UUID]) -> dict[UUID, list[RunStep]]:
    found: dict[UUID, list[RunStep]] = {}
    if uids:
        for uid, *values in await connection.fetch(SQL.run_steps, [*uids]):
            found.setdefault(uid, []).append(_step(values))
    return found


def _step(values: Iterable[Any]) -> RunStep:
    fields = dict(zip(_STEP_FIELDS, values, strict=True))
    fields["kind"], fields["state"] = _KINDS[fields["kind"]], _STATES[fields["state"]]
    return RunStep(**fields)


async def _events(connection: Connection, uids: Collection[UUID]) -> dict[UUID, list[RunEvent]]:
    found: dict[UUID, list[RunEvent]] = {}
    if uids:
        for uid, *values in await connection.fetch(SQL.run_events, [*uids]):
            found.setdefault(uid, []).append(_event(values))
    return found


def _event(values: Iterable[Any]) -> RunEvent:
    return RunEvent(**dict(zip(_EVENT_FIELDS, values, strict=True)))
