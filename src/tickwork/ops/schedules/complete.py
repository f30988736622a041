"""Completes a firing whose receiver accepted it with 202 and has done its work since."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.delivery.callback import (
    CompletionToken,
    completed,
    is_valid,
    read_completion,
    read_token,
)
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.message import decide
from tickwork.core.model import Fate, Message, Scope, Settlement, State
from tickwork.core.schedule.firing import FiringStatus
from tickwork.errors import Conflict, InvalidInput, NotFound
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


class CompletedFiring(Struct, frozen=True, kw_only=True):
    """A firing that its receiver completed. `status` is that of the attempt: `succeeded`, `failed`
    if it is retried, or `dead`."""

    id: UUID
    schedule_id: UUID | None
    slot: datetime | None
    attempt: int
    status: FiringStatus


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
        raise Conflict(f"the token does not belong to firing {firing_id}; nothing was changed")
    scope = Scope(given.tenant)
    for _ in range(TRIES_MAX):
        message, now = await _find(store, scope, given), await store.now()
        settings = (await store.queues.get(scope, DELIVERIES_QUEUE)).settings
        claimed = message
        if message.state is not State.CLAIMED:
            claimed = structs.replace(
                message, state=State.CLAIMED, claim=message.claim + 1, holder=new_id()
            )
        ending = decide.settle(claimed, completed(completion, message, now), settings)
        if message is claimed:
            # The worker has not settled the 202 yet. Its own settlement is refused after ours.
            is_done = not (await store.messages.settle(scope, Settlement((ending,)))).refused
        else:
            is_done = await store.messages.settle_unclaimed(scope, message, ending)
        if is_done:
            return CompletedFiring(
                id=message.id,
                schedule_id=message.schedule_id,
                slot=message.slot,
                attempt=message.attempts + 1,
                status=_STATUSES[ending.fate] if ending.firing is None else ending.firing.status,
            )
    raise Conflict(STALE)


async def _find(store: Store, scope: Scope, token: CompletionToken) -> Message:
    """The message whose current attempt a token belongs to. Raises `Conflict`."""
    try:
        message = await store.messages.get(scope, DELIVERIES_QUEUE, token.message_id)
        rows = await store.progress.get(scope, message.work_key)
    except (NotFound, InvalidInput):
        raise Conflict(STALE) from None
    if not is_valid(token, message, rows, await store.now()):
        raise Conflict(STALE)
    return message
