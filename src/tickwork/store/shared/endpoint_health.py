"""Logs what recorded attempts changed about an endpoint: its breaker opened or closed, or it is
disabled. One line for each change, written by the node that stored it, after the commit."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tickwork.core.delivery.breaker import HealthChange
from tickwork.core.delivery.endpoint import AttemptRecord, Endpoint
from tickwork.core.fields import iso

_log = logging.getLogger("tickwork")


class EndpointChange(NamedTuple):
    """An endpoint as it was before some attempts, and what they changed."""

    endpoint: Endpoint
    change: HealthChange
    records: Sequence[AttemptRecord]


def log_changes(changes: Iterable[EndpointChange]) -> None:
    """Logs each change that starts or stops deliveries to an endpoint."""
    for endpoint, change, records in changes:
        before, after = endpoint.health, change.health
        name = f"endpoint {endpoint.name} of tenant {endpoint.tenant}"
        errors = [record.attempt.error for record in records if record.attempt.error is not None]
        failures = f"{after.failures_in_row} failures in a row"
        if errors:
            failures += f", the last one: {errors[-1]}"
        fields = {"endpoint": endpoint.name, "tenant": endpoint.tenant}
        if change.disabled_reason is not None:
            _log.warning("%s is disabled: %s", name, change.disabled_reason, extra=fields)
        elif after.open_until is not None and after.openings > before.openings:
            until = iso(after.open_until)
            _log.warning(
                "the breaker of %s is open until %s: %s", name, until, failures, extra=fields
            )
        elif before.openings and not after.openings:
            _log.info("the breaker of %s is closed: an attempt succeeded", name, extra=fields)
