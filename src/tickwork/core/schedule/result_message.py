"""The result of a firing, for the queue or endpoint that its schedule names: `on_success`,
`on_failure`."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.fields import Reader, iso, shown
from tickwork.core.limits import hidden_queue_faults
from tickwork.core.model import NewMessage
from tickwork.core.schedule.firing import FiringResult, FiringStatus, ResultTarget
from tickwork.core.stable_hash import derived_id

SUCCEEDED_TYPE, FAILED_TYPE = "schedule.succeeded", "schedule.failed"
"""Types of the messages."""

_FIELDS = frozenset({"queue", "endpoint", "workflow"})


def read_result_target(reader: Reader, field: str) -> ResultTarget | None:
    """Reads who gets the results: `{"queue": name}` or `{"endpoint": name}`."""
    if not reader.has(field):
        return None
    given = reader.object(field, _FIELDS)
    if given is None:
        return None
    if given.has("workflow"):
        given.fault("workflow", "there are no workflows yet; name a queue or an endpoint")
        return None
    if given.has("queue") == given.has("endpoint"):
        wanted = '{"queue": "name"} or {"endpoint": "name"}'
        reader.fault(field, f"must be {wanted}, not {shown(reader.value(field))}")
        return None
    queue = given.text("queue") if given.has("queue") else None
    for fault in hidden_queue_faults("queue", queue or "-"):
        given.fault(fault.field, fault.message)
    endpoint = given.text("endpoint") if given.has("endpoint") else None
    return ResultTarget(queue, endpoint)


def result_message(
    result: FiringResult,
    message_id: UUID,
    *,
    schedule_id: UUID,
    slot: datetime,
    run: int,
    attempts: int,
) -> NewMessage:
    """The message that tells the final result of a slot, whose own message had the given id."""
    is_success = result.status in (FiringStatus.SUCCEEDED, FiringStatus.PARTIAL)
    body = {
        "schedule_id": str(schedule_id),
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
        source=str(schedule_id),
        correlation_id=str(message_id),
        causation_id=str(message_id),
        hops=1,
    )
