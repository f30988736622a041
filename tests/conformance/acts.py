"""Helpers for conformance tests: short calls of a store with defaults."""

from collections.abc import Iterable
from itertools import count
from typing import Any
from uuid import UUID

from tests.stores.clock import VirtualClock
from tickwork.core.message.batch import Batch, NewBatch
from tickwork.core.message.dead_letter import Selection, StoredDeadLetter
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    BatchWithItems,
    ClaimRequest,
    Counts,
    Ending,
    Fate,
    Message,
    NewMessage,
    QueueSettings,
    Scope,
    Send,
    Settlement,
    SettleResult,
    Tenant,
)
from tickwork.core.queue.rooms import Rooms
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

WORK = "work"
ENDS = tuple(fate for fate in Fate if fate is not Fate.KEEP)
"""The fates that end a claim."""

ALL = 1_000
"""More than any test sends."""

TTL_SECONDS = 15.0

_bodies = count(1)


def new(**fields: Any) -> NewMessage:
    """A message with its own id and body."""
    fields.setdefault("id", new_id())
    fields.setdefault("body", str(next(_bodies)).encode())
    return NewMessage(**fields)


def news(number: int, **fields: Any) -> list[NewMessage]:
    return [new(**fields) for _ in range(number)]


async def make_queue(
    store: Store, name: str = WORK, *, scope: Scope = DEFAULT, **settings: Any
) -> UUID:
    return (await store.queues.put(scope, name, QueueSettings(**settings))).id


async def make_tenants(store: Store, *names: str) -> list[Scope]:
    for name in names:
        await store.tenants.put(SYSTEM, Tenant(id=name))
    return [Scope(name) for name in names]


async def send(
    store: Store, *, queue: str = WORK, scope: Scope = DEFAULT, **fields: Any
) -> NewMessage:
    message = new(**fields)
    await store.messages.send(scope, queue, message)
    return message


async def send_many(
    store: Store, number: int, *, queue: str = WORK, scope: Scope = DEFAULT, **fields: Any
) -> list[NewMessage]:
    messages = news(number, **fields)
    await store.messages.send_bulk(scope, queue, messages)
    return messages


async def join(store: Store, *, ttl_seconds: float = TTL_SECONDS) -> UUID:
    """Joins a new node."""
    node_id = new_id()
    await store.nodes.join(SYSTEM, node_id, name="node", roles=["worker"], ttl_seconds=ttl_seconds)
    return node_id


async def claim(
    store: Store,
    holder: UUID,
    *,
    queue: str = WORK,
    scope: Scope = DEFAULT,
    limit: int = ALL,
    lease_seconds: float | None = None,
    separate: bool = False,
    rooms: Rooms | None = None,
) -> tuple[Message, ...]:
    request = ClaimRequest(
        queue=queue,
        holder=holder,
        limit=limit,
        lease_seconds=lease_seconds,
        separate=separate,
        rooms=rooms,
    )
    return await store.messages.claim(scope, request)


async def claim_one(store: Store, holder: UUID | None = None, **fields: Any) -> Message:
    """Claims the only claimable message; without a holder by a new node."""
    (message,) = await claim(store, holder or await join(store), **fields)
    return message


async def pull(store: Store, *, lease_seconds: float = 30.0, **fields: Any) -> tuple[Message, ...]:
    """Claims as a consumer without a node, under a lease."""
    return await claim(store, new_id(), lease_seconds=lease_seconds, **fields)


async def pull_one(store: Store, **fields: Any) -> Message:
    (message,) = await pull(store, **fields)
    return message


def sending(queue: str, **fields: Any) -> Send:
    return Send(queue, new(**fields))


def whole(
    items: Iterable[NewMessage] = (),
    *,
    queue: str = WORK,
    batch_id: UUID | None = None,
    completion_queue: str | None = None,
) -> BatchWithItems:
    """A batch for an ending to create."""
    return BatchWithItems(
        id=batch_id or new_id(),
        queue=queue,
        completion_queue=completion_queue,
        items=tuple(items),
    )


def ack(message: Message, *sends: Send, **fields: Any) -> Ending:
    return Ending(claim=message.current_claim, fate=Fate.ACK, sends=sends, **fields)


def retry(message: Message, **fields: Any) -> Ending:
    return Ending(claim=message.current_claim, fate=Fate.RETRY, **fields)


def release(message: Message, **fields: Any) -> Ending:
    return Ending(claim=message.current_claim, fate=Fate.RELEASE, **fields)


def dead(message: Message, **fields: Any) -> Ending:
    return Ending(claim=message.current_claim, fate=Fate.DEAD, **fields)


async def settle(store: Store, *endings: Ending, scope: Scope = DEFAULT) -> SettleResult:
    return await store.messages.settle(scope, Settlement(endings))


async def die(store: Store, clock: VirtualClock) -> None:
    """Lets every node expire that sends no heartbeat, and reaps it."""
    clock.advance(seconds=TTL_SECONDS)
    await store.reaper.reap(SYSTEM, ALL)


async def kill_holders(store: Store, clock: VirtualClock, times: int) -> None:
    """Lets this many holders die in turn, each after claiming everything it can."""
    for _ in range(times):
        node = await join(store)
        assert await claim(store, node) or await claim(store, node, separate=True)
        await die(store, clock)


async def counts(store: Store, queue: str = WORK, *, scope: Scope = DEFAULT) -> Counts:
    return await store.queues.counts(scope, queue)


async def letters(
    store: Store, queue: str = WORK, *, scope: Scope = DEFAULT
) -> tuple[StoredDeadLetter, ...]:
    return (await store.dead_letters.list(scope, queue, Selection(limit=ALL))).letters


async def kill(
    store: Store, *messages: Message, scope: Scope = DEFAULT, reason: str = "x", **fields: Any
) -> None:
    """Makes dead letters of claimed messages."""
    await settle(
        store, *(dead(message, reason=reason, **fields) for message in messages), scope=scope
    )


async def kill_all(
    store: Store, *, queue: str = WORK, scope: Scope = DEFAULT, **fields: Any
) -> tuple[StoredDeadLetter, ...]:
    """Makes dead letters of all claimable messages."""
    await kill(store, *await pull(store, queue=queue, scope=scope), scope=scope, **fields)
    return await letters(store, queue, scope=scope)


async def ack_all(store: Store, *, queue: str = WORK, scope: Scope = DEFAULT) -> list[UUID]:
    """Processes a queue one message at a time and returns them in order."""
    done: list[UUID] = []
    while found := await pull(store, queue=queue, scope=scope, limit=1):
        done += ids(found)
        await settle(store, *map(ack, found), scope=scope)
    return done


async def create_batch(
    store: Store,
    items: Iterable[NewMessage],
    *,
    scope: Scope = DEFAULT,
    batch_id: UUID | None = None,
    queue: str = WORK,
    completion_queue: str | None = None,
) -> Batch:
    batch = NewBatch(id=batch_id or new_id(), queue=queue, completion_queue=completion_queue)
    return await store.batches.create(scope, batch, items)


def ids(messages: Iterable[Message | NewMessage]) -> list[UUID]:
    return [message.id for message in messages]
