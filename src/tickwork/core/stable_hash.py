"""Stable hashes: BLAKE2b, the same on every node and in every version.

Sharding and spreading depend on them, so they must never change.
"""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID


def stable_hash(text: str) -> int:
    """A stable 64-bit hash of a text: BLAKE2b-64 of its UTF-8, big-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def derived_id(base: UUID, purpose: str) -> UUID:
    """A deterministic UUID derived from another id and a purpose."""
    return UUID(bytes=derived_bytes(base, purpose))


def derived_bytes(base: UUID, purpose: str) -> bytes:
    """The bytes of a derived id."""
    digest = bytearray(blake2b(purpose.encode(), key=base.bytes, digest_size=16).digest())
    # UUIDv8, set by hand: Python 3.11 to 3.13 cannot create one.
    digest[6] = digest[6] & 0x0F | 0x80
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)
