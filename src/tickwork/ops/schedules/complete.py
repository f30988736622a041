"""Completes a firing whose receiver accepted it with 202 and has done its work since."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.answers.ids import Id, Prefix, optional_id, parse_public_id, public_id
from tickwork.core.answers.schedule import CompletedFiring
from tickwork.core.delivery.callback import (
    ACCEPTED,
    CompletionToken,
    completed,
    is_valid,
    read_completion,
    read_token,
)
from tickwork.core.delivery.endpoint import AttemptRecord
from tickwork.core.delivery.endpoint_request import attempt_of
from tickwork.core.delivery.outcome import Delivery
from tickwork.core.delivery.slot_delivery import slot_delivery
from tickwork.core.delivery.target import DELIVERIES_QUEUE, EndpointTarget, read_envelope
from tickwork.core.message import decide
from tickwork.core.model import SYSTEM, Fate, Message, Scope, Settlement, State
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

TRIES_MAX = 5
"""Number of tries if the message changes between reading and settling it."""

STALE = (
    "the token is stale: the firing was completed, its time is over, or a later attempt has "
    "started; nothing was changed"
)


_STATUSES = {
    Fate.ACK: FiringStatus.SUCCEEDED,
    Fate.RETRY: FiringStatus.FAILED,
    Fate.DEAD: FiringStatus.DEAD,
}


_BY = "completion token"
"""Who completes a firing, in the audit log: whoever has its token."""


async def complete_firing(
    store: Store,
    token: object,
    fields: Mapping[str, object],
    *,
    firing_id: UUID | None = None,
) -> CompletedFiring:
    """Ends the attempt that a token belongs to: as a success, or with `status` `failed`.

    The token alone is enough; a `firing_id` must be that of the token. Raises `Conflict` if the
    token is stale.
    """
    given, completion = read_token(token), read_completion(fields)
    if firing_id is not None and firing_id != given.message_id:
        shown = public_id(Prefix.FIRING, firing_id)
        raise Conflict(f"the token does not belong to firing {shown}; nothing was changed")
    scope = Scope(given.tenant)
    for _ in range(TRIES_MAX):
        message, now = await _find(Context(store, scope), given), await store.now()
        settings = (await store.queues.get(scope, DELIVERIES_QUEUE)).settings
        claimed = message
        if message.state is not State.CLAIMED:
            claimed = structs.replace(
                message, state=State.CLAIMED, claim=message.claim + 1, holder=new_id()
            )
        ending = decide.settle(claimed, completed(completion, message, now), settings)
        firing = ending.effect(FiringResult)
        status = _STATUSES[ending.fate] if firing is None else firing.status
        schedule = optional_id(Prefix.SCHEDULE, message.schedule_id)
        after = {"schedule_id": schedule, "status": status}
        async with recorded(
            Context(store, scope), "firing.complete", message.id, after=after, by=_BY
        ) as change:
            if message is claimed:
                # The worker has not settled the 202 yet. Its own settlement is refused after ours.
                await _record_accepted(Context(store, scope), message, now)
                is_done = not (await store.messages.settle(scope, Settlement((ending,)))).refused
            else:
                is_done = await store.messages.settle_unclaimed(scope, message, ending)
            change.is_void = not is_done
        if is_done:
            return CompletedFiring(
                id=Id.of(Prefix.FIRING, message.id),
                schedule_id=Id.of_optional(Prefix.SCHEDULE, message.schedule_id),
                slot=message.slot,
                attempt=message.attempts + 1,
                status=status,
            )
    raise Conflict(STALE)


async def _record_accepted(context: Context, message: Message, now: datetime) -> None:
    """Records that an endpoint accepted the delivery: its worker cannot when the claim is over."""
    envelope = read_envelope(message.body)
    if not isinstance(envelope.target, EndpointTarget):
        return
    name = envelope.target.endpoint
    with suppress(NotFound):
        endpoint = await context.store.endpoints.get(context.scope, parse_public_id(name) or name)
        took = now - (message.claimed_at or now)
        result = Delivery(is_delivered=True, code=ACCEPTED, took_seconds=took.total_seconds())
        record = AttemptRecord(
            claim=message.current_claim,
            delivery_id=slot_delivery(message, endpoint.id, envelope).id,
            endpoint_id=endpoint.id,
            attempt=attempt_of(result, message.attempts + 1, now),
        )
        await context.store.endpoints.record(SYSTEM, [record])


async def _find(context: Context, token: CompletionToken) -> Message:
    """The message whose current attempt a token belongs to. Raises `Conflict`."""
    try:
        message = await context.store.messages.get(
            context.scope, DELIVERIES_QUEUE, token.message_id
        )
        rows = await context.store.progress.get(context.scope, message.work_key)
    except (NotFound, InvalidInput):
        raise Conflict(STALE) from None
    if not is_valid(token, message, rows, await context.store.now()):
        raise Conflict(STALE)
    return message
