"""Finds things of all kinds by one text: an id, a name, an owner, a key or a correlation id.

An id is looked up as such. Names are found by a part of them, those of schedules and entities by
their beginning: there may be millions, and an index finds these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from tickwork.core.answers.ids import Prefix, parse_public_id, public_id
from tickwork.core.answers.search import Finding, Findings
from tickwork.core.entity.call import check_key
from tickwork.core.fields import TEXT_LENGTH_MAX, text_faults
from tickwork.core.limits import ENDPOINTS_MAX
from tickwork.core.schedule.model import Schedule, ScheduleSelection
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.endpoints import list_endpoints
from tickwork.ops.entities import type_names
from tickwork.ops.queues import list_queues
from tickwork.ops.schedules.lookup import get_schedule, list_schedules
from tickwork.ops.trace import read_trace
from tickwork.ops.why import why_run, why_waits
from tickwork.ops.workflows import list_workflows

FOUND_MAX = 5
"""Maximum number of things of one kind."""

_MARKED = ("…", "...", *(f"{prefix}_" for prefix in Prefix))
"""How the end of an id begins where one is meant."""

TYPES_MAX = 50
"""Maximum number of types of entities whose keys are searched."""


async def search(context: Context, text: str) -> Findings:
    """Returns what a text names: exact ids first, then names, up to five of each kind."""
    faults = text_faults("q", text, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)
    found = list[Finding]()
    cut = list[bool]()
    for step in (_by_id, _schedules, _named, _entities, _correlated):
        of_kind: dict[str, int] = {}
        async for finding in step(context, text):
            of_kind[finding.kind] = of_kind.get(finding.kind, 0) + 1
            if of_kind[finding.kind] <= FOUND_MAX:
                found.append(finding)
        cut.append(any(number > FOUND_MAX for number in of_kind.values()))
    unique = {(finding.kind, finding.parent, finding.id): finding for finding in reversed(found)}
    return Findings(items=tuple(reversed(unique.values())), is_cut=any(cut))


async def _by_id(context: Context, text: str) -> AsyncIterator[Finding]:
    """The thing with this id, or the run with this name."""
    with suppress(NotFound, InvalidInput):
        # The end of an id is found by reading all ids, and any number may be one.
        is_end = parse_public_id(text) is None and not text.startswith(_MARKED)
        answer = await (why_run if is_end else why_waits)(context, text)
        run = None
        if answer.kind == "run":
            run = (await context.store.workflows.get(context.scope, answer.id)).workflow
        yield Finding(
            kind=answer.kind, id=answer.id, name=answer.id, parent=run, note=answer.answer
        )
    if (uid := parse_public_id(text)) is not None:
        with suppress(NotFound):
            yield _schedule(await get_schedule(context, uid))
        with suppress(NotFound):
            batch = await context.store.batches.get(context.scope, uid)
            id_ = public_id(Prefix.BATCH, uid)
            yield Finding(kind="batch", id=id_, name=id_, note=str(batch.status))


async def _schedules(context: Context, text: str) -> AsyncIterator[Finding]:
    """Schedules whose name begins with a text, and those of an owner of this name."""
    for selection in (ScheduleSelection(name_prefix=text), ScheduleSelection(owner=text)):
        for schedule in await list_schedules(context, selection, limit=FOUND_MAX + 1):
            yield _schedule(schedule)


def _schedule(schedule: Schedule) -> Finding:
    id_ = public_id(Prefix.SCHEDULE, schedule.id)
    owner = schedule.owner
    note = str(schedule.status) if owner is None else f"{schedule.status}, of {owner}"
    return Finding(kind="schedule", id=id_, name=schedule.name or id_, note=note)


async def _named(context: Context, text: str) -> AsyncIterator[Finding]:
    """Queues, endpoints and workflows with a text in their name."""
    for queue in await list_queues(context):
        if _fits(text, queue.name):
            yield Finding(kind="queue", id=queue.name, name=queue.name)
    for endpoint in await list_endpoints(context, limit=ENDPOINTS_MAX):
        if _fits(text, endpoint.name):
            yield Finding(kind="endpoint", id=str(endpoint.id), name=endpoint.name)
    for workflow in await list_workflows(context.store):
        if _fits(text, workflow):
            yield Finding(kind="workflow", id=workflow, name=workflow)


def _fits(text: str, name: str) -> bool:
    return text.casefold() in name.casefold()


async def _entities(context: Context, text: str) -> AsyncIterator[Finding]:
    """Types of entities with a text in their name, and entities whose key begins with it."""
    types: Sequence[str] = await type_names(context.store)
    for type_ in types:
        if _fits(text, type_):
            yield Finding(kind="entity type", id=type_, name=type_)
    with suppress(InvalidInput):
        check_key(text)
        for type_ in types[:TYPES_MAX]:
            found = await context.store.entities.list(
                context.scope, type_, FOUND_MAX + 1, prefix=text, after=""
            )
            for entity in found:
                yield Finding(kind="entity", id=entity.key, name=entity.key, parent=type_)


async def _correlated(context: Context, text: str) -> AsyncIterator[Finding]:
    """The trace of a correlation id."""
    with suppress(NotFound):
        trace = await read_trace(context, text)
        yield Finding(kind="trace", id=trace.correlation_id, name=trace.correlation_id)
