"""Makes work for free permits: opens claimed messages and gives them to their handlers.

A message that no handler may see ends here: its type has no handler, its payload is invalid, or
its time is over. A batch handler gets its messages when the batch is full or has waited long
enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwork.app.declarations import Consumer
from tickwork.app.message import ClaimedBatch, ClaimedMessage
from tickwork.app.payloads import PayloadInvalid
from tickwork.core.message import decide
from tickwork.core.message.outcome import InvalidPayload, UnhandledType
from tickwork.core.model import Message as Stored
from tickwork.core.model import StoredQueue
from tickwork.service.worker.claim import WorkerContext
from tickwork.service.worker.endings import Endings
from tickwork.service.worker.invoke import HandlerArgument, decode_payload
from tickwork.service.worker.permits import Work
from tickwork.service.worker.prefetch import Prefetch

TYPES_WARNED_MAX = 1_000
"""Maximum number of unhandled types that are reported."""


class Intake:
    """The work that the claimed messages of one queue make. With `takes_partial_batches` a batch
    starts before it is full."""

    def __init__(
        self,
        context: WorkerContext,
        consumer: Consumer,
        queue: StoredQueue,
        *,
        prefetch: Prefetch,
        endings: Endings,
    ) -> None:
        self._context = context
        self._now = context.monotonic
        self._consumer = consumer
        self._queue = queue
        self._settings = queue.settings
        self._prefetch = prefetch
        self._endings = endings
        self._types_reported: set[str | None] = set()
        self.takes_partial_batches = False

    def next_work(self) -> Work | None:
        """The next invocation for a free permit. While the lease is not trusted nothing starts:
        either it is renewed, or the node finds that it is lost and drops its claims."""
        while self._prefetch and self._context.is_trusted():
            if self._consumer.batch is None:
                claimed = self._prefetch.take_one()
            elif self._is_batch_due():
                claimed = self._prefetch.take(self._settings.max_batch_size)
            else:
                return None
            if (work := self.make_work(claimed)) is not None:
                return work
        return None

    def _is_batch_due(self) -> bool:
        return (
            len(self._prefetch) >= self._settings.max_batch_size
            or self._prefetch.oldest_wait_seconds() >= self._settings.max_batch_timeout
            or self.takes_partial_batches
        )

    def make_work(self, claimed: Sequence[Stored]) -> Work | None:
        """One invocation with the messages that a handler may see; None if there are none."""
        deadline = self._now() + self._settings.timeout_seconds
        opened = [self._open_message(stored, deadline) for stored in claimed]
        messages = [message for message in opened if message is not None]
        if not messages:
            return None
        handler = self._consumer.handler_for(messages[0].stored.type)
        assert handler is not None
        argument: HandlerArgument = (
            ClaimedBatch(self._queue.name, messages) if handler.is_batch else messages[0]
        )
        return Work(handler, messages, argument)

    def _open_message(self, stored: Stored, deadline: float) -> ClaimedMessage[Any] | None:
        """The message with its decoded payload; None if it is settled without a handler."""
        handler = self._consumer.handler_for(stored.type)
        unseen = decide.early_outcome(stored) if handler else UnhandledType()
        if handler is None or unseen is not None:
            assert unseen is not None
            self._endings.finish_unhandled(stored, unseen)
            if isinstance(unseen, UnhandledType):
                self._report_unhandled(stored.type)
            return None
        try:
            body = decode_payload(handler, stored)
        except PayloadInvalid as error:
            self._endings.finish_unhandled(stored, InvalidPayload(str(error)))
            return None
        return ClaimedMessage(
            stored,
            body,
            compose=self._context.compose,
            monotonic=self._now,
            deadline=deadline,
            is_ours=self._context.is_ours,
        )

    def _report_unhandled(self, type_: str | None) -> None:
        if type_ not in self._types_reported and len(self._types_reported) < TYPES_WARNED_MAX:
            self._types_reported.add(type_)
            self._context.observer.type_unhandled(self._queue, type_)
