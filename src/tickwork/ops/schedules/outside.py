"""Targets outside: which addresses are allowed, and the queue that their deliveries need."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    DELIVERIES_SETTINGS,
    read_envelope,
    urls_of,
)
from tickwork.core.schedule.model import Definition, NewSchedule
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.schedules.lookup import ensure_hidden_queue
from tickwork.store.contract import Store

CheckUrl = Callable[[str], None]
"""Raises `InvalidInput` for a URL that may not be requested."""


def refuse_urls(_: str) -> None:
    """The check of a caller that creates no targets outside."""
    raise InvalidInput([FieldError("url", "cannot be used here: webhooks are not set up")])


def check_outside(schedules: Iterable[NewSchedule], check_url: CheckUrl) -> None:
    """Raises `InvalidInput` for targets whose URLs are not allowed."""
    faults: list[FieldError] = []
    several = [*schedules]
    for index, each in enumerate(several):
        prefix = f"[{index}]." if len(several) > 1 else ""
        faults += url_faults(each.definition, check_url, prefix)
    if faults:
        raise InvalidInput(faults)


def url_faults(definition: Definition, check_url: CheckUrl, prefix: str = "") -> list[FieldError]:
    """The faults of the URLs of a definition."""
    if definition.queue != DELIVERIES_QUEUE:
        return []
    faults: list[FieldError] = []
    for field, url in urls_of(read_envelope(definition.body).target):
        try:
            check_url(url)
        except InvalidInput as error:
            name = f"{prefix}target.{field}"
            faults += [FieldError(name, each.message) for each in error.errors]
    return faults


async def ensure_deliveries(store: Store, schedules: Iterable[NewSchedule] | None = None) -> None:
    """Creates the hidden queue if one of the schedules needs it."""
    if schedules is not None and not any(
        each.definition.queue == DELIVERIES_QUEUE for each in schedules
    ):
        return
    await ensure_hidden_queue(store, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)
