"""Reads everything of one correlation: messages, dead letters, deliveries, runs, steps, firings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core.answers.ids import Prefix, parse_public_id, public_id, spellings
from tickwork.core.fields import TEXT_LENGTH_MAX, text_faults
from tickwork.core.trace import RECORDS_MAX, Trace, TraceNode, TraceRecord, trace_of
from tickwork.core.workflow.model import Run, RunPage, RunWindow, StepError
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.why import why_waits
from tickwork.ops.workflow_views import step_at
from tickwork.ops.workflows import summaries

INSIDE_MAX = 50
"""Number of runs and slots of a trace whose steps and firings are read."""

STEPS_MAX = 1_000
"""Number of steps of a run that a trace shows."""


async def trace_anything(context: Context, text: str) -> Trace:
    """The trace of a correlation id, or of a message, a dead letter or a run by its id."""
    correlation_id = text
    with suppress(NotFound):
        correlation_id = (await why_waits(context, text)).correlation_id or text
    return await read_trace(context, correlation_id)


async def read_trace(context: Context, correlation_id: str) -> Trace:
    """The trace of a correlation id; raises `NotFound` if nothing of it is left."""
    faults = text_faults("correlation_id", correlation_id, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)
    found = await _find(context, correlation_id)
    if not found:
        raise NotFound("trace", correlation_id, "nothing with this correlation id is left")
    records, is_cut = found[:RECORDS_MAX], len(found) > RECORDS_MAX
    inside: dict[UUID, tuple[TraceNode, ...]] = {}
    runs = list[Run]()
    for record in records:
        if len(inside) >= INSIDE_MAX:
            is_cut = True
            break
        if record.kind == "run":
            with suppress(NotFound):
                page = await context.store.workflows.page(
                    context.scope, record.name, RunWindow(0, STEPS_MAX)
                )
                inside[record.id] = _steps(page)
                runs.append(page.run)
                is_cut = is_cut or page.steps_total > STEPS_MAX
        elif record.schedule_id is not None and record.slot is not None:
            inside[record.id] = await _firings(context, record, record.schedule_id, record.slot)
    statuses = {shown.id: shown.status for shown in await summaries(context, runs)}
    records = [_with_status(record, statuses) for record in records]
    return trace_of(correlation_id, records, inside, is_cut=is_cut)


def _with_status(record: TraceRecord, statuses: Mapping[str, str]) -> TraceRecord:
    """A record of a run says what lists say of it: that it sleeps, waits or is paused."""
    if record.kind != "run" or record.name not in statuses:
        return record
    return structs.replace(record, state=statuses[record.name])


async def _find(context: Context, correlation_id: str) -> Sequence[TraceRecord]:
    """The records of a correlation id, in each spelling of one that is an id."""
    first = parse_public_id(correlation_id)
    if first is None:
        return await context.store.traces.find(
            context.scope, correlation_id, RECORDS_MAX + 1, first=None
        )
    found: dict[tuple[str, UUID], TraceRecord] = {}
    for spelling in spellings(correlation_id):
        records = await context.store.traces.find(
            context.scope, spelling, RECORDS_MAX + 1, first=first
        )
        found |= {(record.kind, record.id): record for record in records}
    return sorted(found.values(), key=lambda record: (record.at, record.id))


def _steps(page: RunPage) -> tuple[TraceNode, ...]:
    return tuple(
        TraceNode(
            kind="step",
            id=current.key,
            name=str(current.kind),
            state=str(current.state),
            at=current.started_at,
            ended_at=current.finished_at,
            attempts=current.attempts,
            error=_error(current.error),
        )
        for current in (step_at(step, page.now) for step in page.steps)
    )


def _error(stored: bytes | None) -> str | None:
    if stored is None:
        return None
    error = msgspec.json.decode(stored, type=StepError)
    return f"{error.type}: {error.message}"


async def _firings(
    context: Context, record: TraceRecord, schedule_id: UUID, slot: datetime
) -> tuple[TraceNode, ...]:
    found = await context.store.firings.of_slot(context.scope, schedule_id, slot)
    return tuple(
        TraceNode(
            kind="firing",
            id=public_id(Prefix.FIRING, firing.id),
            name=record.name,
            state=str(firing.status),
            at=firing.started_at,
            ended_at=firing.finished_at,
            attempts=firing.attempt,
            error=firing.reason,
        )
        for firing in found
    )
