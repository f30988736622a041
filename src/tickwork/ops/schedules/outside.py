"""Targets outside: which addresses are allowed, whether their receivers can complete firings, and
the queue that their deliveries need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import NamedTuple
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
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.model import SCHEDULE_BODY_BYTES_MAX, Definition, NewSchedule
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules.lookup import ensure_hidden_queue, has_queue
from tickwork.ops.webhook_secret import Box
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant

NEEDS_PUBLIC_URL = (
    'callback needs the setting TICKWORK_PUBLIC_URL: the URL at which receivers reach "tickwork up"'
)

CheckUrl = Callable[[str], None]
"""Raises `InvalidInput` for a URL that may not be requested."""


def _refuse(_: str) -> None:
    raise InvalidInput([FieldError("url", "cannot be used here: webhooks are not set up")])


def _no_box() -> Box:
    raise InvalidInput([FieldError("target", "cannot have secrets here: no key is set up")])


class OutsideRules(NamedTuple):
    """What an installation allows: the URLs of targets, callbacks if it has a public URL, and the
    targets of owners in every tenant; and what encrypts the secrets of targets. The settings are
    read only for targets that need them. `emails_per_day` is the quota of the tenant."""

    check_url: CheckUrl = _refuse
    public_url: Callable[[], str | None] = lambda: None
    box: Callable[[], Box] = _no_box
    owner_targets: tuple[str, ...] = ()
    emails_per_day: int | None = None

    async def of_tenant(self, store: Store, scope: Scope) -> OutsideRules:
        """The rules with the tenant's quota of emails."""
        quota = await store.tenants.quota(scope)
        return self._replace(emails_per_day=quota.emails_per_day)

    def with_one_box(self) -> OutsideRules:
        """The same rules for many schedules: the key is read once, when it is first needed."""
        return self._replace(box=cache(self.box))


NO_OUTSIDE = OutsideRules()
"""The rules of a caller that creates no targets outside."""


def check_outside(scope: Scope, schedules: Iterable[NewSchedule], outside: OutsideRules) -> None:
    """Raises `InvalidInput` for targets that are not allowed."""
    faults: list[FieldError] = []
    several = [*schedules]
    for index, schedule in enumerate(several):
        prefix = f"[{index}]." if len(several) > 1 else ""
        faults += outside_faults(scope, schedule.definition, outside, prefix)
    if faults:
        raise InvalidInput(faults)


def outside_faults(
    scope: Scope, definition: Definition, outside: OutsideRules, prefix: str = ""
) -> list[FieldError]:
    """The faults of the target of a definition."""
    if definition.queue != DELIVERIES_QUEUE:
        return []
    faults: list[FieldError] = []
    envelope = read_envelope(definition.body)
    if (
        has_email(envelope.target)
        and (fault := email_fault(own_tenant(scope), outside.emails_per_day)) is not None
    ):
        faults.append(FieldError(f"{prefix}target", fault))
    for field, url in urls_of(envelope.target):
        try:
            outside.check_url(url)
        except InvalidInput as error:
            name = f"{prefix}target.{field}"
            faults += [FieldError(name, field_error.message) for field_error in error.errors]
    if callback_target(envelope) is not None and outside.public_url() is None:
        faults.append(FieldError(f"{prefix}target.completion", NEEDS_PUBLIC_URL))
    return faults


def seal_secrets(
    scope: Scope,
    schedule_id: UUID,
    definition: Definition,
    outside: OutsideRules,
    before: Definition | None = None,
) -> Definition:
    """The definition with the secrets of its target encrypted. Those that are given masked are
    kept from the definition `before`. Raises `InvalidInput`."""
    if definition.queue != DELIVERIES_QUEUE:
        return definition
    tenant = own_tenant(scope)
    row = f"schedule-{schedule_id}"
    box = outside.with_one_box().box

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
    return any([await has_queue(store, SYSTEM, queue) for queue in queues])


async def ensure_deliveries(store: Store, schedules: Iterable[Definition] | None = None) -> None:
    """Creates the hidden queue if one of the schedules needs it: for its target, or for a result
    whose receiver is deleted."""
    if schedules is not None and not any(map(_needs_deliveries, schedules)):
        return
    await ensure_hidden_queue(store, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)


def _needs_deliveries(definition: Definition) -> bool:
    has_receiver = definition.on_success is not None or definition.on_failure is not None
    return has_receiver or definition.queue == DELIVERIES_QUEUE
