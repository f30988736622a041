"""The one hash of Tickwork: BLAKE2b, fixed and named, never Python's own.

What is spread or sharded today must land in the same place tomorrow, on every node and in
every version.
"""

from __future__ import annotations

from hashlib import blake2b


def stable_number(text: str) -> int:
    """A stable 64-bit number of a text: BLAKE2b-64 of its UTF-8, big-endian."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
