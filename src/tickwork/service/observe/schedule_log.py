"""Log lines about schedules: who plans them, what is late, and what a change of the clock or of the
time zones did to them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.service.observe import Observer
from tickwork.service.observe.log_events import (
    LogEvent,
    format_time,
    format_value,
    repeated_fields,
)
from tickwork.service.observe.repeats import Repeated, RepeatedLines

if TYPE_CHECKING:
    from tickwork.core.answers.schedule import MovedSchedule

LATE_SECONDS = 5.0
"""Seconds that planning may be late before it is logged."""

SLOW_SECONDS = 0.1
"""Seconds per statement from which on the database is named as the reason for late planning."""

_log = logging.getLogger("tickwork")


class ScheduleLog(Observer):
    """Writes the events of a scheduler."""

    def __init__(self, repeats: RepeatedLines) -> None:
        self._repeats = repeats
        self._shards_led = 0
        self._shards_lost = 0

    def shards_led(self, shards: int, lost: int) -> None:
        if lost > self._shards_lost:
            _log.warning("lost shards=%d: other nodes lead them now", lost - self._shards_lost)
        if shards > self._shards_led > 0:  # The first shards after a start are no news.
            more = shards - self._shards_led
            _log.info("leads shards=%d now, %d more than before", shards, more)
        self._shards_led = shards
        self._shards_lost = lost

    def shard_stalled(self, shard: int, overdue_seconds: float) -> None:
        def write(repeated: Repeated | None) -> None:
            fields = {"shard": shard, "overdue_seconds": round(overdue_seconds)}
            text = "shard.stalled: slots are overdue and no leader plans them"
            _log.error(LogEvent(text, **fields, **repeated_fields(repeated)))

        self._repeats.add("stalled", write)

    def planning_lag(
        self,
        lag_seconds: float,
        overdue_seconds: float,  # noqa: ARG002
        statement_seconds: float,
    ) -> None:
        if lag_seconds < LATE_SECONDS:
            return

        def write(repeated: Repeated | None) -> None:
            is_slow = statement_seconds >= SLOW_SECONDS
            why = "statements on the database are slow" if is_slow else "catching up"
            fields = {
                "late_seconds": round(lag_seconds, 1),
                "statement_seconds": round(statement_seconds, 3),
                **repeated_fields(repeated),
            }
            _log.warning(LogEvent(f"slots are planned late, {why}", **fields))

        self._repeats.add("late", write)

    def clock_jumped(self, seconds: float) -> None:
        _log.warning("the database's clock jumped by %+.1f seconds", seconds)

    def clock_jump_dismissed(self, seconds: float) -> None:
        text = "intervals are not moved: this machine may have been suspended for %.1f seconds"
        _log.warning(text, seconds)

    def intervals_moved(self, schedules: int) -> None:
        _log.warning("moved schedules=%d with the database's clock (intervals only)", schedules)

    def schedule_parked(self, tenant: str, schedule_id: UUID, error: str) -> None:
        shown = public_id(Prefix.SCHEDULE, schedule_id)
        _log.error("parked schedule=%s tenant=%s: %s", shown, tenant, error)

    def tzdata_applied(
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[MovedSchedule]
    ) -> None:
        changes = ", ".join(
            f"{format_value(schedule.name or schedule.id)} {_change(schedule)}"
            for schedule in first
        )
        more = "" if moved == len(first) else f", and {moved - len(first)} more"
        text = "tzdata %s replaces %s: shard=%d moved=%d: %s%s"
        _log.warning(text, versions[1], versions[0], shard, moved, changes, more)

    def tzdata_failed(self, tenant: str, schedule_id: UUID, error: str) -> None:
        text = "new tzdata cannot be applied to schedule=%s tenant=%s, which stays as it is: %s"
        _log.error(text, public_id(Prefix.SCHEDULE, schedule_id), tenant, error)

    def tzdata_outdated(self, own: str, newer: str) -> None:
        text = "this node has tzdata %s, other nodes have %s; update this node"
        _log.warning(text, own, newer)


def _change(moved: MovedSchedule) -> str:
    return f"{format_time(moved.before)} -> {format_time(moved.after)}"
