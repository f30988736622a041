"""What a worker says about its work: lines for people.

One line for each message that is handled: at debug if all is well, at warning if it will be tried
again or is dead. What goes wrong around the messages is told once and then at most now and then.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from tickwork.clock import monotonic
from tickwork.core.model import Ending, Fate, Held, Message, Queue

REPEAT_SECONDS = 10.0
"""The same trouble is told again after so long."""

_log = logging.getLogger("tickwork")


class Observer(Protocol):
    """Told of everything; must be quick, and must not raise."""

    def handled(self, message: Message, queue: Queue, ending: Ending) -> None:
        """A handling has ended so."""

    def refused(self, held: Sequence[Held]) -> None:
        """These had been given to others by the time they were settled."""

    def trouble(self, what: str, error: Exception) -> None:
        """Something went wrong that will be tried again."""


class Lines:
    """Says it in the log `tickwork`."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def handled(self, message: Message, queue: Queue, ending: Ending) -> None:
        level = logging.DEBUG if ending.fate is Fate.ACK else logging.WARNING
        if not _log.isEnabledFor(level):
            return
        _log.log(
            level,
            "%s queue=%s id=%s event_id=%s type=%s source=%s correlation=%s attempt=%d "
            "delay=%g will_retry=%s%s",
            ending.fate,
            queue.name,
            message.id,
            message.event_id or message.id,
            message.type,
            message.source,
            message.correlation_id or message.id,
            message.attempts + 1,
            ending.delay_seconds,
            ending.fate in (Fate.RETRY, Fate.RELEASE),
            f" reason={ending.reason}" if ending.reason else "",
        )

    def refused(self, held: Sequence[Held]) -> None:
        for each in held:
            _log.warning("lost id=%s claim=%d: nothing of it happened", each.id, each.claim)

    def trouble(self, what: str, error: Exception) -> None:
        now = monotonic()
        if now - self._told.get(what, float("-inf")) >= REPEAT_SECONDS:
            self._told[what] = now
            _log.warning("%s: %s: %s; trying again", what, type(error).__name__, error)
