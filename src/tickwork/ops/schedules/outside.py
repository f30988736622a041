"""Targets outside: which addresses are allowed, whether their receivers can complete firings, and
the queue that their deliveries need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tickwork.core.delivery.callback import callback_target
from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    email_fault,
    has_email,
    read_envelope,
    urls_of,
)
from tickwork.core.model import Scope
from tickwork.core.schedule.model import Definition, NewSchedule
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules.lookup import ensure_hidden_queue
from tickwork.store.contract import Store
from tickwork.store.ids import own_tenant

NEEDS_PUBLIC_URL = (
    'callback needs the setting TICKWORK_PUBLIC_URL: the URL at which receivers reach "tickwork up"'
)

CheckUrl = Callable[[str], None]
"""Raises `InvalidInput` for a URL that may not be requested."""


def _refuse(_: str) -> None:
    raise InvalidInput([FieldError("url", "cannot be used here: webhooks are not set up")])


class OutsideRules(NamedTuple):
    """What an installation allows: the URLs of targets, and callbacks if it has a public URL. The
    settings are read only for targets that need them."""

    check_url: CheckUrl = _refuse
    public_url: Callable[[], str | None] = lambda: None


NO_OUTSIDE = OutsideRules()
"""The rules of a caller that creates no targets outside."""


def check_outside(scope: Scope, schedules: Iterable[NewSchedule], outside: OutsideRules) -> None:
    """Raises `InvalidInput` for targets that are not allowed."""
    faults: list[FieldError] = []
    several = [*schedules]
    for index, each in enumerate(several):
        prefix = f"[{index}]." if len(several) > 1 else ""
        faults += outside_faults(scope, each.definition, outside, prefix)
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
    if has_email(envelope.target) and (fault := email_fault(own_tenant(scope))) is not None:
        faults.append(FieldError(f"{prefix}target", fault))
    for field, url in urls_of(envelope.target):
        try:
            outside.check_url(url)
        except InvalidInput as error:
            name = f"{prefix}target.{field}"
            faults += [FieldError(name, each.message) for each in error.errors]
    if callback_target(envelope) is not None and outside.public_url() is None:
        faults.append(FieldError(f"{prefix}target.completion", NEEDS_PUBLIC_URL))
    return faults


async def ensure_deliveries(store: Store, schedules: Iterable[NewSchedule] | None = None) -> None:
    """Creates the hidden queue if one of the schedules needs it."""
    if schedules is not None and not any(
        each.definition.queue == DELIVERIES_QUEUE for each in schedules
    ):
        return
    await ensure_hidden_queue(store, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)
