"""The contract of a store: one protocol per noun, and each method is one atomic operation.

Every method takes a `Scope` first. A tenant sees its own records and the shared queues; the system
sees everything. Values in and out are frozen. A method either completes durably, or raises and
changes nothing. Time is the database's own; a store that was opened with a virtual clock uses that
clock instead.

Queues are addressed by name. A tenant's own queue takes precedence over a shared one of the same
name.

| raised | when |
|---|---|
| `InvalidInput` | a value breaks a limit; the error names the field |
| `NotFound` | the scope has no such queue, message or tenant |
| `Conflict` | it exists already with other contents, or is still in use |
| `TooMany` | a tenant is at a limit, or over a rate |
| `BacklogFull` | a queue has its maximum number of bytes |
| `NodeExpired` | the node's lease has expired: join under a new id |
| `ClaimLost` | a joint settlement has a claim that is no longer valid |
| `EventDone` | another message with the event of a joint settlement is done already |
| `StoreUnavailable` | the database cannot be reached or written now; try again |
| `StoreBroken` | a retry will not help: corrupt, read-only, or the wrong schema |
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.model import (
    IdKind,
    Meta,
    Scope,
)
from tickwork.store.access_contract import (
    ApiKeys,
    Audit,
    Readers,
    Requests,
    Sessions,
    Stream,
    Tenants,
)
from tickwork.store.cluster_contract import Nodes, Operations, Pruner, Reaper, Wakeups
from tickwork.store.delivery_contract import Endpoints, Limits, Progress, Secrets, Subscriptions
from tickwork.store.entity_contract import Entities
from tickwork.store.message_contract import (
    Batches,
    DeadLetters,
    History,
    Messages,
    PerformanceRows,
    Queues,
    Stats,
    Traces,
    Types,
    UsageRows,
)
from tickwork.store.schedule_contract import Calendars, Firings, Schedules, Shards
from tickwork.store.workflow_contract import Workflows


class Store(Protocol):
    """One database: its nouns, its clock and its metadata."""

    writes_alone: bool
    """Whether only one transaction at a time can write."""

    def callers_transaction(self, connection: object) -> AbstractAsyncContextManager[Store]:
        """A store that works in the open transaction of a caller's connection, for one verb: send,
        publish an event, start a run or send it an event, create or change a schedule, create a
        batch.

        If the verb raises, it has changed nothing, and the transaction goes on. What it does after
        a commit waits for that of the caller. Raises `InvalidInput` for a connection that cannot be
        used, and the errors of its driver as they are.
        """

    @property
    def tenants(self) -> Tenants:
        """Tenants."""

    @property
    def queues(self) -> Queues:
        """Queues by name."""

    @property
    def messages(self) -> Messages:
        """Send, claim and settle."""

    @property
    def progress(self) -> Progress:
        """What claimed messages have completed."""

    @property
    def dead_letters(self) -> DeadLetters:
        """Dead letters."""

    @property
    def batches(self) -> Batches:
        """Messages that are counted together."""

    @property
    def subscriptions(self) -> Subscriptions:
        """Queues that get copies."""

    @property
    def schedules(self) -> Schedules:
        """Schedules."""

    @property
    def endpoints(self) -> Endpoints:
        """Endpoints and their deliveries."""

    @property
    def workflows(self) -> Workflows:
        """Runs of workflows."""

    @property
    def entities(self) -> Entities:
        """Entities and direct calls."""

    @property
    def limits(self) -> Limits:
        """Limits that queues and endpoints share."""

    @property
    def readers(self) -> Readers:
        """Roles of the database that read one tenant."""

    @property
    def secrets(self) -> Secrets:
        """Encrypted secrets."""

    @property
    def keys(self) -> ApiKeys:
        """API keys."""

    @property
    def sessions(self) -> Sessions:
        """Sessions of the console."""

    @property
    def audit(self) -> Audit:
        """Who changed what."""

    @property
    def stream(self) -> Stream:
        """What happened."""

    @property
    def traces(self) -> Traces:
        """What belongs to one correlation."""

    @property
    def types(self) -> Types:
        """Types of messages that apps declare."""

    @property
    def operations(self) -> Operations:
        """Long work on many rows."""

    @property
    def history(self) -> History:
        """Messages that have ended."""

    @property
    def performance(self) -> PerformanceRows:
        """How messages fared."""

    @property
    def usage(self) -> UsageRows:
        """What tenants used."""

    @property
    def calendars(self) -> Calendars:
        """Days off."""

    @property
    def shards(self) -> Shards:
        """Leaders of schedules."""

    @property
    def firings(self) -> Firings:
        """History of slots."""

    @property
    def stats(self) -> Stats:
        """Counters."""

    @property
    def requests(self) -> Requests:
        """Requests with an idempotency key."""

    @property
    def pruner(self) -> Pruner:
        """Deletes records after their retention."""

    @property
    def nodes(self) -> Nodes:
        """Running processes."""

    @property
    def reaper(self) -> Reaper:
        """Ends expired leases."""

    @property
    def wakeups(self) -> Wakeups:
        """Wake-ups for consumers."""

    async def now(self) -> datetime:
        """Returns the database's time."""

    async def meta(self) -> Meta:
        """Returns schema version, cell and epoch."""

    async def ids_ending(
        self, scope: Scope, kind: IdKind, digits: str, limit: int
    ) -> tuple[UUID, ...]:
        """Returns the ids of a kind that end with these hexadecimal digits, in order. Reads every
        id of the kind: for people, who name things by short ids."""

    async def make_ready(self) -> None:
        """Prepares connections and statements, so that the first messages of a worker do not wait
        for them."""

    async def close(self) -> None:
        """Finishes accepted work and closes the database."""
