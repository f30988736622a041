"""The part of the store contract for queues, messages, dead letters and batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from tickwork.core.answers.message_type import DeclaredType
from tickwork.core.message.batch import Batch, BatchItem, ItemStatus, NewBatch
from tickwork.core.message.dead_letter import (
    DeadGroup,
    DeadLetterPage,
    Pace,
    Replayed,
    Selection,
    StoredDeadLetter,
)
from tickwork.core.message.history import (
    EndedRecord,
    HistoryDefault,
    HistoryPage,
    HistoryPosition,
    HistorySelection,
)
from tickwork.core.message.message_list import (
    LOOKED_AT_MAX,
    MessagePage,
    MessagePosition,
    MessageSelection,
)
from tickwork.core.model import (
    Claim,
    ClaimRequest,
    ContentType,
    Counts,
    Ending,
    Message,
    NewMessage,
    QueuePosition,
    QueueSettings,
    Scope,
    Settlement,
    SettleResult,
    StoredQueue,
)
from tickwork.core.queue.performance import PeriodPerformance, Width
from tickwork.core.queue.rooms import Line
from tickwork.core.queue.stats import QueueStats, Waiting
from tickwork.core.trace import TraceRecord
from tickwork.core.types.declared import DifferingType, NewType, QueueTypes
from tickwork.core.usage import UsageRow, UsageWidth

Joined = Callable[[Any], Awaitable[None] | None]
"""A caller's own writes. It gets the store's connection inside the open transaction.

PostgreSQL awaits it with an asyncpg connection. SQLite calls it with a `sqlite3.Connection` on the
writer thread; there it must be short and must not be a coroutine function.
"""


CheckQueue = Callable[[StoredQueue | None], None]
"""Refuses a change of a queue by an error."""


class Queues(Protocol):
    """Queues by name."""

    async def put(
        self,
        scope: Scope,
        name: str,
        settings: QueueSettings,
        *,
        declared_by: str | None = None,
        check: CheckQueue | None = None,
    ) -> StoredQueue:
        """Creates a queue or replaces its settings; in the system scope a shared queue.
        `declared_by` is the app whose code gives them. `check` gets the scope's own queue in the
        transaction, or None, and may refuse the change."""

    async def get(self, scope: Scope, name: str) -> StoredQueue:
        """Returns one queue."""

    async def list(
        self, scope: Scope, *, limit: int | None = None, after: QueuePosition | None = None
    ) -> tuple[StoredQueue, ...]:
        """Returns the scope's queues by name and tenant, for a tenant including the shared ones;
        with a limit the first ones after a position. A shared queue comes before a tenant's own of
        the same name."""

    async def delete(self, scope: Scope, name: str, *, check: CheckQueue | None = None) -> None:
        """Deletes an empty queue; `Conflict` if it has messages or dead letters. `check` as for
        `put`."""

    async def pause(self, scope: Scope, name: str) -> None:
        """Stops claims from a queue. Sends still work."""

    async def resume(self, scope: Scope, name: str) -> None:
        """Allows claims again."""

    async def purge(self, scope: Scope, name: str) -> int:
        """Deletes the messages that are not claimed and returns their number; of a shared queue
        only the tenant's own.

        A batch counts its purged items as failed.
        """

    async def counts(self, scope: Scope, name: str, *, at_most: int | None = None) -> Counts:
        """Returns the number of messages in each state. Each count stops at `at_most`."""

    async def backlog_bytes(self, scope: Scope, ids: Collection[UUID]) -> dict[UUID, int]:
        """Returns the bytes of bodies that wait in queues with a cap; system only."""

    async def mark_pulled(self, scope: Scope, name: str) -> None:
        """Notes that a consumer asks for messages of a queue now."""

    async def pulled_at(self, scope: Scope, name: str) -> datetime | None:
        """Returns when a consumer last asked for messages of a queue."""


class Messages(Protocol):
    """Messages: send, claim, settle."""

    async def send(self, scope: Scope, queue: str, message: NewMessage) -> None:
        """Stores a message durably.

        An id names one message of a tenant. While that message is stored, a repeated send has no
        effect. Once it is done, its id is forgotten; use an `event_id` to recognise later repeats.
        A message with a `key` is blocked until every earlier message of that key in the queue is
        gone. A message with a `type` is copied to the queues that subscribe to it; a copy beyond
        the limit of its queue becomes a dead letter there. `BacklogFull` if the queue itself is at
        its limit.
        """

    async def send_batch(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores up to 10,000 messages, all or none."""

    async def send_bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Stores any number of messages in chunks, each all or none, and returns the number
        stored."""

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        """Sends an event that is in no queue to the queues that subscribe to it and the endpoints
        that name its type, and returns their number."""

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """Claims ready messages, oldest visible first. Each claim has a new number.

        In the system scope, tenants get fair shares by weight, and each tenant's highest priority
        comes first. A claim skips paused queues and suspended tenants, and respects the queue's
        rate limit and caps. A message whose event is done is acked without being claimed.
        `NodeExpired` if the holder is a node whose lease has expired.
        """

    async def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Returns which of these queues have ready messages that must run separately; system
        only."""

    async def with_ready(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Returns which of these queues have ready messages, visible now or later; system only."""

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        """Settles claims, with everything that follows from them, in one transaction.

        An ending whose claim is no longer valid is refused and changes nothing.
        """

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        """Settles claims together with the caller's own writes in one transaction.

        All or nothing: `ClaimLost` if a claim is no longer valid, `EventDone` if its event is done
        already. Errors of the caller's writes are raised unchanged. The writes must be short:
        PostgreSQL ends a transaction that idles for seconds. They may run again: after a conflict
        with another transaction, or after a failure in a group of settlements that shared one
        transaction.
        """

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool:
        """Settles a ready message that nobody has claimed since it was read, in one transaction;
        False, and no change, if somebody has, or it is gone. The ending has the claim that the
        message would get next, of a holder that is no node."""

    async def extend(self, scope: Scope, claim: Claim, lease_seconds: float) -> bool:
        """Makes a pull lease expire `lease_seconds` from now; False if the claim is no longer
        valid."""

    async def get(self, scope: Scope, queue: str | None, message_id: UUID) -> Message:
        """Returns one message of a queue, or of any queue."""

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        """Returns the next ready messages, oldest visible first, without claiming them."""

    async def list(
        self,
        scope: Scope,
        queue: str,
        selection: MessageSelection,
        limit: int,
        *,
        after: MessagePosition | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> MessagePage:
        """Returns the selected messages of a tenant, after a given position, in the order of
        `core.message.message_list`. In the system scope those of `default`.

        A page may be short, or empty, and have a next one: it looks at `looked_at_max` rows to find
        messages that match, and at every claimed message.
        """

    async def next_visible_at(self, scope: Scope, queue: str) -> datetime | None:
        """Returns when the next delayed message becomes visible, or None.

        With more than `LANES_MAX` tenants and priorities it is a hint: only that many are examined.
        """

    async def ahead(self, scope: Scope, queue: str, message: Message, at_most: int) -> int:
        """Returns how many ready messages of its tenant are claimed before a message, counted up
        to `at_most`."""

    async def line(self, scope: Scope, queue: str, message: Message, at_most: int) -> Line:
        """Returns what stands before a delivery in the line of its receiver, counted up to
        `at_most`, and what is under way to it."""

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        """Deletes a message that is not claimed; False if there is none."""


class DeadLetters(Protocol):
    """Dead letters. Of a shared queue a tenant sees its own."""

    async def list(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        """Returns the selected open dead letters of a queue, oldest first, after a given one.

        A page may be short, or empty, and have a next one: it looks at `looked_at_max` rows to find
        dead letters that match.
        """

    async def newest(
        self,
        scope: Scope,
        selection: Selection,
        *,
        after: UUID | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> DeadLetterPage:
        """Returns the selected open dead letters of all queues, newest first, behind a given one.
        Pages as those of `list`. The selection has no ids."""

    async def get(self, scope: Scope, dead_letter_id: UUID) -> StoredDeadLetter:
        """Returns one dead letter, open or resolved."""

    async def of_message(self, scope: Scope, message_id: UUID) -> StoredDeadLetter | None:
        """Returns the latest dead letter of a message, open or resolved, if there is one."""

    async def groups(self, scope: Scope, queue: str, limit: int) -> tuple[DeadGroup, ...]:
        """Groups the open dead letters by reason and error, largest group first."""

    async def count(self, scope: Scope, queue: str, selection: Selection) -> int:
        """Counts the open dead letters that match; ignores `selection.ids` and its limit."""

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> StoredDeadLetter:
        """Replaces the body of an open dead letter before its replay; `Conflict` if it is
        resolved."""

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        """Sends the selected dead letters again, oldest first, and resolves them, in one
        transaction.

        They go to the end of their queue. `BacklogFull` if the queue cannot take all of them.
        """

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        """Resolves the selected dead letters without sending them, and returns their number."""


class Batches(Protocol):
    """Batches: messages that are counted together."""

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        """Stores the items in chunks, each all or none, and then seals the batch.

        A repeat with the same id continues after the stored items; for a sealed batch it only
        returns it. `Conflict` if an item's id is in use, the batch belongs to another queue, or its
        filling was abandoned.
        """

    async def open(self, scope: Scope, batch: NewBatch) -> Batch:
        """Creates a batch that takes items until it is closed; a repeat has no effect. Without new
        items for an hour the reaper closes it."""

    async def add(self, scope: Scope, batch: NewBatch, items: Sequence[NewMessage]) -> Batch:
        """Adds items to an open batch, all or none. `Conflict` if it is closed, if another call
        adds items at the same time, or if the id of an item is in use."""

    async def close(self, scope: Scope, batch_id: UUID) -> Batch:
        """Closes an open batch: it completes with the items that it has. A repeat has no
        effect."""

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        """Returns a batch and its exact progress. The cost does not grow with the batch."""

    async def list(
        self, scope: Scope, limit: int, *, before: tuple[datetime, UUID] | None = None
    ) -> tuple[Batch, ...]:
        """Returns the latest batches, newest first, before a time of creation and id."""

    async def items(
        self,
        scope: Scope,
        batch_id: UUID,
        status: ItemStatus,
        limit: int,
        *,
        after: UUID | None = None,
    ) -> tuple[BatchItem, ...]:
        """Returns the items of a status by id, after a given one."""

    async def cancel(self, scope: Scope, batch_id: UUID, *, publish_event: bool = True) -> Batch:
        """Seals the batch and fails the items that are not claimed; publishes its event if
        `publish_event`."""


class Stats(Protocol):
    """Counters of messages; see `core.queue.stats` for their precision."""

    async def flush(self, scope: Scope) -> None:
        """Writes the counters of this process; system only."""

    async def queue(self, scope: Scope, name: str, *, at_most: int | None = None) -> QueueStats:
        """Returns the statistics of a queue, including the counters of this process. Each count of
        messages stops at `at_most`."""

    async def queues(
        self, scope: Scope, queues: Sequence[StoredQueue], *, at_most: int | None = None
    ) -> tuple[QueueStats, ...]:
        """Returns those of queues that the scope sees, in order, in as few statements as for one.
        The system counts all tenants in a shared queue, and in another one its owner."""

    async def waiting(
        self, scope: Scope, queue_ids: Sequence[UUID], *, at_most: int
    ) -> tuple[Waiting, ...]:
        """Returns what waits in each of these queues, in order; system only. Each count stops at
        `at_most`. Much cheaper than `queues`."""


class History(Protocol):
    """Records of messages that have ended. What removes a message stores its record, in the same
    transaction, if its queue keeps one."""

    async def get(self, scope: Scope, message_id: UUID) -> EndedRecord:
        """Returns the record of a message; raises `NotFound` if there is none."""

    async def page(
        self,
        scope: Scope,
        selection: HistorySelection,
        limit: int,
        *,
        after: HistoryPosition | None = None,
    ) -> HistoryPage:
        """Returns the newest records after a position. With a filter that few records match, a page
        may be short, or empty, and have a next one."""

    async def was_handled(self, scope: Scope, event_id: str, queue: str | None) -> bool:
        """Whether an event is known as handled, in a queue or in any."""

    async def default(self) -> HistoryDefault:
        """Returns what queues keep that have no setting of their own."""

    async def set_default(self, scope: Scope, default: HistoryDefault) -> None:
        """Sets what these queues keep."""


class PerformanceRows(Protocol):
    """How messages of each queue and type fared, by minute and hour. What ends messages notes it,
    in the same transaction and whatever history their queues keep."""

    async def roll_up(self, scope: Scope, limit: int) -> int:
        """Adds up to `limit` notes to the rows of their periods; returns how many. Each is added
        once. Does nothing while another process does it. System only."""

    async def list(
        self,
        scope: Scope,
        width: Width,
        since: datetime,
        until: datetime,
        limit: int,
        *,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002
    ) -> tuple[PeriodPerformance, ...]:
        """Returns rows of the periods that begin in a time, the newest first; of days those of
        their hours."""


class UsageRows(Protocol):
    """What tenants used, by the hour. The roll-up of performance adds to it, in its transaction."""

    async def list(
        self, scope: Scope, width: UsageWidth, since: datetime, until: datetime, limit: int
    ) -> tuple[UsageRow, ...]:
        """Returns the amounts of each period that begins in a time, the newest first: of a tenant,
        or in the system scope of all. A period has its full amount if the time is whole periods."""


class Traces(Protocol):
    """What belongs to one correlation."""

    async def find(
        self, scope: Scope, correlation_id: str, limit: int, *, first: UUID | None = None
    ) -> tuple[TraceRecord, ...]:
        """Returns messages, dead letters, runs and deliveries with a correlation id, oldest first,
        and those of the message `first`, which began it and has no correlation id of its own."""


class Types(Protocol):
    """Types of messages that apps declare for queues."""

    async def register(self, scope: Scope, app: str, types: Sequence[NewType]) -> None:
        """Stores what an app declares for queues of the tenant and shared ones, or that it still
        does. Others' queues are left out."""

    async def of_queue(self, scope: Scope, queue: str) -> QueueTypes:
        """Returns what is declared for a queue; nothing if there is no such queue. It may be some
        seconds old."""

    async def subscribed(self, scope: Scope, type: str) -> tuple[str, ...]:  # noqa: A002
        """Returns the queues that subscribe to a type, of the tenant and of all tenants. It may be
        some seconds old."""

    async def list(
        self,
        scope: Scope,
        limit: int,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
    ) -> tuple[DeclaredType, ...]:
        """Returns what is declared for the tenant's queues and for shared ones, by type, queue and
        app; the system sees those of all tenants."""

    async def differing(self, scope: Scope, limit: int) -> tuple[DifferingType, ...]:
        """Returns the types that several apps declare differently for one queue; system only."""
