"""Signs webhooks as Standard Webhooks describes.

A receiver checks `webhook-signature` against `webhook-id`, `webhook-timestamp` and the body. While
a secret rotates there are two signatures, separated by a space, and either one is enough.

| signature | key | who can sign |
|---|---|---|
| `v1` | HMAC-SHA256 with a secret `whsec_…` | sender and receiver |
| `v1a` | Ed25519, `channel/ed25519.py` | the sender; the receiver has the public key |
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import TypeAlias

from tickwork.errors import FieldError, InvalidInput

SECRET_PREFIX = "whsec_"  # noqa: S105  the mark of a secret, not one
TOLERANCE_SECONDS = 300
"""Seconds that the clocks of sender and receiver may differ, with the time on the way."""

V1, V1A = "v1", "v1a"
"""Kinds of signatures that an endpoint may choose."""

Sign: TypeAlias = Callable[[bytes], str]
"""Returns the signature of bytes, with its mark."""

Check: TypeAlias = Callable[[bytes, str], bool]
"""Whether a signature of bytes is valid."""

_DIGITS_MAX = 12
SECRET_BYTES_MIN, SECRET_BYTES_MAX = 24, 64

_KEYS_PREPARED = 256
"""Number of keys whose MAC is copied, which costs half of making one."""


def new_secret(random_bytes: bytes) -> str:
    """A secret in the form that receivers are given."""
    return SECRET_PREFIX + b64encode(random_bytes).decode()


def secret_key(secret: str, *, field: str = "secret") -> bytes:
    """The key of a secret `whsec_…`. Raises `InvalidInput`."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (Base64Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        fault = (
            f"must be {SECRET_PREFIX} and {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes in base64"
        )
        raise InvalidInput([FieldError(field, fault)])
    return key


def is_signed(
    keys: Sequence[bytes | Check], headers: Mapping[str, str], body: bytes, at: datetime
) -> bool:
    """Whether one of the signatures is valid and not older or newer than five minutes."""
    given = {name: headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")}
    timestamp = given["timestamp"]
    if not timestamp.isascii() or not timestamp.isdigit() or len(timestamp) > _DIGITS_MAX:
        return False
    if abs(int(timestamp) - at.timestamp()) > TOLERANCE_SECONDS:
        return False
    if not all(value.isascii() for value in given.values()):
        return False
    signed = b".".join((given["id"].encode(), timestamp.encode(), body))
    return any(_is_valid(key, signed, part) for part in given["signature"].split() for key in keys)


def signature_headers(
    keys: Sequence[bytes | Sign], delivery_id: str, sent_at: datetime, body: bytes
) -> dict[str, str]:
    """The three headers of a signed webhook. The first key is the current one."""
    timestamp = str(int(sent_at.timestamp()))
    signed = b".".join((delivery_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join([_signature(key, signed) for key in keys]),
    }


def _signature(key: bytes | Sign, signed: bytes) -> str:
    if not isinstance(key, bytes):
        return key(signed)
    mac = _empty_mac(key).copy()
    mac.update(signed)
    return f"v1,{b64encode(mac.digest()).decode()}"


@lru_cache(_KEYS_PREPARED)
def _empty_mac(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod=sha256)


def _is_valid(key: bytes | Check, signed: bytes, given: str) -> bool:
    if not isinstance(key, bytes):
        return key(signed, given)
    return hmac.compare_digest(given.encode(), _signature(key, signed).encode())
