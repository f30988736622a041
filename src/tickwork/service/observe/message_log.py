"""Log lines about messages: one for each that is finished.

| outcome | level |
|---|---|
| succeeded | debug, sampled: a maximum number per second and queue |
| released before its handler started | the same |
| released (snoozed), duplicate | info |
| retried, refused | warning |
| dead | error |
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.answers.ids import Prefix, optional_id, public_id
from tickwork.core.message.error_summary import summary
from tickwork.core.model import Fate, Message, SettleResult, StoredQueue
from tickwork.service.observe import DUPLICATE, OUTCOMES, REFUSED, ClockOffset, Observer
from tickwork.service.observe.log_events import MULTILINE_FIELD, LogEvent, repeated_fields
from tickwork.service.observe.repeats import Repeated, RepeatedLines

if TYPE_CHECKING:
    from tickwork.service.worker.settle import FinishedMessage

SUCCESSES_PER_SECOND = 10
"""Maximum number of lines about successes per second and queue, unless configured."""

_LEVELS = {
    OUTCOMES[Fate.RETRY]: logging.WARNING,
    OUTCOMES[Fate.DEAD]: logging.ERROR,
    REFUSED: logging.WARNING,
}
_ACK = Fate.ACK

_log = logging.getLogger("tickwork")


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


class MessageLog(Observer):
    """Writes a line for each finished message. The clock measures how long it waited."""

    def __init__(
        self,
        clock: ClockOffset,
        repeats: RepeatedLines,
        *,
        successes_per_second: int = SUCCESSES_PER_SECOND,
    ) -> None:
        self._clock = clock
        self._repeats = repeats
        self._per_second = successes_per_second
        self._samplers: dict[UUID, RateSampler] = {}

    def messages_settled(
        self, queue: StoredQueue, finished: Sequence[FinishedMessage], result: SettleResult
    ) -> None:
        has_unexpected = result.refused or result.duplicates
        unexpected = _unexpected_outcomes(result) if has_unexpected else {}
        logs_successes = _log.isEnabledFor(logging.DEBUG)
        for done in finished:
            if unexpected and (outcome := unexpected.get(done.message.id)) is not None:
                self._log_unexpected(queue, done, outcome)
            elif done.ending.fate is not _ACK:
                self._log_message(queue, done, OUTCOMES[done.ending.fate])
            elif logs_successes:
                self._log_sampled(queue, done)

    def _log_unexpected(self, queue: StoredQueue, finished: FinishedMessage, outcome: str) -> None:
        if outcome != REFUSED:
            self._log_message(queue, finished, outcome)
            return

        def write(repeated: Repeated | None) -> None:
            if repeated is None:
                self._log_message(queue, finished, outcome)
            else:
                text = "messages refused, other workers had their claims and will run them"
                _log.warning(LogEvent(text, queue=queue.name, **repeated_fields(repeated)))

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


def _unexpected_outcomes(result: SettleResult) -> Mapping[UUID, str]:
    """The messages that were refused or were duplicates."""
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
