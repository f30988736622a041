"""Log lines for people: one per finished message, and warnings and errors of the engine.

All lines go through the standard library's logger `tickwork`; the process decides how to show
them. A plain formatter shows `event key=value …`; ours (`log_format`) shows the fields.

| outcome | level |
|---|---|
| succeeded | debug, sampled: a maximum number per second and queue |
| released before its handler started | the same |
| released (snoozed), duplicate | info |
| retried, refused | warning |
| dead | error |

What repeats for one cause is written once, then once a minute with a count (`repeats`): errors of
background activities, refused messages, late planning, failing heartbeats.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.message.error_summary import summary
from tickwork.core.model import Fate, Message, Reaped, SettleResult, StoredQueue
from tickwork.core.public_id import Prefix, optional_id, public_id
from tickwork.core.workflow.model import Run
from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.service.observe import (
    DUPLICATE,
    OUTCOMES,
    REFUSED,
    BlockedEventLoop,
    ClockOffset,
    Observer,
)
from tickwork.service.observe.repeats import Repeated, RepeatedLines

if TYPE_CHECKING:
    from tickwork.ops.schedules.change import Moved
    from tickwork.service.worker.settle import FinishedMessage

LATE_SECONDS = 5.0
"""Seconds that planning may be late before it is logged."""

SLOW_SECONDS = 0.1
"""Seconds per statement from which on the database is named as the reason for late planning."""

QUIET_SECONDS = 10.0
"""Seconds without a failure after which the database counts as available again."""

SUCCESSES_PER_SECOND = 10
"""Maximum number of lines about successes per second and queue, unless configured."""

_LEVELS = {
    OUTCOMES[Fate.RETRY]: logging.WARNING,
    OUTCOMES[Fate.DEAD]: logging.ERROR,
    REFUSED: logging.WARNING,
}
_ACK = Fate.ACK

_log = logging.getLogger("tickwork")


class LogEvent:
    """The name of an event and its fields; formatted only if a handler shows it."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, **fields: Any) -> None:
        self.event = event
        self.fields: Mapping[str, Any] = {
            name: value for name, value in fields.items() if value is not None
        }

    def __str__(self) -> str:
        pairs = [
            f"{name}={format_value(value)}"
            for name, value in self.fields.items()
            if name != MULTILINE_FIELD
        ]
        text = " ".join([self.event, *pairs])
        return f"{text}\n{self.fields[MULTILINE_FIELD]}" if MULTILINE_FIELD in self.fields else text


MULTILINE_FIELD = "exception"
"""The field whose value may have many lines."""


def format_value(value: object) -> str:
    """A value within a line, quoted so that outside input cannot forge a field or a line."""
    text = str(value)
    is_plain = text.isprintable() and not any(each in text for each in ' "=')
    return text if is_plain and text else json.dumps(text, ensure_ascii=not text.isprintable())


class RateSampler:
    """Selects the first few events of every second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._since = float("-inf")
        self._selected = 0
        self._left_out = 0

    def select(self, now: float) -> bool:
        """Whether to log this event."""
        if now - self._since >= 1.0:
            self._since, self._selected = now, 0
        if self._selected >= self._per_second:
            self._left_out += 1
            return False
        self._selected += 1
        return True

    def take_left_out(self) -> int | None:
        """Number of events left out since the last call; None if there were none."""
        count, self._left_out = self._left_out, 0
        return count or None


class EventLog(Observer):
    """Writes events to the logger `tickwork`."""

    def __init__(
        self,
        clock: ClockOffset | None = None,
        *,
        successes_per_second: int = SUCCESSES_PER_SECOND,
    ) -> None:
        self._clock, self._per_second = clock or ClockOffset(), successes_per_second
        self._repeats = RepeatedLines(lambda: monotonic())
        self._unavailable_for: set[str] = set()
        self._failed_renewal_written = False
        self._samplers: dict[UUID, RateSampler] = {}
        self._shards_owned = self._shards_lost = 0

    # Worker

    def messages_settled(
        self, queue: StoredQueue, finished: Sequence[FinishedMessage], result: SettleResult
    ) -> None:
        unexpected = _unexpected_outcomes(result)
        logs_successes = _log.isEnabledFor(logging.DEBUG)
        for each in finished:
            if unexpected and (outcome := unexpected.get(each.message.id)) is not None:
                self._log_unexpected(queue, each, outcome)
            elif each.ending.fate is not _ACK:
                self._log_message(queue, each, OUTCOMES[each.ending.fate])
            elif logs_successes:
                self._log_sampled(queue, each)

    def settling_abandoned(self, queue: StoredQueue, count: int) -> None:
        _log.warning(
            "queue %s: %d finished messages could not be settled before shutdown; they will be "
            "delivered again",
            queue.name,
            count,
        )

    def type_unhandled(self, queue: StoredQueue, type_: str | None) -> None:
        _log.warning(
            "queue %s: no handler in this process for %s; other workers may handle it for about "
            "ten minutes, then it becomes a dead letter. Add @app.on(%r%s) (logged once per type)",
            queue.name,
            "messages without a type" if type_ is None else f"the type {type_!r}",
            queue.name,
            "" if type_ is None else f", type={type_!r}",
        )

    def chain_found(self, queue: StoredQueue, message: Message) -> None:
        _log.warning(
            "queue %s: a message of type %s has %d hops; does a handler send what it handles? "
            "(correlation id %s; logged once per type)",
            queue.name,
            message.type,
            message.hops,
            message.correlation,
        )

    def run_diverged(self, run: Run, divergence: str) -> None:
        _log.error(
            "run %s of %s has diverged and waits for code that agrees with its record: %s",
            run.id,
            run.workflow,
            divergence,
        )

    def suspects_not_alone(self, queue: StoredQueue, why: str) -> None:
        _log.warning(
            "queue %s: messages whose workers died run beside others now: %s", queue.name, why
        )

    def error_occurred(self, activity: str, error: Exception) -> None:
        if isinstance(error, StoreUnavailable):
            self._unavailable_for.add(activity)
            self._repeats.add(StoreUnavailable, partial(self._log_outage, activity, str(error)))
            return
        text = f"{type(error).__name__}: {error}"

        def write(repeated: Repeated | None) -> None:
            fields = _repeated_fields(repeated)
            _log.warning(LogEvent("error, retrying", what=activity, error=text, **fields))

        # A broken database is one cause, whichever activity notices it.
        cause = text if isinstance(error, StoreBroken) else (activity, type(error))
        self._repeats.add(cause, write)

    def claims_reaped(self, reaped: Reaped) -> None:  # noqa: ARG002
        self._repeats.flush()  # This event occurs every second while the database answers.

    def _log_outage(self, activity: str, error: str, repeated: Repeated | None) -> None:
        if repeated is None:
            _log.warning(LogEvent("database unavailable, retrying", what=activity, error=error))
            return
        what, self._unavailable_for = sorted(self._unavailable_for), set()
        is_over = repeated.quiet_seconds >= QUIET_SECONDS
        text = "database available again" if is_over else "database still unavailable, retrying"
        _log.warning(LogEvent(text, what=what, error=error, **_repeated_fields(repeated)))

    # Node

    def renewal_failed(self, why: str, left_seconds: float) -> None:
        def write(repeated: Repeated | None) -> None:
            text = "heartbeat failed, retrying until the lease expires"
            left, fields = round(left_seconds, 1), _repeated_fields(repeated)
            _log.warning(LogEvent(text, error=why, left_seconds=left, **fields))

        self._failed_renewal_written = self._repeats.add("heartbeat", write)

    def renewal_failing(self, why: str, left_seconds: float) -> None:
        text = "node.renewal_failing: other nodes take over this node's work when its lease expires"
        self._failed_renewal_written = True
        _log.error(LogEvent(text, error=why, left_seconds=round(left_seconds, 1)))

    def renewal_recovered(self, failed_seconds: float) -> None:
        if self._failed_renewal_written:
            after = round(failed_seconds, 1)
            _log.warning(LogEvent("heartbeat succeeded again", after_seconds=after))

    def lease_lost(self, node_id: UUID) -> None:
        _log.error(LogEvent("lease lost, other nodes have its claims", node=str(node_id)))

    def leading_paused(self, seconds: float) -> None:
        text = "event loop blocked, other nodes lead the schedules of this node meanwhile"
        _log.warning(LogEvent(text, seconds=round(seconds, 3)))

    def leading_resumed(self) -> None:
        _log.info(LogEvent("event loop runs again, this node may lead schedules"))

    def event_loop_blocked(self, blocked: BlockedEventLoop) -> None:
        _log.warning(
            LogEvent(
                "event loop blocked",
                seconds=round(blocked.seconds, 3),
                at=blocked.at,
                blocking=blocked.blocking,
                under_way=blocked.running_messages,
                others=blocked.others or None,
                **{MULTILINE_FIELD: blocked.stack},
            )
        )

    # Scheduler

    def shards_led(self, shards: int, lost: int) -> None:
        if lost > self._shards_lost:
            _log.warning("lost shards=%d: other nodes lead them now", lost - self._shards_lost)
        if shards > self._shards_owned > 0:  # The first shards after a start are no news.
            more = shards - self._shards_owned
            _log.info("leads shards=%d now, %d more than before", shards, more)
        self._shards_owned, self._shards_lost = shards, lost

    def shard_stalled(self, shard: int, overdue_seconds: float) -> None:
        def write(repeated: Repeated | None) -> None:
            fields = {"shard": shard, "overdue_seconds": round(overdue_seconds)}
            text = "shard.stalled: slots are overdue and no leader plans them"
            _log.error(LogEvent(text, **fields, **_repeated_fields(repeated)))

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
                **_repeated_fields(repeated),
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
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[Moved]
    ) -> None:
        changes = ", ".join(
            f"{format_value(each.name or public_id(Prefix.SCHEDULE, each.id))} {_change(each)}"
            for each in first
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

    # Lines about messages

    def _log_unexpected(self, queue: StoredQueue, finished: FinishedMessage, outcome: str) -> None:
        if outcome != REFUSED:
            self._log_message(queue, finished, outcome)
            return

        def write(repeated: Repeated | None) -> None:
            if repeated is None:
                self._log_message(queue, finished, outcome)
            else:
                text = "messages refused, other workers had their claims and will run them"
                _log.warning(LogEvent(text, queue=queue.name, **_repeated_fields(repeated)))

        self._repeats.add((REFUSED, queue.id), write)

    def _log_sampled(self, queue: StoredQueue, finished: FinishedMessage) -> None:
        sampler = self._samplers.get(queue.id)
        if sampler is None:
            sampler = self._samplers[queue.id] = RateSampler(self._per_second)
        if sampler.select(monotonic()):
            fields = self._fields(queue, finished, OUTCOMES[finished.ending.fate])
            _log.debug(LogEvent(left_out=sampler.take_left_out(), **fields))

    def _log_message(self, queue: StoredQueue, finished: FinishedMessage, outcome: str) -> None:
        ending = finished.ending
        if finished.started is None and ending.fate is Fate.RELEASE and ending.error is None:
            if _log.isEnabledFor(logging.DEBUG):
                self._log_sampled(queue, finished)
            return
        level = _LEVELS.get(outcome, logging.INFO)
        if _log.isEnabledFor(level):
            _log.log(level, LogEvent(**self._fields(queue, finished, outcome)))

    def _fields(
        self, queue: StoredQueue, finished: FinishedMessage, outcome: str
    ) -> dict[str, Any]:
        message, ending = finished.message, finished.ending
        will_retry = outcome in (OUTCOMES[Fate.RETRY], OUTCOMES[Fate.RELEASE])
        error = ending.error if outcome not in (REFUSED, DUPLICATE) else None
        delays = self._clock.delays_seconds([finished])
        return {
            "event": f"message {outcome}",
            "outcome": outcome,
            "queue": queue.name,
            **identity(message),
            "source": message.source,
            "sent_at": f"{message.sent_at:%Y-%m-%dT%H:%M:%S.%fZ}",
            "delay": round(delays[0], 6) if delays else None,
            "took": None if finished.started is None else round(finished.took_seconds, 6),
            "will_retry": will_retry,
            "retry_in": round(ending.delay_seconds, 3) if will_retry else None,
            "reason": ending.reason,
            "error": summary(error),
            MULTILINE_FIELD: error if error and "\n" in error else None,
        }


def _repeated_fields(repeated: Repeated | None) -> dict[str, Any]:
    """How often something occurred without a line, and since when."""
    if repeated is None:
        return {}
    return {"count": repeated.times, "since": _format_time(repeated.since)}


def _unexpected_outcomes(result: SettleResult) -> Mapping[UUID, str]:
    """The messages that were refused or were duplicates."""
    if not (result.refused or result.duplicates):
        return {}
    refused = {claim.id: REFUSED for claim in result.refused}
    return refused | {claim.id: DUPLICATE for claim in result.duplicates}


def identity(message: Message) -> dict[str, Any]:
    """The fields that identify a message; the same in every line about it."""
    own_id = public_id(Prefix.MESSAGE, message.id)
    return {
        "message_id": own_id,
        "event_id": message.event_id or own_id,
        "correlation_id": message.correlation_id or own_id,
        "tenant": message.tenant,
        "type": message.type,
        "batch_id": optional_id(Prefix.BATCH, message.batch_id),
        "attempt": message.attempts + 1,
    }


def _change(moved: Moved) -> str:
    return f"{_format_time(moved.before)} -> {_format_time(moved.after)}"


def _format_time(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
