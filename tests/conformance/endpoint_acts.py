"""Helpers for conformance tests of endpoints: short calls with defaults."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from tests.conformance.acts import claim, join, new, settle
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    ENDPOINTS_SETTINGS,
    Attempt,
    AttemptRecord,
    DeliverySelection,
    Endpoint,
    EndpointDelivery,
    EndpointSettings,
    Published,
    read_endpoint_envelope,
)
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.model import DEFAULT, SYSTEM, Ending, Fate, Message, NewMessage, Scope
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def make_deliveries_queue(store: Store) -> UUID:
    return (await store.queues.put(SYSTEM, ENDPOINTS_QUEUE, ENDPOINTS_SETTINGS)).id


async def new_endpoint(store: Store, name: str = "shop", **settings: Any) -> Endpoint:
    """An endpoint that is not stored yet."""
    settings = {"url": "https://example.com/hook", "types": ("order.*",)} | settings
    now = await store.now()
    return Endpoint(
        id=new_id(),
        tenant="default",
        name=name,
        settings=EndpointSettings(**settings),
        created_at=now,
        updated_at=now,
    )


async def make_endpoint(
    store: Store, name: str = "shop", *, scope: Scope = DEFAULT, **settings: Any
) -> Endpoint:
    """Creates an endpoint, and the queue of deliveries."""
    await make_deliveries_queue(store)
    return await store.endpoints.create(scope, await new_endpoint(store, name, **settings))


def new_event(type_: str = "order.paid", **fields: Any) -> NewMessage:
    fields.setdefault("body", msgspec.json.encode({"order": 17}))
    return new(type=type_, **fields)


async def publish(
    store: Store,
    type_: str = "order.paid",
    *,
    owner: str | None = None,
    scope: Scope = DEFAULT,
    **fields: Any,
) -> Published:
    return await store.endpoints.publish(scope, new_event(type_, **fields), owner)


async def claimed(store: Store, *, holder: UUID | None = None) -> tuple[Message, ...]:
    """Claims what waits for endpoints, by a new node."""
    return await claim(store, holder or await join(store), queue=ENDPOINTS_QUEUE, scope=SYSTEM)


async def claimed_one(store: Store) -> Message:
    (message,) = await claimed(store)
    return message


def attempt_of(
    message: Message,
    *,
    code: int | None = 200,
    took_seconds: float = 0.5,
    is_probe: bool = False,
    is_gone: bool = False,
) -> AttemptRecord:
    """A record of an attempt, which succeeded with a code of 200."""
    envelope, is_delivered = read_endpoint_envelope(message.body), code == 200
    return AttemptRecord(
        claim=message.current_claim,
        delivery_id=envelope.delivery,
        endpoint_id=envelope.endpoint,
        attempt=Attempt(
            number=1,
            at=message.visible_at,
            took_seconds=took_seconds,
            code=code,
            kind=None if is_delivered else ErrorKind.HTTP,
            error=None if is_delivered else f"the receiver answered {code}",
            excerpt="answer",
        ),
        is_probe=is_probe,
        is_gone=is_gone,
    )


async def record(store: Store, *records: AttemptRecord) -> tuple[bool, ...]:
    return await store.endpoints.record(SYSTEM, records)


async def end(store: Store, message: Message, fate: Fate, **fields: Any) -> None:
    """Ends a claim."""
    await settle(store, Ending(claim=message.current_claim, fate=fate, **fields), scope=SYSTEM)


async def attempt(store: Store, message: Message, **fields: Any) -> None:
    """Records an attempt and ends the claim: ack, or retry at once."""
    made = attempt_of(message, **fields)
    assert await record(store, made) == (True,)
    await end(store, message, Fate.ACK if made.attempt.is_delivered else Fate.RETRY)


async def deliveries(
    store: Store, *, scope: Scope = DEFAULT, **selection: Any
) -> tuple[EndpointDelivery, ...]:
    return await store.endpoints.deliveries(scope, DeliverySelection(**selection))


async def the_delivery(store: Store) -> EndpointDelivery:
    (delivery,) = await deliveries(store)
    return delivery


def ids(found: Sequence[EndpointDelivery]) -> list[UUID]:
    return [delivery.id for delivery in found]
