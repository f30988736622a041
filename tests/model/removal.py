"""How messages are removed from the model, and what follows: keys, batches, events."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from msgspec import structs

from tests.model.send import Arrivals
from tests.model.state import BatchRow, Now, Row, Tables
from tickwork.core.message.batch import BatchItem, ItemStatus, completed_attempts, completion_event
from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.message.error_summary import fingerprint
from tickwork.core.message.system_events import DeadMessage, dead_message_events
from tickwork.core.model import Claim, Ending, Fate, Message, NewMessage, Scope, State
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.firing import FiringRecord, FiringResult
from tickwork.store.ids import new_id
from tickwork.store.shared.counters import warn_missing_completion_queue


class Departures:
    """Removes every kind of message; to be called inside a transaction."""

    def __init__(self, tables: Tables, now: Now, arrivals: Arrivals) -> None:
        self._tables, self._now, self._arrivals = tables, now, arrivals
        self._later: list[BatchRow] | None = None
        arrivals.bury = self._bury_unclaimed

    @contextmanager
    def completing_later(self) -> Iterator[None]:
        """Batches that become complete are completed at the end: their events come last."""
        ended: list[BatchRow] = []
        self._later = ended
        try:
            yield
        finally:
            self._later = None
        for batch in ended:
            self.complete(self._tables.batches[batch.tenant, batch.id])

    def is_done(self, message: Message) -> bool:
        """Whether the message's event was done before."""
        event = (message.tenant, message.queue_id, message.event_id)
        return event in self._tables.events_done

    def ack(self, row: Row) -> None:
        """Acks the message and remembers its event."""
        message = row.message
        is_started = message.claimed_at is not None and not self.is_done(message)
        if message.event_id is not None:
            event = (message.tenant, message.queue_id, message.event_id)
            self._tables.events_done.setdefault(event, self._now())
        self._tables.tally(CounterName.DONE, message)
        self._remove(row)
        self._count(
            message if is_started else structs.replace(message, claimed_at=None),
            ItemStatus.COMPLETED,
            None,
        )

    def drop(self, row: Row, reason: str) -> None:
        """Purges, deletes or cancels the message."""
        self._tables.tally(CounterName.PURGED, row.message)
        self._remove(row)
        self._count(row.message, ItemStatus.FAILED, reason)

    def put_back(self, row: Row, ending: Ending) -> None:
        """Makes the message ready again after the ending's delay; it keeps its key."""
        if ending.counts_attempt:
            self._tables.tally(CounterName.RETRIED, row.message)
        self._tables.put(
            row.changed(
                state=State.READY,
                holder=None,
                claimed_at=None,
                attempts=row.message.attempts + ending.counts_attempt,
                lost=0 if ending.counts_attempt else row.message.lost,
                visible_at=self._now() + timedelta(seconds=ending.delay_seconds),
                last_error=ending.error or row.message.last_error,
            )
        )

    def bury(self, row: Row, ending: Ending) -> None:
        """Makes a dead letter of the message, and a message in the dead-letter queue if there is
        one."""
        letter = self._letter(row.message, ending)
        self._tables.letters[letter.id] = letter
        self._tables.tally(CounterName.DEAD, row.message)
        self._remove(row)
        self._move(row.message, letter)
        self._count(row.message, ItemStatus.FAILED, letter.reason)
        for event in dead_message_events(self._death(letter)):
            self._arrivals.announce(letter.tenant, None, event)

    def _bury_unclaimed(self, row: Row, reason: str, error: str) -> None:
        claim = Claim(row.message.tenant, row.message.id, row.message.claim, new_id())
        self.bury(row, Ending(claim=claim, fate=Fate.DEAD, reason=reason, error=error))

    def record(self, message: Message, record: FiringResult | None) -> None:
        """Records the firing of the message's slot, if it has one."""
        if record is None or message.schedule_id is None or message.slot is None:
            return
        now = self._now()
        self._tables.firings.append(
            FiringRecord(
                id=new_id(),
                tenant=message.tenant,
                schedule_id=message.schedule_id,
                slot=message.slot,
                run=message.run,
                attempt=message.attempts + record.is_attempt,
                status=record.status,
                reason=record.reason,
                due_at=message.due_at or message.visible_at,
                started_at=now - timedelta(seconds=record.took_seconds),
                finished_at=now,
                result_code=record.result_code,
                excerpt=record.excerpt,
                channels=record.channels,
                catch_up=message.catch_up,
                count=1,
                last_slot=None,
            )
        )

    def complete(self, batch: BatchRow) -> bool:
        """Sends the one event of a sealed batch whose items have all ended."""
        if not batch.has_ended or batch.completed_at is not None:
            return False
        if self._later is not None:
            self._later.append(batch)
            return False
        self._tables.batches[batch.tenant, batch.id] = structs.replace(
            batch, completed_at=self._now()
        )
        event = completion_event(
            batch.id,
            total=batch.completed + batch.failed,
            completed=batch.completed,
            failed=batch.failed,
        )
        queue = self._tables.find_queue(Scope(batch.tenant), batch.completion_queue)
        if queue is None and batch.completion_queue is not None:
            warn_missing_completion_queue(batch.id, batch.completion_queue)
        self._arrivals.announce(batch.tenant, queue, event)
        return True

    def _remove(self, row: Row) -> None:
        """Unblocks the earliest blocked message of a key."""
        del self._tables.messages[row.name]
        waiting = self._tables.same_key(row.message)
        if waiting and all(waiting_row.message.state is State.BLOCKED for waiting_row in waiting):
            visible_at = max(waiting[0].message.visible_at, self._now())
            self._tables.put(waiting[0].changed(state=State.READY, visible_at=visible_at))
            self._tables.watchers.wake({row.message.queue_id})

    def _move(self, message: Message, letter: StoredDeadLetter) -> None:
        settings = self._tables.queues[message.queue_id].settings
        queue = self._tables.find_queue(Scope(message.tenant), settings.dead_letter_queue)
        if queue is None:
            return
        moved = NewMessage(
            id=message.id,
            body=message.body,
            content_type=message.content_type,
            priority=message.priority,
            key=message.key,
            event_id=message.event_id,
            type=message.type,
            source=message.source,
            correlation_id=message.correlation_id,
            causation_id=message.causation_id,
            hops=message.hops,
            idempotency_base=message.idempotency_key,
            death=self._death(letter).death.text,
        )
        self._arrivals.store(message.tenant, queue, moved)

    def _count(self, message: Message, status: ItemStatus, reason: str | None) -> None:
        if message.batch_id is None:
            return
        is_started = message.claimed_at is not None
        item = BatchItem(
            id=message.id,
            status=status,
            error=None,
            reason=reason,
            finished_at=self._now(),
            attempts=completed_attempts(status, message.attempts, is_started=is_started),
            started_at=message.claimed_at,
        )
        self._tables.items[message.tenant, message.batch_id, message.id] = item
        batch = self._tables.batches[message.tenant, message.batch_id]
        field = "completed" if status is ItemStatus.COMPLETED else "failed"
        batch = structs.replace(batch, **{field: getattr(batch, field) + 1})
        self._tables.batches[batch.tenant, batch.id] = batch
        self.complete(batch)

    def _death(self, letter: StoredDeadLetter) -> DeadMessage:
        copied = {
            name: getattr(letter, name)
            for name in DeadMessage.__struct_fields__
            if hasattr(letter, name)
        }
        queue = self._tables.queues[letter.queue_id].name
        return DeadMessage(**copied | {"dead_letter_id": letter.id, "queue": queue})

    def _letter(self, message: Message, ending: Ending) -> StoredDeadLetter:
        copied = {
            name: getattr(message, name)
            for name in StoredDeadLetter.__struct_fields__
            if hasattr(message, name)
        }
        return StoredDeadLetter(
            **copied
            | {
                "id": new_id(),
                "message_id": message.id,
                "reason": ending.reason or "failed",
                "error": ending.error or message.last_error,
                "fingerprint": fingerprint(ending.error),
                "attempts": message.attempts + ending.counts_attempt,
                "failed_at": self._now(),
                "resolution": None,
                "resolved_at": None,
                "edited_at": None,
                "replayed_as": None,
            }
        )
