"""Decides how the messages of one queue end, and has them settled."""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.message import decide
from tickwork.core.message.outcome import Delivered, Outcome, Succeeded
from tickwork.core.model import Ending, Fate, StoredQueue
from tickwork.core.model import Message as Stored
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.invoke import InvocationResult, MessageOutcome
from tickwork.service.worker.prefetch import Prefetch
from tickwork.service.worker.settle import FinishedMessage, Settler


class Endings:
    """The endings of the messages of one queue. Handled messages count for the throughput of the
    prefetch."""

    def __init__(
        self, context: WorkerContext, queue: StoredQueue, settler: Settler, prefetch: Prefetch
    ) -> None:
        self._observer = context.observer
        self._now = context.monotonic
        self._has_jitter = not context.is_virtual
        self._queue = queue
        self._settings = queue.settings
        self._settler = settler
        self._prefetch = prefetch

    def finish(self, result: InvocationResult, started: float) -> None:
        """Ends the messages of an invocation as its outcomes say."""
        self._prefetch.count_finished(len(result.outcomes))
        took = self._now() - started
        self._observer.handler_finished(self._queue, took)
        finished = [self._finished_message(outcome, started, took) for outcome in result.outcomes]
        self._settler.add_invocation(finished, result.made)

    def finish_unhandled(self, stored: Stored, outcome: Outcome) -> None:
        """Ends a message that no handler has seen."""
        spread = self._spread(stored, outcome)
        ending = decide.settle(stored, outcome, self._settings, jitter=spread)
        self._settler.add(FinishedMessage(stored, ending))

    def release(self, messages: Sequence[Stored]) -> None:
        """Releases claimed messages; it does not count as an attempt."""
        for stored in messages:
            self._settler.add(
                FinishedMessage(stored, Ending(claim=stored.current_claim, fate=Fate.RELEASE))
            )

    def _finished_message(
        self, handled: MessageOutcome, started: float, took_seconds: float
    ) -> FinishedMessage:
        stored = handled.message.stored
        sends, batches = handled.made
        ending = decide.settle(
            stored,
            handled.outcome,
            self._settings,
            jitter=self._spread(stored, handled.outcome),
            sends=sends,
            batches=batches,
            took_seconds=took_seconds,
        )
        rows = handled.message.rows if ending.fate is Fate.ACK else None
        return FinishedMessage(stored, ending, rows, started, took_seconds)

    def _spread(self, stored: Stored, outcome: Outcome) -> float:
        # A success is never retried, and hashing each of them would be expensive.
        if isinstance(outcome, Delivered):
            outcome = outcome.outcome
        if not self._has_jitter or isinstance(outcome, Succeeded):
            return 0.0
        return decide.jitter_of(stored)
