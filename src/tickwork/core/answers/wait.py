"""Why something waits."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from tickwork.core.queue.wait_estimate import WaitEstimate


class Wait(Struct, frozen=True, kw_only=True):
    """Why something waits: a code for programs, and sentences for people.

    `answer` says what it waits for, `next` what happens then. It has waited since `since`, and goes
    on at `until` at the latest; None if that is open. A waiting message has an `estimate` of when
    it starts.
    """

    kind: str
    id: str
    code: str
    answer: str
    next: str
    since: datetime | None = None
    until: datetime | None = None
    correlation_id: str | None = None
    details: tuple[str, ...] = ()
    estimate: WaitEstimate | None = None
