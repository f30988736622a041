"""Ids: UUIDv7, made by whoever creates a thing, so that a repeat is known as one."""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    """An id that sorts by the time it was made."""
    return uuid7()
