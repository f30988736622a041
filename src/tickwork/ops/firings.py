"""The history of a schedule, newest first: what is planned or running, then what is recorded."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tickwork.core.limits import LIST_LIMIT_MAX, check_limit
from tickwork.core.model import Message, Scope, State
from tickwork.core.schedule.firing import Firing, FiringStatus, OpenFiring
from tickwork.store.contract import Store

Place = tuple[datetime | None, UUID]
"""Of a firing: when it finished, if it has, and its id."""

OPEN = frozenset({FiringStatus.PLANNED, FiringStatus.RUNNING})


async def history(
    store: Store,
    scope: Scope,
    schedule_id: UUID,
    limit: int,
    *,
    status: FiringStatus | None = None,
    before: Place | None = None,
) -> tuple[Firing | OpenFiring, ...]:
    """What became of slots, of a status, from before another one on. The first page begins with
    what is not over, the nearest of it if it is much; behind that comes what is recorded."""
    check_limit(limit)
    if status in OPEN:
        found = await _not_over(store, scope, schedule_id, LIST_LIMIT_MAX)
        return () if before else tuple(each for each in found if each.status is status)[-limit:]
    if status is not None or before is not None:
        return await _recorded(store, scope, schedule_id, limit, status, before)
    there = await _not_over(store, scope, schedule_id, limit)
    records: tuple[Firing, ...] = ()
    if len(there) < limit:
        records = await store.firings.list(scope, schedule_id, limit - len(there))
    ended = {(each.slot, each.run): each.attempt for each in reversed(records)}
    still = [each for each in there if ended.get((each.slot, each.run), 0) < _next_attempt(each)]
    return (*still, *records)


async def _recorded(
    store: Store,
    scope: Scope,
    schedule_id: UUID,
    limit: int,
    status: FiringStatus | None,
    before: Place | None,
) -> tuple[Firing, ...]:
    place: tuple[datetime, UUID] | None = None
    if before is not None and before[0] is not None:
        place = before[0], before[1]
    return await store.firings.list(scope, schedule_id, limit, status=status, before=place)


async def _not_over(
    store: Store, scope: Scope, schedule_id: UUID, limit: int
) -> tuple[OpenFiring, ...]:
    """The earliest that are messages, the latest of them first."""
    messages = await store.schedules.messages(scope, schedule_id, limit)
    return tuple(_open(each) for each in reversed(messages))


def _open(message: Message) -> OpenFiring:
    assert message.schedule_id is not None
    assert message.slot is not None
    runs = message.state is State.CLAIMED
    return OpenFiring(
        id=message.id,
        tenant=message.tenant,
        schedule_id=message.schedule_id,
        slot=message.slot,
        run=message.run,
        attempt=message.attempts + runs,
        status=FiringStatus.RUNNING if runs else FiringStatus.PLANNED,
        due_at=message.due_at or message.slot,
        catch_up=message.catch_up,
    )


def _next_attempt(firing: OpenFiring) -> int:
    """The attempt that is not recorded yet: if it is, the message ended between the two looks."""
    return firing.attempt + (firing.status is FiringStatus.PLANNED)
