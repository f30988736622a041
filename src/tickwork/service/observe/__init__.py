"""The events that the engine reports, and the one interface that receives them.

```
                                                              ┌─▶ WorkerMetrics    Prometheus
  worker ─────── claimed, finished, settled ──┐               ├─▶ ScheduleMetrics  Prometheus
  node ───────── renewal failing, lease lost ─┼──▶ Observers ─┼─▶ MessageLog       log lines
  scheduler ──── planned, parked, stalled ────┤               ├─▶ ScheduleLog      log lines
  watchdog ───── event loop blocked ──────────┘               └─▶ EventLog         log lines
```

An event is a method. Those of a worker, of a node and of a scheduler are an interface each;
`Observer` has them all. A sink is an observer that overrides the methods of the events it needs.
`Observers` passes each event to the sinks that override it.

A message is reported when its settlement is stored, because only then its outcome is known. One
call reports a whole settlement, so observing costs next to nothing per message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.model import Fate, Message, Reaped, SettleResult, StoredQueue
from tickwork.core.schedule.plan import Plan
from tickwork.core.workflow.model import Run
from tickwork.store.contract import Store

if TYPE_CHECKING:
    from tickwork.core.answers.schedule import MovedSchedule
    from tickwork.service.worker.settle import FinishedMessage

OUTCOMES = {
    Fate.ACK: "succeeded",
    Fate.RETRY: "retried",
    Fate.RELEASE: "released",
    Fate.DEAD: "dead",
}
"""The name of each stored outcome in logs and metrics."""

REFUSED = "refused"
"""The claim was lost before the settlement: another worker has the message."""

DUPLICATE = "duplicate"
"""The event was processed before. The message is removed and has no other effect."""

CLOCK_READINGS = 3
"""Number of readings of the database's clock per measurement; the fastest one counts."""


class BlockedEventLoop(NamedTuple):
    """What the watchdog found: how long, where, and which messages were being handled."""

    seconds: float
    at: str | None
    blocking: str | None
    running_messages: int
    others: Sequence[str]
    stack: str | None


class Events:
    """What any part of the engine reports."""

    def error_occurred(self, activity: str, error: Exception) -> None:
        """A background activity failed and will be retried."""


class WorkerEvents(Events):
    """What a worker reports."""

    def messages_claimed(self, queue: StoredQueue, count: int) -> None:
        """A claim returned this many messages, perhaps none."""

    def handler_finished(self, queue: StoredQueue, took_seconds: float) -> None:
        """A handler returned, raised or was stopped."""

    def messages_settled(
        self, queue: StoredQueue, finished: Sequence[FinishedMessage], result: SettleResult
    ) -> None:
        """These outcomes are stored, except those that the result names."""

    def settling_abandoned(self, queue: StoredQueue, count: int) -> None:
        """On shutdown this many finished messages could not be settled in time."""

    def type_unhandled(self, queue: StoredQueue, type_: str | None) -> None:
        """The first message of a type for which this process has no handler."""

    def chain_found(self, queue: StoredQueue, message: Message) -> None:
        """The first message of a type that was caused by a long chain of other messages."""

    def suspects_not_alone(self, queue: StoredQueue, why: str) -> None:
        """Suspects run beside other messages."""

    def run_diverged(self, run: Run, divergence: str) -> None:
        """The code of a run does not agree with its record; it waits for other code."""

    def claims_reaped(self, reaped: Reaped) -> None:
        """This node released or expired claims and messages of dead nodes."""


class NodeEvents(Events):
    """What a node and the watchdog of its event loop report."""

    def renewal_failed(self, why: str, left_seconds: float) -> None:
        """The first heartbeat failed; the lease lasts this long without another one."""

    def renewal_failing(self, why: str, left_seconds: float) -> None:
        """Heartbeats keep failing, and at most a third of the lease is left."""

    def renewal_recovered(self, failed_seconds: float) -> None:
        """The lease is renewed again."""

    def lease_lost(self, node_id: UUID) -> None:
        """The node's lease expired; other nodes have what it claimed and led."""

    def leading_paused(self, seconds: float) -> None:
        """The event loop was blocked this long; other nodes lead this node's schedules."""

    def leading_resumed(self) -> None:
        """The event loop runs again, and the node may lead schedules."""

    def event_loop_blocked(self, blocked: BlockedEventLoop) -> None:
        """The event loop does not respond while handlers run."""


class ScheduleEvents(Events):
    """What a scheduler reports."""

    def schedules_planned(self, plans: Sequence[Plan]) -> None:
        """These plans are stored."""

    def shards_led(self, shards: int, lost: int) -> None:
        """Number of shards this node leads, and the number it ever lost to other nodes."""

    def planning_lag(
        self, lag_seconds: float, overdue_seconds: float, statement_seconds: float
    ) -> None:
        """Seconds the last planning was late, seconds the oldest schedule is overdue, and seconds
        that a statement of the last planning took on average."""

    def shard_stalled(self, shard: int, overdue_seconds: float) -> None:
        """A shard has overdue work that its leader does not do."""

    def clock_jumped(self, seconds: float) -> None:
        """Somebody set the database's clock."""

    def clock_jump_dismissed(self, seconds: float) -> None:
        """The jump may be the suspension of a machine; intervals are not moved."""

    def intervals_moved(self, schedules: int) -> None:
        """Number of interval schedules that were moved with the database's clock."""

    def schedule_parked(self, tenant: str, schedule_id: UUID, error: str) -> None:
        """A schedule cannot be planned and is parked with this error."""

    def tzdata_applied(
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[MovedSchedule]
    ) -> None:
        """A shard was recomputed under new tzdata: the old and new version, the number of
        schedules whose next slot moved, and the first few of them."""

    def tzdata_failed(self, tenant: str, schedule_id: UUID, error: str) -> None:
        """A schedule could not be recomputed under new tzdata and keeps its next slot."""

    def tzdata_outdated(self, own: str, newer: str) -> None:
        """This node's tzdata is older than the version a shard was planned with."""


class Observer(WorkerEvents, NodeEvents, ScheduleEvents):
    """All events; each does nothing unless a sink overrides it.

    Methods must be fast and must not raise. The events of the node and `error_occurred` are also
    called from other threads.
    """


EVENTS = tuple(name for name in dir(Observer) if not name.startswith("_"))


class Observers(Observer):
    """Passes each event to those of its sinks that override it, in their order."""

    def __init__(self, *sinks: Observer) -> None:
        # Resolved once: `handler_finished` is called for every message.
        for event in EVENTS:
            ignored = getattr(Observer, event)
            receivers = [
                getattr(sink, event) for sink in sinks if getattr(type(sink), event) is not ignored
            ]
            if len(receivers) == 1:
                setattr(self, event, receivers[0])
            elif receivers:
                setattr(self, event, _call_all(receivers))


def _call_all(receivers: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def call_all(*arguments: Any) -> None:
        for receive in receivers:
            receive(*arguments)

    return call_all


class ClockOffset:
    """The offset of the database's clock from our monotonic clock.

    A message becomes visible at a time of the database's clock, and its handler starts at a time of
    ours. The offset makes them comparable. It is measured now and then; the error is at most half
    of the query's round trip.
    """

    def __init__(self) -> None:
        self._offset_seconds: float | None = None

    async def measure(self, store: Store) -> None:
        """Measures the offset."""
        fastest = float("inf")
        for _ in range(CLOCK_READINGS):
            asked = monotonic()
            now = await store.now()
            took = monotonic() - asked
            if took < fastest:
                fastest, self._offset_seconds = took, now.timestamp() - asked - took / 2

    def delays_seconds(self, finished: Sequence[FinishedMessage]) -> list[float]:
        """Seconds between a message's visible time and its handler's start, for each message
        whose handler was started."""
        offset = self._offset_seconds
        if offset is None:
            return []
        delays = [
            done.started + offset - done.message.visible_at.timestamp()
            for done in finished
            if done.started is not None
        ]
        # The offset's error can make a delay slightly negative.
        return delays if min(delays, default=0.0) >= 0.0 else [max(0.0, delay) for delay in delays]
