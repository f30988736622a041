"""Log lines for people: what a line is, and the warnings and errors of workers and nodes.

All lines go through the standard library's logger `tickwork`; the process decides how to show
them. A plain formatter shows `event key=value …`; ours (`log_format`) shows the fields.

`message_log` writes the lines about messages, `schedule_log` those about schedules.

What repeats for one cause is written once, then once a minute with a count (`repeats`): errors of
background activities, refused messages, late planning, failing heartbeats.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from tickwork.core.model import Message, Reaped, StoredQueue
from tickwork.core.workflow.model import Run
from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.service.observe import BlockedEventLoop, Observer
from tickwork.service.observe.repeats import Repeated, RepeatedLines

QUIET_SECONDS = 10.0
"""Seconds without a failure after which the database counts as available again."""

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
    is_plain = text.isprintable() and not any(mark in text for mark in ' "=')
    return text if is_plain and text else json.dumps(text, ensure_ascii=not text.isprintable())


class EventLog(Observer):
    """Writes the events of a worker and its node. It flushes `repeats`, which other logs may
    share."""

    def __init__(self, repeats: RepeatedLines | None = None) -> None:
        self.repeats = repeats or RepeatedLines()
        self._unavailable_for: set[str] = set()
        self._failed_renewal_written = False

    # Worker

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
            self.repeats.add(StoreUnavailable, partial(self._log_outage, activity, str(error)))
            return
        text = f"{type(error).__name__}: {error}"

        def write(repeated: Repeated | None) -> None:
            fields = repeated_fields(repeated)
            _log.warning(LogEvent("error, retrying", what=activity, error=text, **fields))

        # A broken database is one cause, whichever activity notices it.
        cause = text if isinstance(error, StoreBroken) else (activity, type(error))
        self.repeats.add(cause, write)

    def claims_reaped(self, reaped: Reaped) -> None:  # noqa: ARG002
        self.repeats.flush()  # This event occurs every second while the database answers.

    def _log_outage(self, activity: str, error: str, repeated: Repeated | None) -> None:
        if repeated is None:
            _log.warning(LogEvent("database unavailable, retrying", what=activity, error=error))
            return
        what, self._unavailable_for = sorted(self._unavailable_for), set()
        is_over = repeated.quiet_seconds >= QUIET_SECONDS
        text = "database available again" if is_over else "database still unavailable, retrying"
        _log.warning(LogEvent(text, what=what, error=error, **repeated_fields(repeated)))

    # Node

    def renewal_failed(self, why: str, left_seconds: float) -> None:
        def write(repeated: Repeated | None) -> None:
            text = "heartbeat failed, retrying until the lease expires"
            left, fields = round(left_seconds, 1), repeated_fields(repeated)
            _log.warning(LogEvent(text, error=why, left_seconds=left, **fields))

        self._failed_renewal_written = self.repeats.add("heartbeat", write)

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


def repeated_fields(repeated: Repeated | None) -> dict[str, Any]:
    """How often something occurred without a line, and since when."""
    if repeated is None:
        return {}
    return {"count": repeated.times, "since": format_time(repeated.since)}


def format_time(at: datetime | None) -> str:
    return "none" if at is None else f"{at:%Y-%m-%dT%H:%M:%SZ}"
