"""Decodes rows of endpoints, deliveries and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

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
from tickwork.store.shared.columns import HEALTH, PUBLISHED
from tickwork.store.sqlite.engine.sql import from_microseconds, to_microseconds
from tickwork.store.sqlite.messages.rows import Row

_SETTINGS = msgspec.json.Decoder(EndpointSettings)
_SETTINGS_KEPT = 4_096


@lru_cache(_SETTINGS_KEPT)
def settings(text: str) -> EndpointSettings:
    """An endpoint's settings. Cached, because every publish reads those of its tenant."""
    return _SETTINGS.decode(text)


def endpoint(row: Row) -> Endpoint:
    """A row of `ENDPOINT`."""
    id_, tenant, name, text, *rest = row
    health, rest = rest[: len(HEALTH)], rest[len(HEALTH) :]
    disabled_at, reason, created_at, updated_at, probe_id, back_at = rest
    failures_in_row, failing_since, open_until, openings, notices = health
    return Endpoint(
        id=UUID(bytes=id_),
        tenant=tenant,
        name=name,
        settings=settings(text),
        health=Health(
            failures_in_row=failures_in_row,
            failing_since=time(failing_since),
            open_until=time(open_until),
            openings=openings,
            notices=notices,
        ),
        pulled=None
        if probe_id is None
        else PulledProbe(UUID(bytes=probe_id), from_microseconds(back_at)),
        disabled_at=time(disabled_at),
        disabled_reason=reason,
        created_at=from_microseconds(created_at),
        updated_at=from_microseconds(updated_at),
    )


def health_values(health: Health) -> tuple[int | None, ...]:
    """The values of `HEALTH`."""
    return (
        health.failures_in_row,
        _microseconds(health.failing_since),
        _microseconds(health.open_until),
        health.openings,
        health.notices,
    )


def delivery(row: Row) -> EndpointDelivery:
    """A row of `DELIVERY`, and whether it is not dead."""
    (
        id_, tenant, endpoint_id, message_id, event_id, type_, attempts, published_at,
        delivered_at, last_attempt_at, last_code, last_error, is_alive,
    ) = row  # fmt: skip
    return EndpointDelivery(
        id=UUID(bytes=id_),
        tenant=tenant,
        endpoint_id=UUID(bytes=endpoint_id),
        message_id=UUID(bytes=message_id),
        event_id=event_id,
        type=type_,
        status=status_of(time(delivered_at), is_dead=is_alive == 0),
        attempts=attempts,
        published_at=from_microseconds(published_at),
        delivered_at=time(delivered_at),
        last_attempt_at=time(last_attempt_at),
        last_code=last_code,
        last_error=last_error,
    )


def published(values: Sequence[Any]) -> NewMessage:
    """The values of `PUBLISHED` as an event."""
    id_, *rest = values
    return NewMessage(id=UUID(bytes=id_), **dict(zip(PUBLISHED[1:], rest, strict=True)))


def published_values(event: NewMessage) -> tuple[Any, ...]:
    """The values of `PUBLISHED`."""
    return (event.id.bytes, *(getattr(event, name) for name in PUBLISHED[1:]))


def attempt(row: Row) -> Attempt:
    number, at, took_seconds, code, kind, error, excerpt = row
    return Attempt(
        number=number,
        at=from_microseconds(at),
        took_seconds=took_seconds,
        code=code,
        kind=None if kind is None else ErrorKind(kind),
        error=error,
        excerpt=excerpt,
    )


def time(microseconds: int | None) -> datetime | None:
    """A time that may be missing."""
    return None if microseconds is None else from_microseconds(microseconds)


def _microseconds(at: datetime | None) -> int | None:
    return None if at is None else to_microseconds(at)
