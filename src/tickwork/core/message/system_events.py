"""Events that Tickwork itself publishes to subscribers.

| type | published when | tenant |
|---|---|---|
| `message.dead` | a message becomes a dead letter | that of the message |
| `firing.dead` | that message is a slot of a schedule | that of the message |
| `schedule.paused` | a dead firing pauses its schedule (`on_dead`) | that of the schedule |
| `shard.stalled` | the schedules of a shard are long overdue | `default` |
| `node.renewal_failing` | a node could not renew its lease, and can again | `default` |
| `endpoint.failing` | an endpoint failed 5 times in a row; also after 1, 3, 4 days | its own |
| `endpoint.disabled` | an endpoint was failing for 5 days, or its receiver answered 410 | its own |
| `entity.alarm_dead` | the alarm of an entity becomes a dead letter | its own |
| `workflow.diverged` | the code of a run does not agree with its record | its own |

An event belongs to no queue. It is sent to the queues that subscribe to its type and to the
endpoints that name it, in the transaction of what it reports. Its id is derived from what happened,
so a repeat has the same id. A dead letter of such an event publishes nothing, nor does one with too
many hops: its subscriber might send another message that fails, and that would be an endless loop.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import Id, Prefix, parse_public_id, public_id
from tickwork.core.delivery.breaker import HealthChange, HealthEvent
from tickwork.core.delivery.endpoint import Endpoint
from tickwork.core.entity.call import Call, read_call
from tickwork.core.limits import ENTITIES_PREFIX, HOPS_MAX
from tickwork.core.message.dead_letter import Death
from tickwork.core.message.error_summary import summary
from tickwork.core.model import REASON_TOO_MANY_HOPS, Claim, NewMessage, slot_key
from tickwork.core.stable_hash import derived_id
from tickwork.core.stream import NewStreamEvent
from tickwork.core.when import iso
from tickwork.core.workflow.model import Run

SYSTEM_SOURCE = "tickwork"

MESSAGE_DEAD = "message.dead"
FIRING_DEAD = "firing.dead"
SCHEDULE_PAUSED = "schedule.paused"
SHARD_STALLED = "shard.stalled"
RENEWAL_FAILING = "node.renewal_failing"
ALERTED = "alerted"
"""Field of an event that says that its alert was delivered before it was published."""

ALARM_DEAD = "entity.alarm_dead"
RUN_DIVERGED = "workflow.diverged"
SYSTEM_TYPES = (
    MESSAGE_DEAD,
    FIRING_DEAD,
    SCHEDULE_PAUSED,
    SHARD_STALLED,
    RENEWAL_FAILING,
    ALARM_DEAD,
    RUN_DIVERGED,
    *HealthEvent,
)

SYSTEM_TENANT = "default"
"""The tenant of events that concern the whole system."""


class DeadMessage(Struct, frozen=True, kw_only=True):
    """A message that became a dead letter in a queue, to which it was sent at `sent_at`."""

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
    idempotency_base: str | None
    failed_at: datetime
    body: bytes | None = None
    """The body of a call of an entity; None of other messages."""

    @property
    def alarm(self) -> Call | None:
        """The alarm of an entity that this message was."""
        if self.body is None or not self.queue.startswith(ENTITIES_PREFIX):
            return None
        try:
            call = read_call(self.body)
        except msgspec.MsgspecError:
            return None
        return None if call.alarm is None else call

    @property
    def idempotency_key(self) -> str | None:
        """The key that is the same for every attempt at a slot."""
        return slot_key(self.idempotency_base, self.schedule_id, self.slot, self.run)

    @property
    def death(self) -> Death:
        """What the consumer of a dead-letter queue sees of it."""
        return Death(
            dead_letter_id=Id.of(Prefix.DEAD_LETTER, self.dead_letter_id),
            queue=self.queue,
            reason=self.reason,
            error=summary(self.error),
            attempts=self.attempts,
            failed_at=self.failed_at,
        )


def dead_message_events(death: DeadMessage) -> tuple[NewMessage, ...]:
    """The events to publish for a message that became a dead letter."""
    is_own = death.source == SYSTEM_SOURCE and death.type in SYSTEM_TYPES
    if is_own or death.reason == REASON_TOO_MANY_HOPS:
        return ()
    message = public_id(Prefix.MESSAGE, death.message_id)
    fields: dict[str, object] = {
        "tenant": death.tenant,
        "message_id": message,
        "dead_letter_id": public_id(Prefix.DEAD_LETTER, death.dead_letter_id),
        "queue": death.queue,
        "type": death.type,
        "source": death.source,
        "reason": death.reason,
        "error": summary(death.error),
        "attempts": death.attempts,
    }
    types = [MESSAGE_DEAD]
    if death.schedule_id is not None and death.slot is not None:
        schedule = public_id(Prefix.SCHEDULE, death.schedule_id)
        fields |= {"schedule_id": schedule, "slot": iso(death.slot), "run": death.run}
        types.append(FIRING_DEAD)
    # The id includes the queue and `sent_at`: a message that moves to a dead-letter queue may fail
    # there as well.
    base = derived_id(death.message_id, f"{death.queue_id.hex}:{death.sent_at.isoformat()}")
    if (alarm := death.alarm) is not None:
        at = None if alarm.alarm_at is None else iso(alarm.alarm_at)
        fields |= {"entity": alarm.entity, "key": alarm.key, "alarm_at": at}
        types.append(ALARM_DEAD)
    return tuple(
        _event(
            type_,
            derived_id(base, type_),
            fields,
            correlation_id=death.correlation_id or message,
            causation_id=message,
            hops=min(death.hops + 1, HOPS_MAX - 1),
        )
        for type_ in types
    )


def stream_event(stream_id: UUID, tenant: str, event: NewMessage) -> NewStreamEvent:
    """A system event as the stream of its tenant has it."""
    data = event.body.decode()
    schedule = msgspec.json.decode(event.body, type=_OfSchedule).schedule_id
    schedule_id = None if schedule is None else parse_public_id(schedule)
    return NewStreamEvent(
        id=stream_id, tenant=tenant, type=event.type or "", data=data, schedule_id=schedule_id
    )


class _OfSchedule(Struct, frozen=True):
    schedule_id: str | None = None


def schedule_paused_event(
    tenant: str, schedule_id: UUID, slot: datetime, error: str | None
) -> NewMessage:
    """The event for a schedule that a dead firing paused; `slot` is that of the firing."""
    schedule = public_id(Prefix.SCHEDULE, schedule_id)
    fields: dict[str, object] = {
        "tenant": tenant,
        "schedule_id": schedule,
        "slot": iso(slot),
        "error": summary(error),
    }
    own = derived_id(schedule_id, f"{SCHEDULE_PAUSED}:{iso(slot)}")
    return _event(SCHEDULE_PAUSED, own, fields, correlation_id=schedule)


def shard_stalled_event(shard: int, since: datetime, overdue_seconds: float) -> NewMessage:
    """The event for a shard whose first schedule is overdue since a time. All observers of the same
    stall create the same event. While a backlog shrinks, the first schedule changes; then the
    leader must take care to publish the event once."""
    fields: dict[str, object] = {
        "shard": shard,
        "since": iso(since),
        "overdue_seconds": round(overdue_seconds, 1),
    }
    own = derived_id(UUID(int=shard), f"{SHARD_STALLED}:{since.isoformat()}")
    return _event(SHARD_STALLED, own, fields)


def renewal_failing_event(
    outage_id: UUID,
    *,
    node: str,
    node_id: UUID,
    since: datetime,
    failed_seconds: float,
    is_lease_lost: bool,
    is_alerted: bool = False,
) -> NewMessage:
    """The event for heartbeats of a node that failed until little or nothing of its lease was
    left. It is published when they succeed again: before, the database stored nothing. `is_alerted`
    if the node has sent an alert about it then."""
    fields: dict[str, object] = {
        "node": node,
        "node_id": str(node_id),
        "since": iso(since),
        "failed_seconds": round(failed_seconds, 1),
        "lease_lost": is_lease_lost,
        ALERTED: is_alerted,
    }
    return _event(RENEWAL_FAILING, derived_id(outage_id, RENEWAL_FAILING), fields)


def run_diverged_event(run: Run, claim: Claim, divergence: str) -> NewMessage:
    """The event for a run whose code does not agree with its record, as a worker with this claim
    has found. A run that diverges again in the same way is another event."""
    fields: dict[str, object] = {
        "tenant": run.tenant,
        "workflow": run.workflow,
        "run_id": run.id,
        "version": run.version,
        "divergence": divergence,
    }
    own = derived_id(run.uid, f"{RUN_DIVERGED}:{claim.id}:{claim.number}")
    return _event(RUN_DIVERGED, own, fields, correlation_id=run.correlation_id)


def endpoint_events(endpoint: Endpoint, change: HealthChange) -> tuple[NewMessage, ...]:
    """The events of a change of an endpoint's health; `endpoint` is as it was before."""
    health = change.health
    since = None if health.failing_since is None else iso(health.failing_since)
    own_id = public_id(Prefix.ENDPOINT, endpoint.id)
    fields: dict[str, object] = {
        "tenant": endpoint.tenant,
        "endpoint_id": own_id,
        "name": endpoint.name,
        "url": endpoint.settings.url,
        "failures_in_row": health.failures_in_row,
        "failing_since": since,
    }
    # An endpoint that was enabled again may fail anew.
    base = derived_id(endpoint.id, f"{since}:{iso(endpoint.updated_at)}")
    return tuple(
        _event(
            str(event),
            derived_id(base, f"{event}:{health.notices}"),
            fields | {"reason": change.disabled_reason if event is HealthEvent.DISABLED else None},
            correlation_id=own_id,
        )
        for event in change.events
    )


def is_about(event: NewMessage, endpoint_id: UUID) -> bool:
    """Whether an event reports the health of an endpoint."""
    own_id = public_id(Prefix.ENDPOINT, endpoint_id)
    return event.type in tuple(HealthEvent) and event.correlation_id == own_id


def _event(
    type_: str,
    own_id: UUID,
    fields: dict[str, object],
    *,
    correlation_id: str | None = None,
    causation_id: str | None = None,
    hops: int = 0,
) -> NewMessage:
    return NewMessage(
        id=own_id,
        body=msgspec.json.encode(fields),
        type=type_,
        source=SYSTEM_SOURCE,
        event_id=f"{type_}:{own_id}",
        correlation_id=correlation_id,
        causation_id=causation_id,
        hops=hops,
    )
