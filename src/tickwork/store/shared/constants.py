"""Constants of `core` for SQL statements, by the name of their placeholder: `/*ahead_seconds*/`.

A rule that is decided in `core` and repeated in SQL takes its numbers and names from there.
"""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.entity.call import RESULT_RETENTION_SECONDS
from tickwork.core.entity.model import SMALL_STORAGE_BYTES_MAX
from tickwork.core.limits import ENTITIES_PREFIX, HIDDEN_QUEUES
from tickwork.core.message.history import (
    HOURLY_HISTORY_SECONDS,
    MARK_CHARACTERS,
    REASON_DUPLICATE,
)
from tickwork.core.message.system_events import SYSTEM_TYPES
from tickwork.core.model import (
    FORMAT_VERSION,
    LOST_CLAIMS_ALONE,
    LOST_CLAIMS_SEPARATE,
    WAITING_SINCE,
)
from tickwork.core.queue.performance import BOUNDS_SECONDS
from tickwork.core.queue.stats import LATE_SECONDS
from tickwork.core.schedule.model import OverlapPolicy
from tickwork.core.schedule.next_slot import AHEAD_SECONDS
from tickwork.core.schedule.plan import CATCH_UP_PRIORITY_STEP, UNFINISHED_MAX
from tickwork.core.schedule.slot_outcome import (
    AFTER_SUCCESS,
    FINAL_FAILURES,
    HANDLED,
    LATER_SLOTS_MAX,
)
from tickwork.core.workflow.model import EVENT_RETENTION_SECONDS


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _literals(values: Iterable[object]) -> str:
    return ", ".join(map(_literal, values))


CONSTANTS = {
    "format": _literal(FORMAT_VERSION),
    "late_seconds": _literal(LATE_SECONDS),
    "lost_claims_separate": _literal(LOST_CLAIMS_SEPARATE),
    "lost_claims_alone": _literal(LOST_CLAIMS_ALONE),
    "ahead_seconds": _literal(AHEAD_SECONDS),
    "unfinished_max": _literal(UNFINISHED_MAX),
    "later_slots_max": _literal(LATER_SLOTS_MAX),
    "catch_up_step": _literal(CATCH_UP_PRIORITY_STEP),
    "decided_when_due": _literals(policy for policy in OverlapPolicy if policy.is_decided_when_due),
    "ordered": _literals(policy for policy in OverlapPolicy if policy.is_ordered),
    "final_failures": _literals(sorted(FINAL_FAILURES)),
    "handled": _literals(sorted(HANDLED)),
    "after_success": _literals(AFTER_SUCCESS),
    "waiting_since": _literal(f"{WAITING_SINCE}%"),
    "small_storage_bytes_max": _literal(SMALL_STORAGE_BYTES_MAX),
    "result_retention_seconds": _literal(RESULT_RETENTION_SECONDS),
    "event_retention_seconds": _literal(EVENT_RETENTION_SECONDS),
    "deliveries_queue": _literal(DELIVERIES_QUEUE),
    "endpoints_queue": _literal(ENDPOINTS_QUEUE),
    "hidden_queues": _literals(sorted(HIDDEN_QUEUES)),
    "entities_prefix": _literal(ENTITIES_PREFIX),
    "hourly_history_seconds": _literal(HOURLY_HISTORY_SECONDS),
    "mark_characters": _literal(MARK_CHARACTERS),
    "reason_duplicate": _literal(REASON_DUPLICATE),
    "bounds_seconds": f"'{{{', '.join(map(str, BOUNDS_SECONDS))}}}'::float8[]",
    "system_types": _literals(SYSTEM_TYPES),
}
