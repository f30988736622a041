"""Sessions of the console: a browser that was signed in with an API key.

The browser has a random secret in a cookie. Only its SHA-256 hash is stored, as the id of the
session. A session ends after `SESSION_SECONDS`, and whenever the secret of its key stops working.
"""

from __future__ import annotations

import re
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest

from msgspec import Struct

from tickwork.errors import Forbidden, Unauthorized

SESSION_SECONDS = 12 * 3_600.0
"""Seconds after which a session ends."""

_SECRET = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Session(Struct, frozen=True, kw_only=True):
    """A session. `secret_hash` is that of the key's secret with which it was started."""

    id: bytes
    key_id: str
    secret_hash: bytes
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Session(key_id={self.key_id!r}, expires_at={self.expires_at!r})"


def session_id(secret: str) -> bytes:
    """The id of the session that a cookie names. Raises `Unauthorized` if it cannot be one."""
    if _SECRET.fullmatch(secret) is None:
        raise session_ended()
    return sha256(secret.encode("ascii")).digest()


def csrf_token(secret: str) -> str:
    """What a page of the console sends with each change: other sites cannot read it. It follows
    from the secret, so it is not stored, and says nothing about the secret."""
    return sha256(f"csrf {secret}".encode("ascii")).hexdigest()


def check_csrf(secret: str, given: str | None) -> None:
    """Raises `Forbidden` unless a change came from a page of the console."""
    if given is None or not compare_digest(given.encode(), csrf_token(secret).encode()):
        raise Forbidden("csrf", "X-CSRF-Token: must be the csrf_token of GET /v1/session")


def session_ended() -> Unauthorized:
    """The error for a session that is over, and for one that never was."""
    return Unauthorized("session_ended", "the session has ended; sign in again")
