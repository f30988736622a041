"""Targets outside: which addresses are allowed, whether their receivers can complete firings, and
the queue that their deliveries need."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from msgspec import structs

from tickwork.core.delivery.callback import callback_target
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.delivery.sealed import seal_body
from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    email_fault,
    has_email,
    read_envelope,
    urls_of,
)
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SCHEDULE_BODY_BYTES_MAX, Definition, NewSchedule
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.schedules.lookup import ensure_hidden_queue, has_queue
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant

NEEDS_PUBLIC_URL = (
    'callback needs the setting TICKWORK_PUBLIC_URL: the URL at which receivers reach "tickwork up"'
)


async def emails_allowed(context: Context) -> int | None:
    """The tenant's quota of emails a day."""
    return (await context.store.tenants.quota(context.scope)).emails_per_day


def check_outside(
    context: Context, schedules: Iterable[NewSchedule], emails_per_day: int | None
) -> None:
    """Raises `InvalidInput` for targets that are not allowed. `emails_per_day` is the quota of the
    tenant."""
    faults: list[FieldError] = []
    several = [*schedules]
    for index, schedule in enumerate(several):
        prefix = f"[{index}]." if len(several) > 1 else ""
        faults += outside_faults(context, schedule.definition, emails_per_day, prefix)
    if faults:
        raise InvalidInput(faults)


def outside_faults(
    context: Context, definition: Definition, emails_per_day: int | None, prefix: str = ""
) -> list[FieldError]:
    """The faults of the target of a definition."""
    if definition.queue != DELIVERIES_QUEUE:
        return []
    faults: list[FieldError] = []
    envelope = read_envelope(definition.body)
    if (
        has_email(envelope.target)
        and (fault := email_fault(own_tenant(context.scope), emails_per_day)) is not None
    ):
        faults.append(FieldError(f"{prefix}target", fault))
    for field, url in urls_of(envelope.target):
        try:
            context.outside.check_url(url)
        except InvalidInput as error:
            name = f"{prefix}target.{field}"
            faults += [FieldError(name, field_error.message) for field_error in error.errors]
    if callback_target(envelope) is not None and context.outside.public_url() is None:
        faults.append(FieldError(f"{prefix}target.completion", NEEDS_PUBLIC_URL))
    return faults


def seal_secrets(
    context: Context,
    schedule_id: UUID,
    definition: Definition,
    before: Definition | None = None,
) -> Definition:
    """The definition with the secrets of its target encrypted. Those that are given masked are
    kept from the definition `before`. Raises `InvalidInput`."""
    if definition.queue != DELIVERIES_QUEUE:
        return definition
    tenant = own_tenant(context.scope)
    row = f"schedule-{schedule_id}"
    box = context.with_one_box().outside.secret_box

    def encrypt(secret: str, field: str) -> bytes:
        return box().encrypt(secret, tenant, row, field)

    known = None if before is None or before.queue != DELIVERIES_QUEUE else before.body
    body, bytes_max = seal_body(definition.body, known, row, encrypt), SCHEDULE_BODY_BYTES_MAX
    if body is definition.body:
        return definition
    bytes_max -= read_envelope(body).reserved_bytes
    if len(body) > bytes_max:
        fault = f"has {len(body)} bytes with its target; at most {bytes_max}: send a reference"
        raise InvalidInput([FieldError("payload", fault)])
    return structs.replace(definition, body=body)


async def has_deliveries(store: Store) -> bool:
    """Whether there may be something to deliver: a hidden queue of deliveries exists. A schedule
    with a target outside creates one, an endpoint does, and so does a worker that can deliver. A
    schedule with `on_success` or `on_failure` creates it even if only queues get its results."""
    queues = (DELIVERIES_QUEUE, ENDPOINTS_QUEUE)
    return any([await has_queue(Context(store, SYSTEM), queue) for queue in queues])


async def ensure_deliveries(store: Store, schedules: Iterable[Definition] | None = None) -> None:
    """Creates the hidden queue if one of the schedules needs it: for its target, or for a result
    whose receiver is deleted."""
    if schedules is not None and not any(map(_needs_deliveries, schedules)):
        return
    await ensure_hidden_queue(store, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)


def _needs_deliveries(definition: Definition) -> bool:
    has_receiver = definition.on_success is not None or definition.on_failure is not None
    return has_receiver or definition.queue == DELIVERIES_QUEUE
