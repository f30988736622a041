"""The values that cross the layers: frozen, without behaviour, the same for every store.

A message is named by its tenant and id. One handing-out of it is named by a `Claim`: the
number of the claim and who holds it. A number alone could repeat when a database fails over
to a replica that lags; a holder's identity is never used twice, so the pair cannot.

The states of a message, and which may follow which.

```
            claim                    ack, dead
  ready ───────────▶ claimed ────────────────────▶ (gone)
   ▲ ▲                  │
   │ └──────────────────┘ retry, release, the holder is gone
   │
  held: behind an earlier message with the same key; becomes ready when that one is gone
```

A delayed message is `ready` with a `visible_at` in the future. What nobody has in hand, ready or
held, may also expire, be deleted, purged or cancelled. What is gone has left the table: on
success nothing stays, otherwise a dead letter. A message begins as `ready` or, behind another of
its key, as `held`; no message becomes `held` later, so the earliest of a key is never held.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct, field

from tickwork.core.message.backoff import Backoff, Exponential
from tickwork.core.schedule.firing import FiringResult


class State(StrEnum):
    """Where a message stands."""

    READY = "ready"
    CLAIMED = "claimed"
    BLOCKED = "held"


LEGAL: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.CLAIMED}),
    State.CLAIMED: frozenset({State.READY}),
    State.BLOCKED: frozenset({State.READY}),
}


FORMAT_VERSION = 1
"""The format of a message row; a reader refuses what it does not know."""


LOST_CLAIMS_SEPARATE = 2
"""After so many holders died with a message it is handed out only among its like: most of them had
nothing to do with it. …"""

LOST_CLAIMS_ALONE = 3
"""… After so many it is handed out only alone …"""

LOST_CLAIMS_MAX = 4
"""… and after so many it is dead."""

REASON_WORKER_LOST = "worker_lost"
REASON_EXPIRED = "expired"
REASON_MAX_RETRIES = "max_retries"
REASON_INVALID_PAYLOAD = "invalid_payload"
REASON_UNHANDLED_TYPE = "unhandled_type"
REASON_TOO_MANY_HOPS = "too_many_hops"

REASONS_NOT_HANDLED = frozenset(
    {
        REASON_EXPIRED,
        REASON_WORKER_LOST,
        REASON_INVALID_PAYLOAD,
        REASON_UNHANDLED_TYPE,
        REASON_TOO_MANY_HOPS,
    }
)
"""What a message dies of without a handler that ran to an end: it costs no attempt."""

EVENT_RETENTION_SECONDS = 15 * 86_400
"""So long a producer's event is remembered: longer than any message or dead letter lives."""


class Scope(Struct, frozen=True):
    """On whose behalf: one tenant, or the system (`tenant` None), which sees all."""

    tenant: str | None

    @property
    def is_system(self) -> bool:
        return self.tenant is None


SYSTEM = Scope(None)
DEFAULT = Scope("default")


class ContentType(StrEnum):
    """How the bytes of a body are to be read."""

    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


class Tenant(Struct, frozen=True, kw_only=True):
    """Who owns things. A suspended one's messages wait; the others get by their weight.

    Of schedules it may have `schedules_max`, make `schedules_per_second`, and none that fires more
    often than `min_interval_seconds`; None is no limit, or the installation's.
    """

    id: str
    weight: int = 1
    suspended: bool = False
    min_interval_seconds: int | None = None
    schedules_max: int | None = None
    schedules_per_second: float | None = None


class QueueSettings(
    Struct, frozen=True, kw_only=True, rename={"max_batch_timeout": "max_batch_timeout_seconds"}
):
    """How a queue behaves; the defaults are the contract's.

    `tenant_claimed_max` is how many messages of one tenant may be handed out at a time,
    `rate_per_second` how many messages are handed out in a second, of all tenants together,
    `backlog_bytes_max` how many bytes of bodies may wait before sends are refused.
    """

    max_batch_size: int = 10
    max_batch_timeout: float = 5.0
    max_retries: int = 3
    dead_letter_queue: str | None = None
    retention_seconds: int = 4 * 86_400
    visibility_timeout_seconds: int = 30
    timeout_seconds: int = 900
    backoff: Backoff = Exponential()
    tenant_claimed_max: int | None = None
    rate_per_second: float | None = None
    backlog_bytes_max: int | None = None

    @property
    def has_claim_limits(self) -> bool:
        """Whether claims have to agree with each other on what they may take."""
        return self.tenant_claimed_max is not None or self.rate_per_second is not None


class Queue(Struct, frozen=True, kw_only=True):
    """A queue of one tenant, or (`tenant` None) a shared one."""

    id: UUID
    tenant: str | None
    name: str
    settings: QueueSettings = QueueSettings()
    paused: bool = False


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to be sent. Its id is made by the sender, so that a repeat is known as one."""

    id: UUID
    body: bytes
    content_type: ContentType = ContentType.JSON
    delay_seconds: float = 0.0
    priority: int = 4
    key: str | None = None
    event_id: str | None = None
    type: str | None = None
    source: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    hops: int = 0
    schedule_id: UUID | None = None
    slot: datetime | None = None
    run: int = 0
    catch_up: bool = False
    expires_after_seconds: float | None = None


class Message(Struct, frozen=True, gc=False):
    """A stored message. `attempts` counts handlers that ran and failed; `lost` claims whose
    holder died; `claim` every handing-out.

    Of a schedule's slot: when it was due, for how long after that it is on time (None: it never
    was), and its schedule's terms (`core.schedule`). A claim that comes too late sets `catch_up`.
    """

    tenant: str
    id: UUID
    queue_id: UUID
    state: State
    priority: int
    claim: int
    holder: UUID | None
    attempts: int
    lost: int
    visible_at: datetime
    sent_at: datetime
    key: str | None
    event_id: str | None
    type: str | None
    source: str | None
    correlation_id: str | None
    causation_id: str | None
    hops: int
    batch_id: UUID | None
    schedule_id: UUID | None
    slot: datetime | None
    run: int
    catch_up: bool
    due_at: datetime | None
    grace_seconds: int | None
    terms: str | None
    content_type: ContentType
    format: int
    last_error: str | None
    body: bytes

    @property
    def is_late(self) -> bool:
        """Whether it was planned in time, and is handed out for the first time too late."""
        is_first = self.attempts == 0 and self.lost == 0
        return self.catch_up and self.grace_seconds is not None and is_first

    @property
    def current_claim(self) -> Claim:
        """This very handing-out, to be shown when settling it."""
        assert self.holder is not None
        return Claim(self.tenant, self.id, self.claim, self.holder)


class Claim(Struct, frozen=True, gc=False):
    """One handing-out of a message: the fence of everything its holder does with it."""

    tenant: str
    id: UUID
    number: int
    holder: UUID


class Fate(StrEnum):
    """What becomes of a handed-out message."""

    ACK = "ack"
    RETRY = "retry"
    RELEASE = "release"
    DEAD = "dead"


class Send(Struct, frozen=True):
    """A message for a queue, by the queue's name."""

    queue: str
    message: NewMessage


class BatchWithItems(Struct, frozen=True, kw_only=True):
    """A batch with all its items, stored in one transaction. One that is there already, in the
    same queue and with as many items, is the same one."""

    id: UUID
    queue: str
    completion_queue: str | None = None
    items: tuple[NewMessage, ...] = ()


class Ending(Struct, frozen=True, kw_only=True, gc=False):
    """The end of one handing-out, and everything that comes about with it.

    `retry` counts an attempt, `release` does not; both come back after `delay_seconds`.
    `dead` leaves a dead letter with `reason` and `error`. The sends happen, the batches are
    made and the firing is recorded only if the message was still held. Its batch counts it, its
    key goes on to the next one, without being told.
    """

    claim: Claim
    fate: Fate
    delay_seconds: float = 0.0
    reason: str | None = None
    error: str | None = None
    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()
    firing: FiringResult | None = None

    @property
    def counts_attempt(self) -> bool:
        """Whether a handler really ran and used up an attempt."""
        if self.fate is Fate.DEAD:
            return self.reason not in REASONS_NOT_HANDLED
        return self.fate is Fate.RETRY


class Settlement(Struct, frozen=True):
    """The endings that commit together."""

    endings: tuple[Ending, ...]


class SettleResult(Struct, frozen=True):
    """Which endings did not count.

    A refused one came too late: it changed nothing and sent nothing. A duplicate is an ack
    of an event that was done already: its message is gone, its sends did not happen, and its
    batches were not made.
    """

    refused: tuple[Claim, ...] = ()
    duplicates: tuple[Claim, ...] = ()


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """What a consumer asks for.

    `holder` is a node, whose heartbeat keeps the claim alive; with `lease_seconds` it is a
    lease of its own instead (pull). `apart` asks for what already cost workers
    their life, and must run with nothing else beside it: some of one tenant, or, if there are only
    such as cost very many, one. They are handed out in no other way.
    """

    queue: str
    holder: UUID
    limit: int = 10
    lease_seconds: float | None = None
    separate: bool = False


class Counts(Struct, frozen=True):
    """How many messages of a queue stand where."""

    ready: int = 0
    delayed: int = 0
    claimed: int = 0
    blocked: int = field(default=0, name="held")
    dead: int = 0


class Node(Struct, frozen=True):
    """A running process; everything it holds lives until `expires_at` and its next heartbeat."""

    id: UUID
    name: str
    roles: tuple[str, ...]
    started_at: datetime
    expires_at: datetime


class Reaped(Struct, frozen=True):
    """What a pass of the reaper found: nodes gone, messages ready again, messages dead, and
    batches whose completion nobody had told. Of the dead, so many were slots of schedules that
    expired before anybody had begun with them."""

    nodes: tuple[UUID, ...] = ()
    released: int = 0
    dead: int = 0
    batches: int = 0
    expired_slots: int = 0


class Pruned(Struct, frozen=True):
    """How much a pass of the pruner took away of what was kept long enough."""

    dead_letters: int = 0
    events: int = 0
    receipts: int = 0
    batches: int = 0
    firings: int = 0
    schedules: int = 0
    counters: int = 0


class Meta(Struct, frozen=True):
    """What the database says of itself."""

    schema_version: int
    cell: str
    epoch: int
