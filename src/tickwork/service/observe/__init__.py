"""What a worker tells about its work, and to whom.

```
  consumer ── claimed, handled ──┐
  settler ──── settled ──────────┼──▶ Reports ──▶ lines.py    for people
  loops ────── trouble ──────────┘            ├─▶ metrics.py  for Prometheus
                                              └─▶ slot_numbers.py  so are these
```

A message is told when its end is stored, not before: only then is it known how it ended. Whole
settlements are told at once, so that what is told costs a message next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tickwork.clock import monotonic
from tickwork.core.model import Fate, Queue, Reaped, SettleResult
from tickwork.store.contract import Store

if TYPE_CHECKING:
    from tickwork.service.observe.log_events import EventLog
    from tickwork.service.observe.metrics import WorkerMetrics
    from tickwork.service.observe.schedule_metrics import ScheduleCounters
    from tickwork.service.worker.settle import FinishedMessage

OUTCOMES = {
    Fate.ACK: "succeeded",
    Fate.RETRY: "retried",
    Fate.RELEASE: "released",
    Fate.DEAD: "dead",
}
"""What a message's end is called, if it was stored."""

REFUSED = "refused"
"""It came too late: somebody else has the message, and nothing of this happened."""

DUPLICATE = "duplicate"
"""An event that was done already; the message is gone, and nothing else happened."""

LOOKS = 3
"""The database's clock is looked at so often, and the quickest answer counts."""


class Observer(Protocol):
    """Told of everything; must be quick, and must not raise."""

    def claimed(self, queue: Queue, count: int) -> None:
        """So many messages were handed out to us."""

    def handled(self, queue: Queue, took_seconds: float) -> None:
        """A handler has ended, whatever it said."""

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        """These ends are stored, but for those that the result names."""

    def reaped(self, reaped: Reaped) -> None:
        """This was ended by us, of what nobody else would end."""

    def trouble(self, what: str, error: Exception) -> None:
        """Something went wrong that will be tried again."""

    async def look(self, store: Store) -> None:
        """Looks now and then at what nobody tells: the database's clock."""


class Unmoved:
    """An observer that takes no notice; to be told of some of it, say which."""

    def claimed(self, queue: Queue, count: int) -> None:
        pass

    def handled(self, queue: Queue, took_seconds: float) -> None:
        pass

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        pass

    def reaped(self, reaped: Reaped) -> None:
        pass

    def trouble(self, what: str, error: Exception) -> None:
        pass

    async def look(self, store: Store) -> None:
        pass


class ClockOffset:
    """The database's time, reckoned from our monotonic clock.

    A message is visible at a time of the database's, and its handler starts at one of ours. They
    are compared by the distance between the two clocks, which is measured now and then: half of
    what the question took is the most by which it can be wrong.
    """

    def __init__(self) -> None:
        self._ahead_seconds: float | None = None

    async def look(self, store: Store) -> None:
        """Measures the distance."""
        best = float("inf")
        for _ in range(LOOKS):
            asked = monotonic()
            now = await store.now()
            took = monotonic() - asked
            if took < best:
                best, self._ahead_seconds = took, now.timestamp() - asked - took / 2

    def delays_seconds(self, ends: Sequence[FinishedMessage]) -> list[float]:
        """How long after its time a message's handler was begun, of each for which one was."""
        ahead = self._ahead_seconds
        if ahead is None:
            return []
        delays = [
            end.started + ahead - end.message.visible_at.timestamp()
            for end in ends
            if end.started is not None
        ]
        # By so little as the distance may be wrong, it may seem to have been begun too early.
        return delays if min(delays, default=0.0) >= 0.0 else [max(0.0, each) for each in delays]


class Reports(Unmoved):
    """Tells lines and metrics, and of slots those who count them."""

    def __init__(
        self, lines: EventLog, metrics: WorkerMetrics, clock: ClockOffset, slots: ScheduleCounters
    ) -> None:
        self._lines, self._metrics, self._clock, self._slots = lines, metrics, clock, slots

    def claimed(self, queue: Queue, count: int) -> None:
        self._metrics.claimed(queue, count)

    def handled(self, queue: Queue, took_seconds: float) -> None:
        self._metrics.handled(queue, took_seconds)

    def settled(self, queue: Queue, ends: Sequence[FinishedMessage], result: SettleResult) -> None:
        self._metrics.settled(queue, ends, result)
        self._slots.settled(ends, result)
        self._lines.settled(queue, ends, result)

    def reaped(self, reaped: Reaped) -> None:
        self._slots.expired(reaped.expired_slots)

    def trouble(self, what: str, error: Exception) -> None:
        self._lines.trouble(what, error)

    async def look(self, store: Store) -> None:
        await self._clock.look(store)
