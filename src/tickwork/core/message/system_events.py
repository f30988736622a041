"""What the system itself has to tell, as events that can be subscribed to.

| type | when | whose |
|---|---|---|
| `message.dead` | a message became a dead letter | its tenant's |
| `firing.dead` | that message was a slot of a schedule | its tenant's |
| `schedule.paused` | a dead firing paused its schedule (`on_dead`) | its tenant's |
| `shard.stalled` | schedules of a shard wait for far too long | `default`'s |

An event belongs to no queue: it goes to those who subscribe to its type, in the transaction in
which it happened. Its id follows from what happened, so that a repeat is one. The death of such an
event is not told, nor that of a message with too many hops: whoever hears of a death may send what
dies in turn, and that must come to an end.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.hashing import derived_id
from tickwork.core.limits import HOPS_MAX
from tickwork.core.message.error_summary import summary
from tickwork.core.message.subscription import matches
from tickwork.core.model import REASON_TOO_MANY_HOPS, NewMessage
from tickwork.core.when import iso

SYSTEM_SOURCE = "tickwork"

MESSAGE_DEAD = "message.dead"
FIRING_DEAD = "firing.dead"
SCHEDULE_PAUSED = "schedule.paused"
SHARD_STALLED = "shard.stalled"
SYSTEM_TYPES = (MESSAGE_DEAD, FIRING_DEAD, SCHEDULE_PAUSED, SHARD_STALLED)

SYSTEM_TENANT = "default"
"""Whose events those of the system as a whole are."""


class DeadMessage(Struct, frozen=True, kw_only=True):
    """A message that became a dead letter: in this queue, where it came at `sent_at`."""

    tenant: str
    dead_letter_id: UUID
    message_id: UUID
    queue_id: UUID
    queue: str
    type: str | None
    source: str | None
    reason: str
    error: str | None
    attempts: int
    sent_at: datetime
    correlation_id: str | None
    hops: int
    schedule_id: UUID | None
    slot: datetime | None
    run: int


def matches_system_event(types: str) -> bool:
    """Whether a pattern fits anything that is told here."""
    return any(matches(types, each) for each in SYSTEM_TYPES)


def dead_message_events(death: DeadMessage) -> tuple[NewMessage, ...]:
    """What is to be told of a death."""
    is_own = death.source == SYSTEM_SOURCE and death.type in SYSTEM_TYPES
    if is_own or death.reason == REASON_TOO_MANY_HOPS:
        return ()
    told: dict[str, object] = {
        "tenant": death.tenant,
        "message_id": str(death.message_id),
        "dead_letter_id": str(death.dead_letter_id),
        "queue": death.queue,
        "type": death.type,
        "source": death.source,
        "reason": death.reason,
        "error": summary(death.error),
        "attempts": death.attempts,
    }
    types = [MESSAGE_DEAD]
    if death.schedule_id is not None and death.slot is not None:
        schedule = str(death.schedule_id)
        told |= {"schedule_id": schedule, "slot": iso(death.slot), "run": death.run}
        types.append(FIRING_DEAD)
    # Where it died and since when it was there: one that moved on may die there, too.
    base = derived_id(death.message_id, f"{death.queue_id.hex}:{death.sent_at.isoformat()}")
    return tuple(
        _event(
            type_,
            derived_id(base, type_),
            told,
            correlation_id=death.correlation_id or str(death.message_id),
            causation_id=str(death.message_id),
            hops=min(death.hops + 1, HOPS_MAX - 1),
        )
        for type_ in types
    )


def schedule_paused_event(
    tenant: str, schedule_id: UUID, slot: datetime, error: str | None
) -> NewMessage:
    """What is to be told of a schedule that a dead firing paused; `slot` is the one that died."""
    told: dict[str, object] = {
        "tenant": tenant,
        "schedule_id": str(schedule_id),
        "slot": iso(slot),
        "error": summary(error),
    }
    own = derived_id(schedule_id, f"{SCHEDULE_PAUSED}:{iso(slot)}")
    return _event(SCHEDULE_PAUSED, own, told, correlation_id=str(schedule_id))


def shard_stalled_event(shard: int, since: datetime, overdue_seconds: float) -> NewMessage:
    """What is to be told of a shard whose first schedule waits since then: whoever sees the same
    tells the same. While a backlog is worked off the first is another one each time: then it is for
    the leader to tell it once."""
    told: dict[str, object] = {
        "shard": shard,
        "since": iso(since),
        "overdue_seconds": round(overdue_seconds, 1),
    }
    own = derived_id(UUID(int=shard), f"{SHARD_STALLED}:{since.isoformat()}")
    return _event(SHARD_STALLED, own, told)


def _event(
    type_: str,
    own_id: UUID,
    told: dict[str, object],
    *,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    hops: int = 0,
) -> NewMessage:
    return NewMessage(
        id=own_id,
        body=msgspec.json.encode(told),
        type=type_,
        source=SYSTEM_SOURCE,
        event_id=f"{type_}:{own_id}",
        correlation_id=correlation_id,
        causation_id=causation_id,
        hops=hops,
    )
