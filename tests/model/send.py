"""How messages are stored in the model: once, ordered by key, with copies, within the cap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from tests.model.state import Now, Row, Tables
from tickwork.core.message.subscription import copy_for, copy_id, matches
from tickwork.core.model import (
    FORMAT_VERSION,
    REASON_BACKLOG_FULL,
    Message,
    NewMessage,
    State,
    StoredQueue,
)
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull


class Arrivals:
    """Stores every kind of message; to be called inside a transaction."""

    bury: Callable[[Row, str, str], None]
    """Makes a dead letter of a message, with a reason and an error; set by `Departures`."""

    def __init__(self, tables: Tables, now: Now) -> None:
        self._tables, self._now = tables, now
        self._later: list[tuple[str, StoredQueue, NewMessage]] | None = None

    @contextmanager
    def copying_later(self) -> Iterator[None]:
        """Copies are stored at the end: they take no room from the sender's own messages."""
        copied: list[tuple[str, StoredQueue, NewMessage]] = []
        self._later = copied
        try:
            yield
        finally:
            self._later = None
        for copy in copied:
            self.copy(*copy)

    def send(self, tenant: str, queue: StoredQueue, messages: Iterable[NewMessage]) -> None:
        """Stores the messages that are not stored yet; `BacklogFull` if they do not fit. Then
        stores their copies."""
        new = [message for message in messages if self.store(tenant, queue, message)]
        self.check_backlogs({queue.id} if new else ())
        for message in new:
            self.copy(tenant, queue, message)

    def announce(self, tenant: str, queue: StoredQueue | None, message: NewMessage) -> int:
        """Sends events that must not fail: to the queue if there is one, and to subscribers;
        returns the number of subscribers."""
        if queue is None or self.store(tenant, queue, message):
            return len(self._copy(tenant, queue, message))
        return 0

    def store(
        self, tenant: str, queue: StoredQueue, new: NewMessage, *, batch_id: UUID | None = None
    ) -> bool:
        """Stores one message at the end of its key; False if it is stored already."""
        row = self._row(tenant, queue, new, batch_id)
        if self._tables.has(row):
            return False
        if self._tables.same_key(row.message):
            row = row.changed(state=State.BLOCKED)
        self._tables.put(row)
        self._tables.tally(CounterName.SENT, row.message)
        self._tables.watchers.wake({queue.id})
        return True

    def copy(self, tenant: str, queue: StoredQueue, message: NewMessage) -> None:
        """Copies a stored message to its subscribers. A copy that does not fit becomes a dead
        letter."""
        if self._later is not None:
            self._later.append((tenant, queue, message))
            return
        for queue_id, is_new in self._copy(tenant, queue, message).items():
            subscriber = self._tables.queues[queue_id]
            bytes_max = subscriber.settings.backlog_bytes_max
            if is_new and bytes_max is not None and self._backlog(subscriber) > bytes_max:
                copied = self._tables.messages[tenant, copy_id(message.id, queue_id)]
                error = str(BacklogFull(subscriber.name, bytes_max))
                self.bury(copied, REASON_BACKLOG_FULL, error)

    def check_backlogs(self, queue_ids: Iterable[UUID]) -> None:
        """Raises `BacklogFull` if a queue exceeds its cap."""
        for queue in [self._tables.queues[queue_id] for queue_id in queue_ids]:
            bytes_max = queue.settings.backlog_bytes_max
            if bytes_max is not None and self._backlog(queue) > bytes_max:
                raise BacklogFull(queue.name, bytes_max)

    def _backlog(self, queue: StoredQueue) -> int:
        rows = self._tables.messages.values()
        return sum(len(row.message.body) for row in rows if row.message.queue_id == queue.id)

    def _copy(
        self, tenant: str, queue: StoredQueue | None, message: NewMessage
    ) -> dict[UUID, bool]:
        """Copies for all subscribers; returns their queues, and whether the copies are new."""
        wanted = {
            subscription.queue_id
            for subscription in self._tables.subscriptions
            if subscription.tenant in (tenant, None) and matches(subscription.types, message.type)
        }
        wanted -= set() if queue is None else {queue.id}
        return {
            queue_id: self.store(tenant, self._tables.queues[queue_id], copy_for(message, queue_id))
            for queue_id in wanted
        }

    def _row(self, tenant: str, queue: StoredQueue, new: NewMessage, batch_id: UUID | None) -> Row:
        now = self._now()
        visible_at = now + timedelta(seconds=new.delay_seconds)
        expiry = new.expires_after_seconds
        message = Message(
            tenant=tenant,
            id=new.id,
            queue_id=queue.id,
            state=State.READY,
            priority=new.priority,
            claim=0,
            holder=None,
            claimed_at=None,
            attempts=0,
            lost=0,
            visible_at=visible_at,
            sent_at=now,
            key=new.key,
            event_id=new.event_id,
            type=new.type,
            source=new.source,
            correlation_id=new.correlation_id,
            causation_id=new.causation_id,
            hops=new.hops,
            batch_id=batch_id,
            schedule_id=new.schedule_id,
            slot=new.slot,
            run=new.run,
            catch_up=new.catch_up,
            due_at=None,
            grace_seconds=None,
            terms=None,
            idempotency_base=new.idempotency_base,
            death=new.death,
            traceparent=new.traceparent,
            receiver=new.receiver,
            content_type=new.content_type,
            format=FORMAT_VERSION,
            last_error=None,
            body=new.body,
        )
        expires_at = None if expiry is None else visible_at + timedelta(seconds=expiry)
        return Row(message, next(self._tables.places), expires_at)
