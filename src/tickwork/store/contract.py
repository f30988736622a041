"""What a store does: narrow protocols by noun, each method one atomic intention.

Every method takes a `Scope` first: a tenant sees what is its own and the shared queues, the
system sees everything. Values in and out are frozen. A method either did all it says, durably,
or raised and did nothing. Time is the database's own; a store opened with a virtual clock
takes it from there, and from nowhere else.

A queue is named; a tenant's own queue comes before a shared one of the same name.

| raised | when |
|---|---|
| `InvalidInput` | a value breaks a limit; the field is named |
| `NotFound` | no such queue, message or tenant in this scope |
| `Conflict` | it exists already with other contents, or is still in use |
| `TooMany` | a tenant has as many schedules as it may, or makes them too fast |
| `BacklogFull` | a queue holds as many bytes as it may |
| `NodeExpired` | the node's lease ran out: take a new identity |
| `ClaimLost` | a joint settlement found a claim that is no longer held |
| `EventDone` | a joint settlement found that its event was done by another message |
| `StoreUnavailable` | the database cannot be reached or written now; try again |
| `StoreBroken` | it will not get better by trying: corrupt, read-only, wrong schema |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from tickwork.core.message.batch import Batch, BatchItem, ItemStatus, NewBatch
from tickwork.core.message.dead_letter import DeadGroup, DeadLetter, Pace, Replayed, Selection
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import (
    Claim,
    ClaimRequest,
    ContentType,
    Counts,
    Message,
    Meta,
    NewMessage,
    Node,
    Pruned,
    Queue,
    QueueSettings,
    Reaped,
    Scope,
    Settlement,
    SettleResult,
    Tenant,
)
from tickwork.core.queue.stats import QueueStats
from tickwork.store.schedule_contract import Calendars, Firings, Schedules, Shards

Joined = Callable[[Any], Awaitable[None] | None]
"""A caller's own writes, given the store's connection inside the open transaction.

PostgreSQL awaits it with an asyncpg connection; SQLite calls it with a `sqlite3.Connection` on
the writer's thread, where it must be short and must not be a coroutine function.
"""


class Tenants(Protocol):
    """The owners. `default` always exists."""

    async def put(self, scope: Scope, tenant: Tenant) -> None:
        """Creates a tenant or replaces its settings; system only."""

    async def get(self, scope: Scope, tenant_id: str) -> Tenant:
        """One tenant."""


class Queues(Protocol):
    """Queues by name, within a scope."""

    async def put(self, scope: Scope, name: str, settings: QueueSettings) -> Queue:
        """Creates a queue, or replaces its settings; in the system scope a shared one."""

    async def get(self, scope: Scope, name: str) -> Queue:
        """One queue."""

    async def list(self, scope: Scope) -> tuple[Queue, ...]:
        """The scope's queues by name; a tenant's include the shared ones."""

    async def delete(self, scope: Scope, name: str) -> None:
        """Removes an empty queue; one that still has messages or dead letters is a `Conflict`."""

    async def pause(self, scope: Scope, name: str) -> None:
        """Nothing is handed out any more; sending goes on."""

    async def resume(self, scope: Scope, name: str) -> None:
        """Hands out again."""

    async def purge(self, scope: Scope, name: str) -> int:
        """Deletes what is not claimed, and says how many; of a shared queue a tenant's own.

        A batch counts its purged items as failed."""

    async def counts(self, scope: Scope, name: str) -> Counts:
        """How many messages stand where."""


class Messages(Protocol):
    """Messages: in, handed out, and done with."""

    async def send(self, scope: Scope, queue: str, message: NewMessage) -> None:
        """Stores a message durably.

        An id names one message of a tenant: while that one is there, a repeat is the same
        message and the first one counts. Once it is done its id is forgotten; whoever may
        repeat later gives an `event_id`, which is remembered. A message with a `key` waits
        until every earlier one of that key in the queue is gone. One with a `type` is copied to
        the queues that subscribe to it. `BacklogFull` if a queue may not have it.
        """

    async def send_batch(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        """Stores up to 100 messages, all or none."""

    async def send_bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        """Stores any number in pieces, each all or none; says how many it stored."""

    async def tell(self, scope: Scope, event: NewMessage) -> int:
        """Copies an event that is in no queue to those that subscribe to it; to how many."""

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """Hands out ready messages, oldest visible first, each with a new claim number.

        In the system scope fairly between tenants, by their weight; of each tenant the highest
        priority first. Nothing from a paused queue or of a suspended tenant, no more than the
        queue's rate and caps allow, and nothing whose event is done: that is acked unseen.
        `NodeExpired` if the holder is a node whose lease ran out.
        """

    async def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        """Which of these queues have something to hand out `apart` now; system only."""

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        """Ends handings-out with everything that comes about, in one transaction.

        An ending whose claim is no longer held is refused and changes nothing.
        """

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        """As `settle`, with the caller's own writes in the same transaction.

        All or nothing: if any claim is no longer held, `ClaimLost`, if its event is done
        already, `EventDone`, and nothing happened. What the caller's writes raise arrives
        unchanged. They must be short: PostgreSQL ends a transaction that idles for seconds. They
        may run again: a transaction that another one undid is begun anew, and so is one that was
        shared with calls of the same moment, if any of these failed.
        """

    async def extend(self, scope: Scope, held: Claim, lease_seconds: float) -> bool:
        """Lets a pull lease last until so many seconds from now; False if it is not held."""

    async def get(self, scope: Scope, queue: str, message_id: UUID) -> Message:
        """One message."""

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        """The next ready messages, oldest visible first, without handing them out."""

    async def next_visible_at(self, scope: Scope, queue: str) -> datetime | None:
        """When the next message that waits for its time becomes visible; None if there is none.

        Beyond `LANES_MAX` tenants and priorities it is a hint: only so many are looked at.
        """

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        """Deletes a message that is not claimed; False if there is none to delete."""


class DeadLetters(Protocol):
    """What will not be delivered again by itself. Of a shared queue a tenant sees its own."""

    async def list(
        self, scope: Scope, queue: str, selection: Selection, *, after: UUID | None = None
    ) -> tuple[DeadLetter, ...]:
        """The open dead letters of a queue that are selected, oldest first, after a given one."""

    async def get(self, scope: Scope, dead_letter_id: UUID) -> DeadLetter:
        """One dead letter, open or resolved."""

    async def groups(self, scope: Scope, queue: str, limit: int) -> tuple[DeadGroup, ...]:
        """The open dead letters by what they died of, the largest group first."""

    async def edit(
        self, scope: Scope, dead_letter_id: UUID, body: bytes, content_type: ContentType
    ) -> DeadLetter:
        """Replaces the body of an open letter, for its replay; `Conflict` if it is resolved."""

    async def replay(
        self, scope: Scope, queue: str, selection: Selection, pace: Pace
    ) -> tuple[Replayed, ...]:
        """Sends the selected letters anew, oldest first, and resolves them: both or neither.

        They go to the end of their queue. `BacklogFull` if it may not have them: then none.
        """

    async def discard(self, scope: Scope, queue: str, selection: Selection) -> int:
        """Resolves the selected letters without sending them, and says how many."""


class Batches(Protocol):
    """Messages that are counted together."""

    async def create(self, scope: Scope, batch: NewBatch, items: Iterable[NewMessage]) -> Batch:
        """Stores the items, in pieces that are each all or none, and then the batch is whole.

        A repeat with the same id goes on after what is stored, and of a whole batch is no more
        than a look. `Conflict` if an item's id is in use, the batch is another queue's, or its
        filling was given up.
        """

    async def get(self, scope: Scope, batch_id: UUID) -> Batch:
        """A batch and its progress, exact, at no cost that grows with it."""

    async def list(self, scope: Scope, limit: int) -> tuple[Batch, ...]:
        """The latest batches, newest first."""

    async def items(
        self,
        scope: Scope,
        batch_id: UUID,
        status: ItemStatus,
        limit: int,
        *,
        after: UUID | None = None,
    ) -> tuple[BatchItem, ...]:
        """The items of a status by id, after a given one."""

    async def cancel(self, scope: Scope, batch_id: UUID, *, is_told: bool = True) -> Batch:
        """Ends the filling and, as failed, what is not handed out; if `is_told`, with its event."""


class Subscriptions(Protocol):
    """Which queues get copies of which messages."""

    async def put(self, scope: Scope, types: str, queue: str) -> Subscription:
        """Subscribes a queue; twice is once. In the system scope: a shared queue, to every
        tenant's messages."""

    async def list(self, scope: Scope) -> tuple[Subscription, ...]:
        """The scope's own, by types and queue."""

    async def delete(self, scope: Scope, types: str, queue: str) -> bool:
        """Ends a subscription; False if there is none."""


class Stats(Protocol):
    """What passes, counted; see `core.tally` for how exact."""

    async def flush(self, scope: Scope) -> None:
        """Writes down what this process counted; system only."""

    async def queue(self, scope: Scope, name: str) -> QueueStats:
        """A queue at a glance, with what this process counted."""


class Pruner(Protocol):
    """Takes away what was kept long enough."""

    async def prune(self, scope: Scope, limit: int) -> Pruned:
        """One short pass over each kind of thing, at most `limit` rows of each; system only."""


class Nodes(Protocol):
    """Running processes and their leases; the system's."""

    async def join(
        self, scope: Scope, node_id: UUID, *, name: str, roles: Sequence[str], ttl_seconds: float
    ) -> Node:
        """Begins a lease under a new identity."""

    async def heartbeat(self, scope: Scope, node_id: UUID, ttl_seconds: float) -> Node:
        """Renews the lease; `NodeExpired` if it ran out, even if nobody noticed yet."""

    async def leave(self, scope: Scope, node_id: UUID) -> int:
        """Ends the lease and gives back what the node held, at no cost to the messages."""

    async def give_back_unknown(self, scope: Scope, node_id: UUID, known: Sequence[UUID]) -> int:
        """Makes ready what the node holds without knowing it, and says how much.

        A claim whose answer got lost hands messages to a node that never sees them. After a
        claim that raised `StoreUnavailable` a node calls this with the ids it does hold.
        """

    async def list(self, scope: Scope) -> tuple[Node, ...]:
        """The nodes whose lease has not been ended."""


class Reaper(Protocol):
    """Gives back what its holder will not; the system's."""

    async def reap(self, scope: Scope, limit: int) -> Reaped:
        """Ends expired leases, of nodes and of pulls, and expires old messages.

        A message of a dead node is ready again and has lost a claim, not an attempt; one that
        cost too many holders their life is dead. An expired pull counts an attempt. A batch that
        ended unnoticed is completed, and one that nobody goes on filling is closed.
        """

    async def next_expiry(self, scope: Scope) -> datetime | None:
        """When the next lease, or message with an end of its own, expires; None if there is none.

        What has expired already, and the retention of queues, are for `reap` to find.
        """


class Watch(Protocol):
    """Somebody waiting for messages."""

    async def wait(self, timeout_seconds: float) -> bool:
        """Returns True soon after anything was sent since the last call; False at the timeout.

        What was sent between two calls is not lost: the second returns at once.
        """


class Wakeups(Protocol):
    """Telling waiting consumers that there is something; a hint, never the truth."""

    def watch(self, queue_ids: Sequence[UUID]) -> AbstractAsyncContextManager[Watch]:
        """Starts to listen for the queues."""


class Store(Protocol):
    """One database: its nouns, its clock, and what it says of itself."""

    @property
    def tenants(self) -> Tenants:
        """The owners."""

    @property
    def queues(self) -> Queues:
        """Queues by name."""

    @property
    def messages(self) -> Messages:
        """In, handed out, and done with."""

    @property
    def dead_letters(self) -> DeadLetters:
        """What will not be delivered again by itself."""

    @property
    def batches(self) -> Batches:
        """Messages that are counted together."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Which queues get copies."""

    @property
    def schedules(self) -> Schedules:
        """When to do what."""

    @property
    def calendars(self) -> Calendars:
        """Days off."""

    @property
    def shards(self) -> Shards:
        """Who leads which schedules."""

    @property
    def firings(self) -> Firings:
        """What became of slots."""

    @property
    def stats(self) -> Stats:
        """What passes, counted."""

    @property
    def pruner(self) -> Pruner:
        """Takes away what was kept long enough."""

    @property
    def nodes(self) -> Nodes:
        """Running processes."""

    @property
    def reaper(self) -> Reaper:
        """Gives back what its holder will not."""

    @property
    def wakeups(self) -> Wakeups:
        """Hints for those who wait."""

    async def now(self) -> datetime:
        """The database's time."""

    async def meta(self) -> Meta:
        """Schema version, cell, epoch."""

    async def make_ready(self) -> None:
        """Does ahead what the first messages of a worker would have to wait for."""

    async def close(self) -> None:
        """Finishes what was accepted and lets go of the database."""
