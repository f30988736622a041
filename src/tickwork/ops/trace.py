"""Reads everything of one correlation: messages that wait or have ended, dead letters, deliveries
with their attempts, runs with their steps, firings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core.answers.ids import Prefix, parse_public_id, public_id, spellings
from tickwork.core.fields import TEXT_LENGTH_MAX, text_faults
from tickwork.core.message.history import HistorySelection
from tickwork.core.trace import RECORDS_MAX, Trace, TraceNode, TraceRecord, trace_of
from tickwork.core.workflow.model import Run, RunPage, RunWindow, StepError
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.why import why_waits
from tickwork.ops.workflow_views import step_at
from tickwork.ops.workflows import summaries

INSIDE_MAX = 50
"""Number of runs, slots and deliveries of a trace whose steps, firings and attempts are read."""

STEPS_MAX = 1_000
"""Number of steps of a run that a trace shows."""

ATTEMPTS_MAX = 100
"""Number of attempts at a delivery that a trace shows."""


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
        elif record.kind == "delivery":
            inside[record.id] = await _attempts(context, record.id)
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
    found: dict[tuple[str, UUID, str], TraceRecord] = {}
    for spelling in spellings(correlation_id) if first else (correlation_id,):
        # What ends between the two is found twice, and not missed.
        stored = await context.store.traces.find(
            context.scope, spelling, RECORDS_MAX + 1, first=first
        )
        for record in (*await _ended(context, spelling, first), *stored):
            found[record.kind, record.id, record.name] = record
    dead = {(record.message_id, record.name) for record in found.values() if is_letter(record)}
    shown = [
        record
        for record in found.values()
        if is_letter(record) or (record.message_id, record.name) not in dead
    ]
    return sorted(shown, key=lambda record: (record.at, record.id))


def is_letter(record: TraceRecord) -> bool:
    """Whether it is a dead letter, which stands for its message."""
    return record.kind == "dead_letter"


async def _ended(
    context: Context, correlation_id: str, first: UUID | None
) -> Sequence[TraceRecord]:
    """The messages of a correlation that have ended, and the one that began it."""
    selection = HistorySelection(correlation_id=correlation_id)
    page = await context.store.history.page(context.scope, selection, RECORDS_MAX + 1)
    ended = list(page.records)
    if first is not None:
        with suppress(NotFound):
            ended.append(await context.store.history.get(context.scope, first))
    return [
        TraceRecord(
            kind="message",
            id=record.id,
            message_id=record.id,
            name=record.queue,
            state=record.outcome,
            type=record.type,
            at=record.sent_at,
            ended_at=record.ended_at,
            causation_id=record.causation_id,
            event_id=record.event_id,
            attempts=record.attempts,
            schedule_id=record.schedule_id,
            slot=record.slot,
            error=record.reason,
        )
        for record in ended
    ]


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


async def _attempts(context: Context, delivery_id: UUID) -> tuple[TraceNode, ...]:
    try:
        found = await context.store.endpoints.attempts(
            context.scope, delivery_id, limit=ATTEMPTS_MAX
        )
    except NotFound:  # It was deleted meanwhile.
        return ()
    return tuple(
        TraceNode(
            kind="attempt",
            id=f"{public_id(Prefix.DELIVERY, delivery_id)}/{attempt.number}",
            state="delivered" if attempt.is_delivered else "failed",
            at=attempt.at,
            ended_at=attempt.at + timedelta(seconds=attempt.took_seconds),
            attempts=attempt.number,
            error=attempt.error,
        )
        for attempt in found
    )


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
