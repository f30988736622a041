"""The bodies of the requests that act on dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct


class EditRequest(Struct, frozen=True, kw_only=True):
    """The body that a replay sends."""

    body: Any
    content_type: Literal["json", "text", "bytes"] = "json"


class ReplayRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to send again, and how."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None
    canary: Annotated[int, Meta(ge=0, description="So many first; the rest if they succeed.")] = 0
    rate_per_second: Annotated[float | None, Meta(description="Messages a second.")] = None
    canary_timeout_seconds: float = 30.0


class DiscardRequest(Struct, frozen=True, kw_only=True):
    """Which dead letters to discard."""

    ids: list[str] | None = None
    reason: str | None = None
    fingerprint: str | None = None
    type: str | None = None
    no_type: Annotated[bool, Meta(description="Only those without a type.")] = False
    failed_before: Annotated[datetime | None, Meta(description="Or at that time.")] = None
    limit: int | None = None
