"""Helpers for fault tests: a queue, a message, a node, a claim, an ending."""

from uuid import UUID

from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    NewMessage,
    QueueSettings,
    Send,
    Settlement,
    SettleResult,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

QUEUE, OUTPUTS = "work", "outputs"
LONG_SECONDS = 600.0
"""A lease that does not expire during a test."""


async def put_queues(store: Store) -> None:
    """Creates the two queues of these tests."""
    for name in (QUEUE, OUTPUTS):
        await store.queues.put(DEFAULT, name, QueueSettings())


def new_message(body: bytes = b"1", **facts: str) -> NewMessage:
    return NewMessage(id=new_id(), body=body, **facts)  # type: ignore[arg-type]


async def send(store: Store, count: int = 1) -> list[UUID]:
    """New messages, sent one after the other."""
    messages = [new_message() for _ in range(count)]
    for message in messages:
        await store.messages.send(DEFAULT, QUEUE, message)
    return [message.id for message in messages]


async def join(store: Store, ttl_seconds: float = LONG_SECONDS) -> UUID:
    """Joins a new node."""
    node = await store.nodes.join(SYSTEM, new_id(), name="test", roles=[], ttl_seconds=ttl_seconds)
    return node.id


async def claim(
    store: Store, holder: UUID, *, limit: int = 10, separate: bool = False
) -> tuple[Message, ...]:
    request = ClaimRequest(queue=QUEUE, holder=holder, limit=limit, separate=separate)
    return await store.messages.claim(DEFAULT, request)


async def claim_one(store: Store, holder: UUID) -> Message:
    (message,) = await claim(store, holder, limit=1)
    return message


def ending(message: Message, fate: Fate = Fate.ACK, *, sends: int = 0) -> Ending:
    """An ending that sends this many messages to the outputs."""
    outputs = [new_message(causation_id=str(message.id)) for _ in range(sends)]
    return Ending(
        claim=message.current_claim,
        fate=fate,
        sends=tuple(Send(OUTPUTS, output) for output in outputs),
    )


async def settle(store: Store, *endings: Ending) -> SettleResult:
    return await store.messages.settle(DEFAULT, Settlement(endings))


async def drain(store: Store) -> list[UUID]:
    """Processes all messages, as a node of its own."""
    holder = await join(store)
    done: list[UUID] = []
    while found := await claim(store, holder, limit=100):
        await settle(store, *(ending(message) for message in found))
        done += [message.id for message in found]
    await store.nodes.leave(SYSTEM, holder)
    return done
