"""The values that all layers share: frozen structs, the same for every store.

A message is identified by its tenant and id. A `Claim` identifies one worker's claim on it: the
claim's number and its holder. A number alone could repeat when a database fails over to a replica
that lags behind; a holder's id is never used twice, so the pair is unique.

The states of a message:

```
            claim                    ack, dead
  ready ───────────▶ claimed ────────────────────▶ (removed)
   ▲ ▲                  │
   │ └──────────────────┘ retry, release, lost claim
   │
  blocked: waits behind an earlier message of its key; ready when that one is removed
```

A delayed message is `ready` with a `visible_at` in the future. A message that is not claimed can
also expire, or be deleted, purged or cancelled. A removed message leaves nothing behind if it
succeeded, otherwise a dead letter. A message starts as `ready` or, behind another of its key, as
`blocked`. No message becomes `blocked` later, so the earliest message of a key is never blocked.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id, without_prefix
from tickwork.core.effects import Effect
from tickwork.core.fields import iso
from tickwork.core.message.backoff import Backoff, Exponential
from tickwork.core.message.history import HistoryKept
from tickwork.core.queue.rooms import Rooms

E = TypeVar("E", bound=Effect)


class State(StrEnum):
    """The state of a stored message."""

    READY = "ready"
    CLAIMED = "claimed"
    BLOCKED = "held"


LEGAL: dict[State, frozenset[State]] = {
    State.READY: frozenset({State.CLAIMED}),
    State.CLAIMED: frozenset({State.READY}),
    State.BLOCKED: frozenset({State.READY}),
}
"""The states that may follow each state."""


FORMAT_VERSION = 1
"""Version of the format of a message row. A reader refuses versions that it does not know."""


LOST_CLAIMS_SEPARATE = 2
"""Number of lost claims after which a message is claimed only together with other suspects. Most
of them did not cause the crash."""

LOST_CLAIMS_ALONE = 3
"""Number of lost claims after which a message is claimed only alone."""

LOST_CLAIMS_MAX = 4
"""Number of lost claims after which a message becomes a dead letter."""

REASON_WORKER_LOST = "worker_lost"
REASON_EXPIRED = "expired"
REASON_MAX_RETRIES = "max_retries"
REASON_INVALID_PAYLOAD = "invalid_payload"
REASON_UNHANDLED_TYPE = "unhandled_type"
REASON_TOO_MANY_HOPS = "too_many_hops"
REASON_BACKLOG_FULL = "backlog_full"
REASON_ENDPOINT_DISABLED = "endpoint_disabled"

REASONS_NOT_HANDLED = frozenset(
    {
        REASON_EXPIRED,
        REASON_WORKER_LOST,
        REASON_INVALID_PAYLOAD,
        REASON_UNHANDLED_TYPE,
        REASON_TOO_MANY_HOPS,
        REASON_BACKLOG_FULL,
        REASON_ENDPOINT_DISABLED,
    }
)
"""Reasons for a dead letter without a handler that ran to its end. They count no attempt."""

WAITING_SINCE = "waits for its completion since "
"""Start of the note that a message keeps as its `last_error` while a receiver completes it; the
time at which the attempt started follows."""

LIMITED_BY = "waits for its turn: "
"""Start of the note that a message keeps as its `last_error` while a limit does not let it through;
the words of the limit follow."""

EVENT_RETENTION_SECONDS = 15 * 86_400
"""Seconds to remember a processed event id: longer than any message or dead letter is kept."""


class Scope(Struct, frozen=True):
    """The tenant that a call acts for, or the system (`tenant` None), which sees every tenant. With
    an `owner` it is one user of the tenant, who reaches only that user's schedules."""

    tenant: str | None
    owner: str | None = None

    @property
    def is_system(self) -> bool:
        return self.tenant is None

    def reaches(self, owner: str | None) -> bool:
        """Whether it reaches the schedules of an owner, or for None those without one."""
        return self.owner is None or self.owner == owner


SYSTEM = Scope(None)
DEFAULT = Scope("default")


class ContentType(StrEnum):
    """The format of a body."""

    JSON = "json"
    TEXT = "text"
    BYTES = "bytes"


class Tenant(Struct, frozen=True, kw_only=True):
    """An owner of messages and schedules. Messages of a suspended tenant wait; the other tenants
    share the workers by `weight`.

    A tenant may have `schedules_max` schedules, create `schedules_per_second` of them, and none may
    fire more often than every `min_interval_seconds`. Each of its owners may have
    `owner_schedules_max` of them, every `owner_min_interval_seconds`. Callers may make
    `requests_per_second` with all keys together, and send `messages_per_second`, with bodies of
    `payload_bytes_max`, while fewer than `backlog_max` messages wait in all its queues;
    `claimed_max` of its messages are claimed at a time. It may have `queues_max` queues,
    `endpoints_max` endpoints, `subscriptions_max` subscriptions and `sessions_max` sessions of the
    console. None is no limit, or that of the process. It may send `emails_per_day`; None is no
    limit for the tenant `default`, and none for others. `owner_targets` are the targets that its
    owner-bound callers may use (`core/owner_targets`).
    """

    id: str
    weight: int = 1
    suspended: bool = False
    min_interval_seconds: int | None = None
    owner_min_interval_seconds: int | None = None
    schedules_max: int | None = None
    owner_schedules_max: int | None = None
    schedules_per_second: float | None = None
    messages_per_second: float | None = None
    requests_per_second: float | None = None
    payload_bytes_max: int | None = None
    backlog_max: int | None = None
    claimed_max: int | None = None
    emails_per_day: int | None = None
    queues_max: int | None = None
    endpoints_max: int | None = None
    subscriptions_max: int | None = None
    sessions_max: int | None = None
    owner_targets: tuple[str, ...] = ()


class QueueSettings(Struct, frozen=True, kw_only=True):
    """The settings of a queue. `max_batch_timeout` is in seconds.

    `tenant_claimed_max` is the number of messages of one tenant that may be claimed at a time,
    `rate_per_second` the number of messages claimed per second, of all tenants together,
    `backlog_bytes_max` the bytes of bodies that may wait before sends are refused. `push_to` is
    the name of the endpoint that consumes the queue, `limit` that of a limit which it shares with
    other queues and endpoints. `history` says of which messages a record is kept after their end,
    `history_seconds` for how long; None is the default of the database.
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
    push_to: str | None = None
    limit: str | None = None
    history: HistoryKept | None = None
    history_seconds: int | None = None
    history_bodies: bool = False

    @property
    def has_claim_limits(self) -> bool:
        """Whether a rate or a cap limits claims, so that concurrent claims must coordinate."""
        return self.counts_claims or self.rate_per_second is not None

    @property
    def counts_claims(self) -> bool:
        """Whether claims are counted, because a cap or a named limit may limit them."""
        return self.tenant_claimed_max is not None or self.limit is not None


QueuePosition = tuple[str, str]
"""The name and tenant of a queue, by which queues are sorted. The tenant of a shared one is
empty."""

BEFORE_QUEUES: QueuePosition = ("", "")


class StoredQueue(Struct, frozen=True, kw_only=True):
    """A queue of one tenant, or a shared one (`tenant` None). `declared_by` is the app whose code
    gave its settings."""

    id: UUID
    tenant: str | None
    name: str
    settings: QueueSettings = QueueSettings()
    paused: bool = False
    declared_by: str | None = None

    @property
    def position(self) -> QueuePosition:
        return self.name, self.tenant or ""


def slot_key(
    base: str | None, schedule_id: UUID | None, slot: datetime | None, run: int
) -> str | None:
    """The idempotency key of a slot's message: the same for every attempt and different from that
    of any other slot or run. `base` is the schedule's own idempotency key, if it has one.

    A copy of a slot's message and its replay have the whole key as their `base`: a copy has no
    slot, and the base of a replay names the slot already.
    """
    if schedule_id is None or slot is None:
        return base
    own = f":{iso(slot)}"
    if base is not None and run and own in base:
        return base
    # Without a prefix: receivers recognise a repeat by this key, also after an upgrade.
    return f"{base or without_prefix(schedule_id)}{own}" + (f":{run}" if run else "")


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to send. The sender creates its id, so that a repeated send is recognized."""

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
    idempotency_base: str | None = None
    death: str | None = None
    traceparent: str | None = None
    receiver: str | None = None
    expires_after_seconds: float | None = None

    @property
    def idempotency_key(self) -> str | None:
        """The key that is the same for every attempt at a slot."""
        return slot_key(self.idempotency_base, self.schedule_id, self.slot, self.run)


class Message(Struct, frozen=True, gc=False):
    """A stored message. `attempts` counts handlers that ran and failed, `lost` counts claims whose
    holder died, and `claim` counts all claims. `holder` and `claimed_at` are those of a claimed
    message.

    The message of a schedule's slot also has `due_at`, the `grace_seconds` during which it is on
    time (None: it was planned late), and its schedule's `terms` (`core.schedule`). A claim after
    the grace sets `catch_up`. `idempotency_base` is explained in `slot_key`. `death` says to the
    consumer of a dead-letter queue how the message died (`core.message.dead_letter`). `traceparent`
    is the span of its sender, if that was traced. `receiver` is who gets a delivery
    (`core.delivery.receiver`).
    """

    tenant: str
    id: UUID
    queue_id: UUID
    state: State
    priority: int
    claim: int
    holder: UUID | None
    claimed_at: datetime | None
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
    idempotency_base: str | None
    death: str | None
    traceparent: str | None
    receiver: str | None
    content_type: ContentType
    format: int
    last_error: str | None
    body: bytes

    @property
    def idempotency_key(self) -> str | None:
        """The key that is the same for every attempt at a slot."""
        return slot_key(self.idempotency_base, self.schedule_id, self.slot, self.run)

    @property
    def is_replay(self) -> bool:
        """Whether it is the replay of a slot's dead letter."""
        return (
            self.run > 0
            and self.idempotency_base is not None
            and (self.idempotency_base == self.idempotency_key)
        )

    @property
    def correlation(self) -> str:
        """Its correlation id; a message without one begins a correlation, which has its id."""
        return self.correlation_id or public_id(Prefix.MESSAGE, self.id)

    @property
    def work_key(self) -> str:
        """The key of its progress: the same for every attempt, and for a replay of its slot."""
        return self.idempotency_key or str(self.id)

    @property
    def is_late(self) -> bool:
        """Whether the slot was planned in time but first claimed after its grace."""
        is_first = self.attempts == 0 and self.lost == 0 and self.waits_since is None
        return self.catch_up and self.grace_seconds is not None and is_first

    @property
    def waits_since(self) -> datetime | None:
        """When the attempt started whose receiver accepted it and completes it later. None if no
        attempt waits for its completion."""
        note = self.last_error
        if note is None or not note.startswith(WAITING_SINCE):
            return None
        return datetime.fromisoformat(note.removeprefix(WAITING_SINCE))

    @property
    def limited_by(self) -> str | None:
        """The limit that did not let it through last, if nothing happened since."""
        note = self.last_error
        return note.removeprefix(LIMITED_BY) if note and note.startswith(LIMITED_BY) else None

    def limit_note(self, limited_by: str | None) -> str | None:
        """The note that a limit did not let it through; None if it has an error to keep."""
        has_error = self.last_error is not None and self.limited_by is None
        return None if has_error or limited_by is None else f"{LIMITED_BY}{limited_by}"

    @property
    def is_running(self) -> bool:
        """Whether a worker has claimed it, or its receiver has yet to complete it."""
        return self.state is State.CLAIMED or self.waits_since is not None

    @property
    def current_claim(self) -> Claim:
        """The claim of the current holder, which settling it requires."""
        assert self.holder is not None
        return Claim(self.tenant, self.id, self.claim, self.holder)


class Claim(Struct, frozen=True, gc=False):
    """A worker's claim on a message. Its `number` and `holder` fence every write of the holder."""

    tenant: str
    id: UUID
    number: int
    holder: UUID


class Fate(StrEnum):
    """What happens to a message when its claim ends, or is kept after a checkpoint."""

    ACK = "ack"
    RETRY = "retry"
    RELEASE = "release"
    DEAD = "dead"
    KEEP = "keep"


class Send(Struct, frozen=True):
    """A message and the name of the queue to send it to. Without a queue it is an event, which is
    published to subscribers and endpoints: those without an owner and those of its `owner`."""

    queue: str | None
    message: NewMessage
    owner: str | None = None


class BatchWithItems(Struct, frozen=True, kw_only=True):
    """A batch with all its items, stored in one transaction. A stored batch with the same id, queue
    and number of items counts as the same batch."""

    id: UUID
    queue: str
    completion_queue: str | None = None
    items: tuple[NewMessage, ...] = ()


class Ending(Struct, frozen=True, kw_only=True, gc=False):
    """The end of a claim, and everything that commits with it.

    `retry` counts an attempt, `release` does not; both make the message visible again after
    `delay_seconds`, or at `visible_at` if that is given. `dead` leaves a dead letter with `reason`
    and `error`. `took_seconds` is how long the handler ran, if that is known. The sends, batches
    and effects are stored only if the claim is still valid. The store also updates the message's
    batch and unblocks the next message of its key.
    """

    claim: Claim
    fate: Fate
    delay_seconds: float = 0.0
    visible_at: datetime | None = None
    reason: str | None = None
    error: str | None = None
    sends: tuple[Send, ...] = ()
    batches: tuple[BatchWithItems, ...] = ()
    effects: tuple[Effect, ...] = ()
    took_seconds: float | None = None

    def effect(self, kind: type[E]) -> E | None:
        """Its effect of a kind, of which it has one at most."""
        for effect in self.effects:
            if isinstance(effect, kind):
                return effect
        return None

    @property
    def part(self) -> str | None:
        """Which of several endings of its claim it is, if all of them count."""
        return next((effect.part for effect in self.effects if effect.part is not None), None)

    @property
    def skip_reason(self) -> str | None:
        """Why its message was not handled although it is acked; None if it was."""
        reasons = (effect.skip_reason for effect in self.effects)
        return next((reason for reason in reasons if reason is not None), None)

    @property
    def counts_attempt(self) -> bool:
        """Whether a handler ran and used an attempt."""
        if self.fate is Fate.DEAD:
            return self.reason not in REASONS_NOT_HANDLED
        return self.fate is Fate.RETRY


class Settlement(Struct, frozen=True):
    """Endings that commit together."""

    endings: tuple[Ending, ...]


class SettleResult(Struct, frozen=True):
    """The endings that had no effect.

    A refused ending had a lost claim: it changed nothing and sent nothing. A duplicate acked an
    event that was processed before: its message is removed, but its sends, batches and effects are
    not stored. Those of an ending whose effect was recorded before are not stored either.
    """

    refused: tuple[Claim, ...] = ()
    duplicates: tuple[Claim, ...] = ()


class ClaimRequest(Struct, frozen=True, kw_only=True):
    """A request for messages of a queue.

    `holder` is a node, whose heartbeat keeps the claims alive. With `lease_seconds` each claim has
    a lease of its own instead (pull). `separate` claims only suspects: messages with lost claims,
    which must not run beside others. It returns some of one tenant, or a single message if all
    have too many lost claims. Other requests never return suspects. With `rooms` it takes no more
    for any receiver than that lets go.
    """

    queue: str
    holder: UUID
    limit: int = 10
    lease_seconds: float | None = None
    separate: bool = False
    rooms: Rooms | None = None


class IdKind(StrEnum):
    """What an id names."""

    MESSAGE = "message"
    DEAD_LETTER = "dead letter"
    DEAD_MESSAGE = "dead message"
    BATCH = "batch"
    SCHEDULE = "schedule"
    DELIVERY = "delivery"
    OPERATION = "operation"


class Counts(Struct, frozen=True):
    """Number of messages of a queue in each state, and of its dead letters."""

    ready: int = 0
    delayed: int = 0
    claimed: int = 0
    blocked: int = 0
    dead: int = 0


class QueuePermits(Struct, frozen=True, array_like=True):
    """How many handlers of a queue a worker may run at a time. If `is_auto`, that is the most that
    it scales to by itself; if `is_batch`, each of them gets a batch of messages."""

    queue: str
    permits: int
    is_auto: bool = False
    is_batch: bool = False


class StoredNode(Struct, frozen=True):
    """A running process. Its claims are valid until `expires_at`, which each heartbeat extends.
    `workflows` are the versions of workflows that it declares, `permits` what its worker may run at
    a time."""

    id: UUID
    name: str
    roles: tuple[str, ...]
    started_at: datetime
    expires_at: datetime
    workflows: tuple[tuple[str, str | None], ...] = ()
    permits: tuple[QueuePermits, ...] = ()


class Reaped(Struct, frozen=True):
    """The result of one run of the reaper: expired nodes, messages released, messages that became
    dead letters, and batches whose completion event was missing. `expired_slots` counts dead slots
    that expired before their first claim."""

    nodes: tuple[UUID, ...] = ()
    released: int = 0
    dead: int = 0
    batches: int = 0
    expired_slots: int = 0


class Pruned(Struct, frozen=True):
    """Number of old rows of each kind that one run of the pruner deleted."""

    dead_letters: int = 0
    events: int = 0
    receipts: int = 0
    progress: int = 0
    batches: int = 0
    firings: int = 0
    schedules: int = 0
    counters: int = 0
    deliveries: int = 0
    runs: int = 0
    history: int = 0


class Meta(Struct, frozen=True):
    """The metadata of a database."""

    schema_version: int
    cell: str
    epoch: int
