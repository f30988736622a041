"""What became of dead letters."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class StopReason(StrEnum):
    """Why a replay stopped early."""

    CANARY_DIED = "canary_died"
    CANARY_TIMEOUT = "canary_timeout"
    BACKLOG_FULL = "backlog_full"


class ReplaySummary(Struct, frozen=True, kw_only=True):
    """The result of a replay; `replayed` includes the canaries."""

    replayed: int = 0
    canaries: int = 0
    canaries_failed: int = 0
    stopped: StopReason | None = None
