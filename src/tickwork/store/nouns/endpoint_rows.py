"""Decodes rows of endpoints, deliveries and attempts."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from tickwork.core.delivery.endpoint import (
    Attempt,
    Endpoint,
    EndpointDelivery,
    EndpointSettings,
    Health,
    PulledProbe,
    status_of,
)
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.model import NewMessage
from tickwork.store.shared.columns import DELIVERY, HEALTH, PUBLISHED, Kind
from tickwork.store.steps import Row

ENDPOINT_KINDS = {
    "failing_since": Kind.TIME,
    "open_until": Kind.TIME,
    "probe_message_id": Kind.ID,
    "probe_back_at": Kind.TIME,
}
"""Columns of an endpoint that are not fields of `Endpoint`."""

_SETTINGS = msgspec.json.Decoder(EndpointSettings)
_SETTINGS_KEPT = 4_096


@lru_cache(_SETTINGS_KEPT)
def read_settings(text: str) -> EndpointSettings:
    """An endpoint's settings. Cached, because every publish reads those of its tenant."""
    return _SETTINGS.decode(text)


def read_endpoint(row: Row) -> Endpoint:
    """A row of `ENDPOINT`."""
    message_id = row["probe_message_id"]
    return Endpoint(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        settings=read_settings(row["settings"]),
        health=Health(**{name: row[name] for name in HEALTH}),
        pulled=None if message_id is None else PulledProbe(message_id, row["probe_back_at"]),
        disabled_at=row["disabled_at"],
        disabled_reason=row["disabled_reason"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def read_delivery(row: Row) -> EndpointDelivery:
    """A row of `DELIVERY`, and whether it is not dead."""
    status = status_of(row["delivered_at"], is_dead=not row["is_alive"])
    return EndpointDelivery(status=status, **{name: row[name] for name in DELIVERY})


def read_published(row: Row) -> NewMessage:
    """A row with the columns of `PUBLISHED` as an event."""
    return NewMessage(**{name: row[name] for name in PUBLISHED})


def published_values(event: NewMessage) -> tuple[object, ...]:
    """The values of `PUBLISHED`."""
    return tuple(getattr(event, name) for name in PUBLISHED)


def read_attempt(row: Row) -> Attempt:
    kind = row["kind"]
    return Attempt(**{**row, "kind": None if kind is None else ErrorKind(kind)})
