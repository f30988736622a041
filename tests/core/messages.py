"""Claimed messages for tests of pure decisions."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from tickwork.core.model import FORMAT_VERSION, ContentType, Message, State

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def claimed_message(**fields: Any) -> Message:
    """A message with its first claim, and the given fields."""
    values: dict[str, Any] = {
        "tenant": "default",
        "id": UUID(int=1),
        "queue_id": UUID(int=2),
        "state": State.CLAIMED,
        "priority": 4,
        "claim": 1,
        "holder": UUID(int=3),
        "claimed_at": NOON,
        "attempts": 0,
        "lost": 0,
        "visible_at": NOON,
        "sent_at": NOON,
        "run": 0,
        "hops": 0,
        "catch_up": False,
        "content_type": ContentType.JSON,
        "format": FORMAT_VERSION,
        "body": b"{}",
    }
    absent = dict.fromkeys(name for name in Message.__struct_fields__ if name not in values)
    return Message(**{**absent, **values, **fields})
