"""Pull consumers: programs that ask for messages over HTTP, and report what became of them.

```
  pull ──▶ messages, each with a lease_id ──ack──▶ deleted
                    │         ▲                └─retry─▶ visible again after a delay
                    │         └── extend
                    └── the lease expires ─────────────▶ visible again; counts an attempt
```

A lease is a claim with a timeout of its own: no heartbeat keeps it. Its `lease_id` is the claim,
encoded, so that any process of the API can settle it. A lease that is over changes nothing.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from struct import Struct as Layout
from struct import error as LayoutError  # noqa: N812  (it is an error)
from uuid import UUID
from zlib import crc32

from msgspec import Struct

from tickwork.core.fields import shown
from tickwork.core.limits import CLAIM_NUMBER_MAX
from tickwork.core.message import decide
from tickwork.core.message.outcome import Outcome, RetryRequested, Succeeded
from tickwork.core.model import (
    Claim,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    Scope,
    Settlement,
    StoredQueue,
)
from tickwork.errors import ClaimLost, Conflict, FieldError, InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.queues import find_queue
from tickwork.store.cluster_contract import Watch
from tickwork.store.contract import Store

PULLED_MAX = 100
"""Maximum number of messages in one pull."""

SETTLED_MAX = 1_000
"""Maximum number of leases in one ack."""

WAIT_SECONDS_MAX = 30.0
"""Maximum number of seconds that a pull waits for a message."""

LOOK_SECONDS = 5.0
"""Seconds between two looks at a queue while a pull waits, if nothing wakes it."""

COUNT_SECONDS = 5.0
"""Seconds for which a counted backlog is shown again: counting reads an index of every message."""

PULLED_SECONDS = 10.0
"""Seconds between two notes that a queue is pulled from: each is a write."""

QUEUES_COUNTED_MAX = 10_000

_LAYOUT = Layout(">BBIQ16s16s")
_VERSION, _IS_SLOT = 1, 1


class PulledMessage(Struct, frozen=True):
    """A message and the id of its lease."""

    message: Message
    lease_id: str


class Pulled(Struct, frozen=True):
    """Messages, and about how many wait in their queue."""

    messages: tuple[PulledMessage, ...]
    backlog: int


class Lease(Struct, frozen=True):
    """What a `lease_id` says. `is_slot`: its message is the slot of a schedule."""

    lease_id: str
    queue_mark: int
    claim: Claim
    is_slot: bool


class Retry(Struct, frozen=True):
    """A lease to give back; without a delay after the backoff of the queue."""

    lease: Lease
    delay_seconds: float | None = None


class Settled(Struct, frozen=True):
    """The result of an ack. `refused` leases were over, or belong to another queue."""

    acked: int
    retried: int
    refused: tuple[str, ...]


class Puller:
    """Pulls messages for consumers of one process of the API. `holder` names it in its claims."""

    def __init__(self, holder: UUID, monotonic: Callable[[], float]) -> None:
        self._holder, self._monotonic = holder, monotonic
        self._marked: dict[UUID, float] = {}
        self._counted: dict[tuple[UUID, str | None], tuple[float, int]] = {}

    async def pull(
        self,
        store: Store,
        scope: Scope,
        queue: str,
        *,
        limit: int,
        lease_seconds: float | None = None,
        wait_seconds: float = 0.0,
    ) -> Pulled:
        """Leases up to `limit` messages; waits for the first one. Raises `Conflict` for a queue
        whose messages the handlers of an app process."""
        stored = await _pulled_queue(Context(store, scope), queue)
        if lease_seconds is None:
            lease_seconds = float(stored.settings.visibility_timeout_seconds)
        request = ClaimRequest(
            queue=queue, holder=self._holder, limit=limit, lease_seconds=lease_seconds
        )
        await self._mark_pulled(store, scope, stored)
        found = await self._claim(store, scope, request)
        if not found and wait_seconds > 0:
            deadline = self._monotonic() + wait_seconds
            async with store.wakeups.watch([stored.id]) as watch:
                found = await self._wait(store, scope, request, watch, deadline)
        mark = _mark(stored)
        leased = tuple(PulledMessage(message, _lease_id(message, mark)) for message in found)
        return Pulled(leased, await self._backlog(store, scope, stored))

    async def _mark_pulled(self, store: Store, scope: Scope, queue: StoredQueue) -> None:
        now, marked = self._monotonic(), self._marked.get(queue.id)
        if marked is not None and now - marked < PULLED_SECONDS:
            return
        if len(self._marked) >= QUEUES_COUNTED_MAX:
            self._marked.clear()
        self._marked[queue.id] = now
        await store.queues.mark_pulled(scope, queue.name)

    async def _wait(
        self, store: Store, scope: Scope, request: ClaimRequest, watch: Watch, deadline: float
    ) -> tuple[Message, ...]:
        while True:
            # First: a message may have come before we watched.
            if found := await self._claim(store, scope, request):
                return found
            left = deadline - self._monotonic()
            if left <= 0:
                return ()
            await watch.wait(min(left, await _until_visible(Context(store, scope), request.queue)))

    async def _claim(
        self, store: Store, scope: Scope, request: ClaimRequest
    ) -> tuple[Message, ...]:
        found = await store.messages.claim(scope, request)
        if not found:
            # What two workers of an app lost is claimed apart from other messages.
            separate = ClaimRequest(
                queue=request.queue,
                holder=request.holder,
                limit=request.limit,
                lease_seconds=request.lease_seconds,
                separate=True,
            )
            found = await store.messages.claim(scope, separate)
        return await _without_dead(Context(store, scope), request.queue, found)

    async def _backlog(self, store: Store, scope: Scope, queue: StoredQueue) -> int:
        known, now = self._counted.get((queue.id, scope.tenant)), self._monotonic()
        if known is not None and now - known[0] < COUNT_SECONDS:
            return known[1]
        counts = await store.queues.counts(scope, queue.name)
        backlog = counts.ready + counts.delayed + counts.blocked
        if len(self._counted) >= QUEUES_COUNTED_MAX:
            self._counted.clear()
        self._counted[queue.id, scope.tenant] = now, backlog
        return backlog


async def settle_pulled(
    context: Context, queue: str, acks: Sequence[Lease], retries: Sequence[Retry]
) -> Settled:
    """Settles leases in one transaction. Those that are over are refused; the others count. A
    lease that is named twice counts once."""
    stored = await _pulled_queue(context, queue)
    mark, wanted = _mark(stored), dict[Claim, tuple[Lease, Outcome]]()
    given: list[tuple[Lease, Outcome]] = [(ack, Succeeded()) for ack in acks]
    given += [(retry.lease, RetryRequested(retry.delay_seconds)) for retry in retries]
    refused: list[str] = []
    for lease, outcome in given:
        if lease.queue_mark != mark or lease.claim.tenant != context.scope.tenant:
            refused.append(lease.lease_id)
        else:
            wanted.setdefault(lease.claim, (lease, outcome))
    endings: dict[Claim, Ending] = {}
    for lease, outcome in wanted.values():
        ending = await _ending(context, stored, lease, outcome)
        if ending is None:
            refused.append(lease.lease_id)
        else:
            endings[lease.claim] = ending
    result = await context.store.messages.settle(context.scope, Settlement(tuple(endings.values())))
    lost = frozenset(result.refused)
    refused += [wanted[claim][0].lease_id for claim in lost]
    done = [wanted[claim][1] for claim in endings if claim not in lost]
    acked = sum(isinstance(outcome, Succeeded) for outcome in done)
    return Settled(acked, len(done) - acked, tuple(refused))


async def extend_lease(context: Context, queue: str, lease: Lease, lease_seconds: float) -> None:
    """Makes a lease expire `lease_seconds` from now. Raises `ClaimLost` if it is over."""
    stored = await _pulled_queue(context, queue)
    if lease.queue_mark != _mark(stored) or lease.claim.tenant != context.scope.tenant:
        raise ClaimLost([lease.claim.id])
    if not await context.store.messages.extend(context.scope, lease.claim, lease_seconds):
        raise ClaimLost([lease.claim.id])


def read_lease(field: str, given: object, scope: Scope) -> Lease:
    """The lease with an id. Raises `InvalidInput` for what is none."""
    fault = FieldError(field, f"must be the lease_id of a pulled message, not {shown(given)}")
    if not isinstance(given, str) or scope.tenant is None:
        raise InvalidInput([fault])
    try:
        packed = urlsafe_b64decode(given + "=" * (-len(given) % 4))
        version, flags, mark, number, message_id, holder = _LAYOUT.unpack(packed)
    except (Base64Error, ValueError, LayoutError):
        raise InvalidInput([fault]) from None
    if version != _VERSION or not 1 <= number <= CLAIM_NUMBER_MAX:
        raise InvalidInput([fault])
    claim = Claim(scope.tenant, UUID(bytes=message_id), number, UUID(bytes=holder))
    return Lease(given, mark, claim, bool(flags & _IS_SLOT))


async def _pulled_queue(context: Context, queue: str) -> StoredQueue:
    stored = await find_queue(context, queue)
    if stored.settings.push_to is not None:
        raise Conflict(
            f"queue {queue} is pushed to the endpoint {stored.settings.push_to}; remove push_to to "
            "pull from it"
        )
    if stored.declared_by is not None:
        raise Conflict(
            f"queue {queue} is declared by the app {stored.declared_by}, whose handlers process "
            "its messages; pull from a queue that was made over HTTP"
        )
    return stored


async def _until_visible(context: Context, queue: str) -> float:
    """Seconds until the next delayed message is visible, at most `LOOK_SECONDS`."""
    visible_at = await context.store.messages.next_visible_at(context.scope, queue)
    if visible_at is None:
        return LOOK_SECONDS
    seconds = (visible_at - await context.store.now()).total_seconds()
    return min(max(seconds, 0.0), LOOK_SECONDS)


async def _without_dead(
    context: Context, queue: str, found: tuple[Message, ...]
) -> tuple[Message, ...]:
    """The messages that a consumer may see. The others become dead letters."""
    early = {message.id: outcome for message in found if (outcome := decide.early_outcome(message))}
    if not early:
        return found
    settings = (await context.store.queues.get(context.scope, queue)).settings
    endings = [
        decide.settle(message, early[message.id], settings)
        for message in found
        if message.id in early
    ]
    await context.store.messages.settle(context.scope, Settlement(tuple(endings)))
    return tuple(message for message in found if message.id not in early)


async def _ending(
    context: Context, queue: StoredQueue, lease: Lease, outcome: Outcome
) -> Ending | None:
    """How a claim ends; None if it is over. An ack of a plain message needs nothing but its claim;
    otherwise the message decides: its attempts, or the schedule that it is a slot of."""
    if isinstance(outcome, Succeeded) and not lease.is_slot:
        return Ending(claim=lease.claim, fate=Fate.ACK)
    try:
        message = await context.store.messages.get(context.scope, queue.name, lease.claim.id)
    except NotFound:
        return None
    if message.holder is None or message.current_claim != lease.claim:
        return None
    took = 0.0
    if message.claimed_at is not None:
        took = max((await context.store.now() - message.claimed_at).total_seconds(), 0.0)
    jitter = decide.jitter_of(message)
    return decide.settle(message, outcome, queue.settings, jitter=jitter, took_seconds=took)


def _lease_id(message: Message, mark: int) -> str:
    flags = 0 if message.schedule_id is None else _IS_SLOT
    claim = message.current_claim
    packed = _LAYOUT.pack(_VERSION, flags, mark, claim.number, claim.id.bytes, claim.holder.bytes)
    return urlsafe_b64encode(packed).decode().rstrip("=")


def _mark(queue: StoredQueue) -> int:
    """What distinguishes leases of one queue from those of another."""
    return crc32(queue.id.bytes)
