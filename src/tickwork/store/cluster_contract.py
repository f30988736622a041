"""The part of the store contract for nodes: what they clean up, wait for and carry on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.message.dead_letter import Pace, Replayed, Selection
from tickwork.core.model import (
    Pruned,
    QueuePermits,
    Reaped,
    Scope,
    StoredNode,
)
from tickwork.core.operation import StoredOperation
from tickwork.store.shared.archive import Archive


class Pruner(Protocol):
    """Deletes records after their retention."""

    async def prune(self, scope: Scope, limit: int, *, archive: Archive | None = None) -> Pruned:
        """Deletes at most `limit` rows of each kind in one short pass; system only.

        With an `archive`, firings and dead letters are deleted only after they were written there;
        `StoreUnavailable` if that fails.
        """


class Nodes(Protocol):
    """Running processes and their leases; system only."""

    async def join(
        self,
        scope: Scope,
        node_id: UUID,
        *,
        name: str,
        roles: Sequence[str],
        ttl_seconds: float,
        workflows: Sequence[tuple[str, str | None]] = (),
        permits: Sequence[QueuePermits] = (),
    ) -> StoredNode:
        """Starts a lease under a new id. `workflows` are the versions that the node declares,
        `permits` what its worker may run."""

    async def heartbeat(
        self, scope: Scope, node_id: UUID, ttl_seconds: float, hold_seconds: float | None = None
    ) -> StoredNode:
        """Renews the lease; `NodeExpired` if it has expired, even if no one noticed. `hold_seconds`
        is how long the node's holds take, if known: a slow node leads no shards beside faster
        ones."""

    async def leave(self, scope: Scope, node_id: UUID) -> int:
        """Ends the lease and releases the node's claims. The messages lose nothing."""

    async def give_back_unknown(self, scope: Scope, node_id: UUID, known: Sequence[UUID]) -> int:
        """Releases the claims of a node that the node does not know, and returns their number.

        If the answer of a claim is lost, the node never sees its messages. After a claim that
        raised `StoreUnavailable`, a node calls this with the ids it knows.
        """

    async def list(self, scope: Scope) -> tuple[StoredNode, ...]:
        """Returns the nodes whose lease was not ended."""

    async def claims(self, scope: Scope) -> dict[UUID, int]:
        """Returns the number of claimed messages of each holder that has any: a node, or the holder
        of pull leases."""

    async def pause_all(self, scope: Scope, *, is_paused: bool) -> datetime | None:
        """Pauses everything, or ends the pause: no message of any tenant is claimed meanwhile.
        Returns since when."""

    async def paused_at(self, scope: Scope) -> datetime | None:
        """Since when everything is paused; None if it is not."""

    async def widen(self, scope: Scope, seconds: int) -> None:
        """Sets the fire window that every schedule has at least; 0 for none."""

    async def widened_seconds(self, scope: Scope) -> int:
        """The fire window that every schedule has at least."""


class Reaper(Protocol):
    """Releases what its holder no longer can; system only."""

    async def reap(self, scope: Scope, limit: int) -> Reaped:
        """Ends expired leases of nodes and pulls, and expires old messages.

        A message of a dead node is ready again; it loses a claim, not an attempt. After too many
        lost claims it is a dead letter. An expired pull lease counts as an attempt. A batch whose
        completion was missed is completed, and an abandoned one is sealed. For each endpoint whose
        breaker may be probed, a waiting delivery is made visible; the one before, if it was not
        sent, waits for its own time again.
        """

    async def next_expiry(self, scope: Scope) -> datetime | None:
        """Returns when the next lease, or message with an expiry of its own, expires, or the
        breaker of an endpoint may be probed; None if there is none.

        What has expired already, and the retention of queues, is left to `reap`.
        """


class Watch(Protocol):
    """A consumer that waits for messages."""

    async def wait(self, timeout_seconds: float) -> bool:
        """Returns True soon after a message was sent since the last call; False at the timeout.

        A message sent between two calls is not missed: the second call returns at once.
        """


class Wakeups(Protocol):
    """Wakes waiting consumers. A wake-up is a hint; polling finds every message."""

    def watch(self, queue_ids: Sequence[UUID]) -> AbstractAsyncContextManager[Watch]:
        """Starts watching the queues."""


class Operations(Protocol):
    """Operations of tenants and of the system: long work on many rows.

    Each write of a batch is fenced by the version that the caller has read: `OperationTaken` if it
    is another one, and then nothing was written.
    """

    async def start(self, scope: Scope, operation: StoredOperation) -> StoredOperation:
        """Records an operation that begins."""

    async def get(self, scope: Scope, operation_id: UUID) -> StoredOperation:
        """Returns one operation."""

    async def list(
        self, scope: Scope, limit: int, *, before: UUID | None = None, is_open: bool = False
    ) -> tuple[StoredOperation, ...]:
        """Returns operations, the newest first, before a given one; with `is_open` only those that
        are not finished."""

    async def next_due_seconds(self, scope: Scope) -> float | None:
        """Returns the seconds until the next batch of an operation is due; None if there is none.
        System only."""

    async def claim(self, scope: Scope, operation_id: UUID | None = None) -> StoredOperation | None:
        """Takes the operation whose batch is due for longest (system only), or the one named if its
        batch is due. Nobody else takes it for `LEASE_SECONDS`."""

    async def save(self, scope: Scope, operation: StoredOperation) -> StoredOperation:
        """Stores what has changed; returns it with its new version."""

    def joined(self, scope: Scope, operation: StoredOperation) -> AbstractAsyncContextManager[None]:
        """Stores what has changed in the transaction of the first change that the caller makes
        inside, or alone if it makes none."""

    async def stop(self, scope: Scope, operation_id: UUID, by: str | None) -> StoredOperation:
        """Stops an operation: a batch that is running writes nothing. `Conflict` if it is
        finished."""

    async def go_on(self, scope: Scope, operation_id: UUID) -> StoredOperation:
        """Goes on with an operation that waits for somebody. `Conflict` if it does not."""

    async def replay(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        pace: Pace,
        after: Callable[[Sequence[Replayed]], StoredOperation],
    ) -> StoredOperation:
        """Sends a batch of dead letters again and stores what `after` makes of it."""

    async def discard(
        self,
        scope: Scope,
        queue: str,
        selection: Selection,
        after: Callable[[int], StoredOperation],
    ) -> StoredOperation:
        """Discards a batch of dead letters and stores what `after` makes of their number."""
