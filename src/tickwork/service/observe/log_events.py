"""Lines for people: one for each message that came to an end, and what goes wrong around them.

They go through the logger `tickwork` of the standard library; who shows them, and how, is for the
process to say. A plain formatter shows `event key=value …`; ours (`logs.py`) shows the fields.

| outcome | level |
|---|---|
| succeeded | debug, some of them: at most so many a second and queue |
| given back before its handler began | the same |
| released (snoozed), duplicate | info |
| retried, refused | warning |
| dead | error |
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.message.error_summary import summary
from tickwork.core.model import Fate, Message, Queue, SettleResult
from tickwork.service.observe import DUPLICATE, OUTCOMES, REFUSED, ClockOffset

if TYPE_CHECKING:
    from tickwork.service.worker.settle import FinishedMessage

REPEAT_SECONDS = 10.0
"""The same trouble is told again after so long."""

SUCCESSES_PER_SECOND = 10
"""So many lines about successes a queue has in a second, unless somebody says how many."""

_LEVELS = {
    OUTCOMES[Fate.RETRY]: logging.WARNING,
    OUTCOMES[Fate.DEAD]: logging.ERROR,
    REFUSED: logging.WARNING,
}
_ACK = Fate.ACK

_log = logging.getLogger("tickwork")


class LogEvent:
    """What happened, and its fields; only whoever shows it makes a text of it."""

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
"""The field that has many lines."""


def format_value(value: object) -> str:
    """A value within a line: what came from outside cannot end the line, or pass for another."""
    text = str(value)
    is_plain = text.isprintable() and not any(each in text for each in ' "=')
    return text if is_plain and text else json.dumps(text, ensure_ascii=not text.isprintable())


class RateSampler:
    """Some of what comes: the first so many of every second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._since = float("-inf")
        self._told = 0
        self._left_out = 0

    def take(self, now: float) -> bool:
        """Whether this one is to be told."""
        if now - self._since >= 1.0:
            self._since, self._told = now, 0
        if self._told >= self._per_second:
            self._left_out += 1
            return False
        self._told += 1
        return True

    def left_out(self) -> int | None:
        """How many were not, since this was last asked; None if all were told."""
        count, self._left_out = self._left_out, 0
        return count or None


class EventLog:
    """Says it in the log `tickwork`."""

    def __init__(
        self,
        clock: ClockOffset | None = None,
        *,
        successes_per_second: int = SUCCESSES_PER_SECOND,
    ) -> None:
        self._clock, self._per_second = clock or ClockOffset(), successes_per_second
        self._told: dict[str, float] = {}
        self._samples: dict[UUID, RateSampler] = {}

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        """A line for each, but not for every success."""
        odd = unexpected_outcomes(result)
        tells_all = _log.isEnabledFor(logging.DEBUG)
        for end in ends:
            if odd and (outcome := odd.get(end.message.id)) is not None:
                self._tell(queue, end, outcome)
            elif end.ending.fate is not _ACK:
                self._tell(queue, end, OUTCOMES[end.ending.fate])
            elif tells_all:
                self._tell_some(queue, end)

    def trouble(self, what: str, error: Exception) -> None:
        """What will be tried again; the same is told once, and then now and then."""
        now = monotonic()
        if now - self._told.get(what, float("-inf")) >= REPEAT_SECONDS:
            self._told[what] = now
            kind = type(error).__name__
            _log.warning(LogEvent("trouble, trying again", what=what, error=f"{kind}: {error}"))

    def lease_lost(self, node: UUID) -> None:
        """This process was taken for dead."""
        _log.warning(LogEvent("lease lost, others have what was claimed", node=str(node)))

    def _tell_some(self, queue: Queue, end: FinishedMessage) -> None:
        sample = self._samples.get(queue.id)
        if sample is None:
            sample = self._samples[queue.id] = RateSampler(self._per_second)
        if sample.take(monotonic()):
            fields = self._fields(queue, end, OUTCOMES[end.ending.fate])
            _log.debug(LogEvent(left_out=sample.left_out(), **fields))

    def _tell(self, queue: Queue, end: FinishedMessage, outcome: str) -> None:
        if end.started is None and end.ending.fate is Fate.RELEASE and end.ending.error is None:
            if _log.isEnabledFor(logging.DEBUG):
                self._tell_some(queue, end)
            return
        level = _LEVELS.get(outcome, logging.INFO)
        if _log.isEnabledFor(level):
            _log.log(level, LogEvent(**self._fields(queue, end, outcome)))

    def _fields(self, queue: Queue, end: FinishedMessage, outcome: str) -> dict[str, Any]:
        message, ending = end.message, end.ending
        will_retry = outcome in (OUTCOMES[Fate.RETRY], OUTCOMES[Fate.RELEASE])
        error = ending.error if outcome not in (REFUSED, DUPLICATE) else None
        return {
            "event": f"message {outcome}",
            "outcome": outcome,
            "queue": queue.name,
            **identity(message),
            "source": message.source,
            "delay": next((round(each, 6) for each in self._clock.delays_seconds([end])), None),
            "took": None if end.started is None else round(end.took_seconds, 6),
            "will_retry": will_retry,
            "retry_in": round(ending.delay_seconds, 3) if will_retry else None,
            "reason": ending.reason,
            "error": summary(error),
            MULTILINE_FIELD: error if error and "\n" in error else None,
        }


def unexpected_outcomes(result: SettleResult) -> Mapping[UUID, str]:
    """The messages that did not end as they should have, and how they did."""
    if not (result.refused or result.duplicates):
        return {}
    late = {held.id: REFUSED for held in result.refused}
    return late | {held.id: DUPLICATE for held in result.duplicates}


def identity(message: Message) -> dict[str, Any]:
    """What a message is known by; the same in every line about it."""
    return {
        "message_id": str(message.id),
        "event_id": message.event_id or str(message.id),
        "correlation_id": message.correlation_id or str(message.id),
        "tenant": message.tenant,
        "type": message.type,
        "batch_id": message.batch_id and str(message.batch_id),
        "attempt": message.attempts + 1,
    }
