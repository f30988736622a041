"""The result of a firing, for the queue, endpoint or workflow that its schedule names:
`on_success`, `on_failure`.

For a workflow the message goes to the hidden queue of its runs and stands for a run, whose params
are the result.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.core.answers.ids import Prefix, parse_public_id, public_id
from tickwork.core.delivery.publish import published
from tickwork.core.delivery.receiver import receiver_of_target
from tickwork.core.delivery.target import EndpointTarget, Envelope, LostQueueTarget
from tickwork.core.fields import Reader, iso, shown, text_faults
from tickwork.core.limits import hidden_queue_faults
from tickwork.core.model import Message, NewMessage, Send
from tickwork.core.schedule.firing import FiringResult, FiringStatus, ResultTarget
from tickwork.core.stable_hash import derived_id
from tickwork.core.workflow.model import WORKFLOW_NAME_LENGTH_MAX, NewRun
from tickwork.core.workflow.queue import runs_queue

SUCCEEDED_TYPE, FAILED_TYPE = "schedule.succeeded", "schedule.failed"
"""Types of the messages."""

_FIELDS = ("queue", "endpoint", "workflow")


def read_result_target(reader: Reader, field: str) -> ResultTarget | None:
    """Reads who gets the results: `{"queue": name}`, `{"endpoint": name}` or
    `{"workflow": name}`."""
    if not reader.has(field):
        return None
    given = reader.object(field, frozenset(_FIELDS))
    if given is None:
        return None
    kinds = [candidate for candidate in _FIELDS if given.has(candidate)]
    if len(kinds) != 1:
        wanted = '{"queue": "name"}, {"endpoint": "name"} or {"workflow": "name"}'
        reader.fault(field, f"must be {wanted}, not {shown(reader.value(field))}")
        return None
    (kind,) = kinds
    name = given.text(kind) or "-"
    faults = hidden_queue_faults(kind, name) if kind == "queue" else []
    if kind == "workflow":
        faults = text_faults(kind, name, WORKFLOW_NAME_LENGTH_MAX)
    for fault in faults:
        given.fault(fault.field, fault.message)
    return ResultTarget(**{kind: name})


def queue_for(target: ResultTarget) -> str | None:
    """The queue that gets the message of a result; None for an endpoint."""
    return target.queue if target.workflow is None else runs_queue(target.workflow)


def is_result(message: Message) -> bool:
    """Whether a message of a queue of runs is the result of a firing."""
    return message.type in (SUCCEEDED_TYPE, FAILED_TYPE)


def result_run(message: Message, workflow: str) -> NewRun:
    """The run that a result starts. A replay of its message has the same run."""
    first = parse_public_id(message.correlation) or message.id
    uid = derived_id(first, "run")
    return NewRun(
        id=public_id(Prefix.RUN, uid),
        uid=uid,
        message_id=message.id,
        workflow=workflow,
        params=message.body,
        correlation_id=message.correlation_id,
    )


def result_message(
    result: FiringResult,
    message_id: UUID,
    *,
    schedule_id: UUID,
    slot: datetime,
    run: int,
    attempts: int,
) -> NewMessage:
    """The message with the final result of a slot, whose own message had the given id."""
    is_success = result.status in (FiringStatus.SUCCEEDED, FiringStatus.PARTIAL)
    schedule = public_id(Prefix.SCHEDULE, schedule_id)
    cause = public_id(Prefix.MESSAGE, message_id)
    body = {
        "schedule_id": schedule,
        "slot": iso(slot),
        "run": run,
        "status": str(result.status),
        "attempts": attempts,
        "reason": result.reason,
        "error": result.error,
        "result_code": result.result_code,
        "excerpt": result.excerpt,
    }
    return NewMessage(
        id=derived_id(message_id, "result"),
        body=msgspec.json.encode(body),
        type=SUCCEEDED_TYPE if is_success else FAILED_TYPE,
        source=schedule,
        correlation_id=cause,
        causation_id=cause,
        hops=1,
    )


def lost_result(result: NewMessage, target: ResultTarget, now: datetime) -> NewMessage:
    """A result whose receiver does not exist, as a message for the queue of deliveries. It becomes
    a dead letter there, and a replay delivers it when the receiver exists."""
    outside: EndpointTarget | LostQueueTarget
    if (queue := queue_for(target)) is not None:
        outside, payload = LostQueueTarget(queue), result.body
    else:
        assert target.endpoint is not None
        outside, payload = EndpointTarget(target.endpoint), published(result, now).body
    body = msgspec.json.encode(Envelope(outside, msgspec.Raw(payload)))
    return structs.replace(result, body=body, receiver=receiver_of_target(outside))


def found_result(lost: Message, target: LostQueueTarget, payload: Any) -> Send:
    """A lost result as the message that its queue should have got."""
    message = NewMessage(
        id=derived_id(lost.id, "found"),
        body=msgspec.json.encode(payload),
        type=lost.type,
        source=lost.source,
        correlation_id=lost.correlation_id,
        causation_id=lost.causation_id,
        hops=1,
    )
    return Send(target.queue, message)
