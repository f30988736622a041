"""Records of the audit log: who changed what, before and after, without secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import plain_id
from tickwork.core.fields import TEXT_LENGTH_MAX

AUDIT_RETENTION_SECONDS = 365 * 86_400
"""Seconds that a record is kept."""

STATE_BYTES_MAX = 16_000
"""Maximum bytes of the state before or after a change; a larger one is left out."""

_SECRET_FIELDS = frozenset(
    {"body", "chat_id", "headers", "metadata", "password", "payload", "secret", "text", "token"}
)
_URL_FIELDS = frozenset({"target_url", "url"})


class AuditRecord(Struct, frozen=True, kw_only=True):
    """A change. `before` is None for something new, `after` None for something deleted."""

    id: UUID
    tenant: str
    at: datetime
    actor: str
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class NewAuditRecord(Struct, frozen=True, kw_only=True):
    """A change that is to be recorded; the store sets its tenant and time."""

    id: UUID
    actor: str
    action: str
    subject: str
    before: str | None = None
    after: str | None = None


def new_record(
    record_id: UUID, actor: str, action: str, subject: str, before: object, after: object
) -> NewAuditRecord:
    """A record with the states before and after, without secrets. A state may be a function that
    returns it."""
    return NewAuditRecord(
        id=record_id,
        actor=actor[:TEXT_LENGTH_MAX],
        action=action,
        subject=subject[:TEXT_LENGTH_MAX],
        before=_state_text(before),
        after=_state_text(after),
    )


def _state_text(state: object) -> str | None:
    if callable(state):
        state = state()
    if state is None:
        return None
    shown = without_secrets(msgspec.to_builtins(state, str_keys=True, enc_hook=plain_id))
    encoded = msgspec.json.encode(shown)
    if len(encoded) > STATE_BYTES_MAX:
        return '{"left_out":"too large"}'
    return encoded.decode()


def without_secrets(value: Any) -> Any:
    """A value in which fields that may hold a secret, or the data of users, are `***`. Of a URL
    only the host stays: the path of a chat's webhook is its secret."""
    if isinstance(value, Mapping):
        return {name: _shown(name, field) for name, field in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [without_secrets(part) for part in value]
    return value


def _shown(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _SECRET_FIELDS:
        return "***"
    if name in _URL_FIELDS and isinstance(value, str):
        scheme, _, rest = value.partition("://")
        host = rest.partition("/")[0].rpartition("@")[2]
        return f"{scheme}://{host}/***"
    return without_secrets(value)
