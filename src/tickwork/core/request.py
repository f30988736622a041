"""Requests that name themselves by an idempotency key, so that a repeat is recognised."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

REQUEST_RETENTION_SECONDS = 86_400
"""Seconds to keep a request and its answer."""

REQUEST_SECONDS_MAX = 60
"""Seconds after which a request without an answer counts as abandoned, and a repeat goes on."""

KEY_LENGTH_MAX = 255
"""Maximum number of characters of an idempotency key."""


class StoredRequest(Struct, frozen=True):
    """A request. `is_own`: the caller has to carry it out, with ids made from `seed`; otherwise
    another one has, and `answer` is None while that one is still running."""

    seed: UUID
    fingerprint: bytes
    is_own: bool
    answer: bytes | None = None
