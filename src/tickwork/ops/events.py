"""Events, which are published to queues and endpoints, and what became of their deliveries."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from tickwork import spans
from tickwork.core.access import owner_of_new
from tickwork.core.answers.delivery import DeliveryAnswer, DeliveryHistory
from tickwork.core.answers.ids import Prefix, plain_text, public_id
from tickwork.core.delivery.endpoint import (
    RECOVER_RATE_PER_SECOND,
    RESENT_AT_ONCE_MAX,
    Attempt,
    DeliverySelection,
    Published,
)
from tickwork.core.delivery.endpoint_fields import check_event_type, check_owner
from tickwork.core.limits import BODY_BYTES_MAX, LIST_LIMIT_MAX, check_message
from tickwork.core.message.body import encode_json
from tickwork.core.model import NewMessage, Scope
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN
from tickwork.core.schedule.model import FIRED_TYPE
from tickwork.core.stable_hash import derived_id
from tickwork.errors import Conflict, FieldError, InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.quotas import admit
from tickwork.ops.types import check_event
from tickwork.store.ids import new_id, own_tenant

_EVENTS = UUID("6b1c7f1e-7f0e-5d5c-9a43-3d2f4f6e7a10")
"""What the ids of events with an `event_id` are derived from."""


def new_event(
    scope: Scope,
    event_type: str,
    data: object,
    *,
    key: str | None = None,
    event_id: str | None = None,
) -> NewMessage:
    """Returns an event to publish. Raises `InvalidInput` for one that nobody could receive."""
    check_event_type(event_type)
    key, event_id = map(plain_text, (key, event_id))
    event = NewMessage(
        id=_id(scope, event_id),
        body=_encoded(data),
        type=event_type,
        key=key,
        event_id=event_id,
        traceparent=spans.traceparent(),
    )
    check_message(event)
    return event


def event_owner(scope: Scope, owner: str | None) -> str | None:
    """The owner whose endpoints receive an event, too. Raises `InvalidInput`."""
    check_owner(owner)
    owner = plain_text(owner)
    owner_of_new(scope, owner)
    return owner or scope.owner


async def publish_event(context: Context, event: NewMessage, owner: str | None) -> Published:
    """Publishes an event at once. One with an `event_id` is published once, however often it is
    repeated. Raises `Conflict` if the `event_id` was used for another event, and `InvalidInput` if
    a queue that subscribes to its type does not take its data."""
    await check_event(context, event)
    await admit(context, [event])
    return await context.store.endpoints.publish(context.scope, event, owner)


async def list_deliveries(
    context: Context, selection: DeliverySelection, *, before: UUID | None = None
) -> tuple[DeliveryAnswer, ...]:
    """The selected deliveries, newest first."""
    if not 1 <= selection.limit <= LIST_LIMIT_MAX:
        raise InvalidInput([FieldError("limit", f"must be from 1 to {LIST_LIMIT_MAX}")])
    found = await context.store.endpoints.deliveries(context.scope, selection, before=before)
    return tuple(map(DeliveryAnswer.of, found))


async def find_delivery(context: Context, delivery_id: UUID) -> DeliveryAnswer:
    """One delivery without its attempts. Raises `NotFound`."""
    return DeliveryAnswer.of(await context.store.endpoints.delivery(context.scope, delivery_id))


async def list_attempts(
    context: Context, delivery_id: UUID, *, limit: int, after: int = 0
) -> tuple[Attempt, ...]:
    """The first attempts at a delivery after a given number. Raises `NotFound`."""
    return await context.store.endpoints.attempts(
        context.scope, delivery_id, limit=limit, after=after
    )


async def get_delivery(context: Context, delivery_id: UUID) -> DeliveryHistory:
    """One delivery with its attempts. Raises `NotFound`."""
    found = await find_delivery(context, delivery_id)
    attempts = await context.store.endpoints.attempts(context.scope, delivery_id)
    return DeliveryHistory.with_attempts(found, attempts)


async def resend_delivery(context: Context, delivery_id: UUID) -> None:
    """Sends a delivery again, also a delivered one. Raises `NotFound`, and `Conflict` if it cannot
    be sent again, such as one that is sent at most once."""
    async with recorded(context, "delivery.resend", delivery_id) as change:
        sent = await context.store.endpoints.resend(context.scope, [delivery_id])
        change.is_void = not sent
    if not sent:
        raise await _not_resent(context, delivery_id)


async def _not_resent(context: Context, delivery_id: UUID) -> Conflict:
    """Why a delivery was not sent again. Raises `NotFound` if there is none."""
    found = await context.store.endpoints.delivery(context.scope, delivery_id)
    reason = "its event is no longer kept; publish it again"
    if found.type == FIRED_TYPE:
        reason = "its schedule sends at_most_once; trigger the schedule to send a new one"
    try:
        await context.store.endpoints.get(Scope(found.tenant), found.endpoint_id)
    except NotFound:
        reason = "its endpoint was deleted"
    name = public_id(Prefix.DELIVERY, delivery_id)
    return Conflict(f"delivery {name} is never sent again: {reason}")


async def recover_deliveries(
    context: Context,
    endpoint_id: UUID,
    *,
    since: datetime | None,
    until: datetime | None = None,
    rate_per_second: float = RECOVER_RATE_PER_SECOND,
) -> int:
    """Sends everything again that was published to an endpoint in a span and did not arrive, oldest
    first, and returns their number. What is published meanwhile is not sent again."""
    if not RATE_MIN <= rate_per_second <= RATE_MAX:
        fault = f"must be from {RATE_MIN:g} to {RATE_MAX:g}"
        raise InvalidInput([FieldError("rate_per_second", fault)])
    now = await context.store.now()
    end = now if until is None else min(until, now)
    after = {"endpoint_id": public_id(Prefix.ENDPOINT, endpoint_id), "since": since, "until": end}
    sent, last = 0, None
    async with recorded(context, "delivery.recover", "deliveries", after=after) as change:
        while True:
            ids = await context.store.endpoints.undelivered(
                context.scope,
                endpoint_id,
                since=since,
                until=end,
                limit=RESENT_AT_ONCE_MAX,
                after=last,
            )
            if not ids:
                change.is_void = last is None
                return sent
            sent += await context.store.endpoints.resend(
                context.scope,
                ids,
                rate_per_second=rate_per_second,
                first_after_seconds=sent / rate_per_second,
            )
            last = ids[-1]


def _encoded(data: object) -> bytes:
    body = encode_json(data, "data")
    if len(body) > BODY_BYTES_MAX:
        fault = f"has {len(body)} bytes; at most {BODY_BYTES_MAX}; publish a reference instead"
        raise InvalidInput([FieldError("data", fault)])
    return body


def _id(scope: Scope, event_id: object) -> UUID:
    """The id of an event: derived from the publisher's, so that a repeat has the same."""
    if not isinstance(event_id, str):
        return new_id()
    return derived_id(_EVENTS, f"{own_tenant(scope)}:{event_id!r}")
