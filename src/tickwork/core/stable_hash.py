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
    digest = blake2b(purpose.encode(), key=base.bytes, digest_size=16).digest()
    # UUIDv8, set by hand: Python 3.11 to 3.13 cannot create one.
    number = int.from_bytes(digest, "big")
    number = number & ~(0xF << 76) | 8 << 76
    return UUID(int=number & ~(0b11 << 62) | 0b10 << 62)
