"""Schedules as they are stored: *when* (a rule), *what* (a target queue and a body), policies.

```
            ┌────────── resume ──────────┐
            ▼                            │
  ──▶  active ──── pause, on_dead ──▶ paused
         │ │
         │ └─ a single slot ends dead, or it cannot be planned ──▶ parked ── resume ──▶ active
         └─── no slot is left, and the last one ended ──────────▶ completed
  any ──────── delete ──▶ deleted          (its history stays)
```

`next_slot` is the first slot that is not accounted for, which may be on a day off; `due_at` is when
the next one that fires is due, `look_at` when a leader has to look. Everything that moves one of
them raises `version`, but for planning, which moves `next_slot` itself: a plan is good only for the
pair that it was made from.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.hashing import stable_hash
from tickwork.core.message.backoff import Backoff
from tickwork.core.model import ContentType
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS
from tickwork.core.when import Cron, Interval, IntervalMode, MissedPolicy, Once, Rule

BUCKETS = 4096
SHARDS = 64
BUCKETS_PER_SHARD = BUCKETS // SHARDS

SCHEDULE_BODY_BYTES_MAX = 128_000
SCHEDULES_AT_ONCE_MAX = 1_000
METADATA_BYTES_MAX = 16_000

DELETED_KEPT_SECONDS = FIRINGS_KEPT_SECONDS
"""So long a deleted schedule is kept: as long as there is a firing of it to explain."""

FIRED_TYPE = "schedule.fired"
"""The type of a slot's message where the target names none."""


class ScheduleStatus(StrEnum):
    """How a schedule stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARKED = "parked"
    DELETED = "deleted"


class OverlapPolicy(StrEnum):
    """What happens to a slot while an earlier firing is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"

    @property
    def is_decided_when_due(self) -> bool:
        """Whether a slot can be judged only when it is due."""
        return self in (OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE)

    @property
    def is_ordered(self) -> bool:
        """Whether its firings stand in line, as messages of one key."""
        return self in (OverlapPolicy.BUFFER_ONE, OverlapPolicy.BUFFER_ALL)


class OnDead(StrEnum):
    """What a recurring schedule does when a firing died."""

    CONTINUE = "continue"
    PAUSE = "pause"


class Retry(Struct, frozen=True):
    """How often a firing is tried, and after which waits; what is None is the queue's."""

    max_attempts: int | None = None
    backoff: Backoff | None = None


class Terms(Struct, frozen=True, omit_defaults=True):
    """What a slot's message carries of its schedule, for whoever ends it.

    `is_last`: no slot follows. `is_once`: there never was another. `delay_seconds`: the next slot
    comes so long after this one's end.
    """

    missed: MissedPolicy = MissedPolicy.FIRE_LATE
    cap: int = 10
    on_dead: OnDead = OnDead.CONTINUE
    retry: Retry | None = None
    is_last: bool = False
    is_once: bool = False
    delay_seconds: int | None = None


DEFAULT_TERMS = Terms()


class Definition(Struct, frozen=True, kw_only=True, gc=False):
    """What a user says of a schedule. The rule's holidays are not part of it: the calendar is."""

    rule: Rule
    queue: str
    body: bytes
    type: str = FIRED_TYPE
    content_type: ContentType = ContentType.JSON
    priority: int = 4
    overlap: OverlapPolicy = OverlapPolicy.ALLOW
    on_dead: OnDead = OnDead.CONTINUE
    retry: Retry | None = None
    expires_after_seconds: float | None = None
    metadata: bytes = b"{}"

    @property
    def terms(self) -> Terms:
        """What its messages carry."""
        timing = self.rule.timing
        is_delay = isinstance(timing, Interval) and timing.mode is IntervalMode.FIXED_DELAY
        return Terms(
            missed=self.rule.missed.policy,
            cap=self.rule.missed.cap,
            on_dead=self.on_dead,
            retry=self.retry,
            is_once=isinstance(timing, Once),
            delay_seconds=timing.seconds if is_delay and isinstance(timing, Interval) else None,
        )


class NewSchedule(Struct, frozen=True, kw_only=True, gc=False):
    """A schedule to be stored; its first slot is found already.

    `idempotency_key` names one schedule of a tenant; `fingerprint` tells a repeat from another
    body under the same key.
    """

    id: UUID
    definition: Definition
    next_slot: datetime | None
    due_at: datetime | None
    look_at: datetime | None
    name: str | None = None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    idempotency_key: str | None = None
    fingerprint: bytes | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """A stored schedule. `fired` counts slots that became messages, `runs` the extra ones;
    `last_slot` is the last slot that became a message. `unfinished` is known only to whoever
    decides about a change, where the overlap policy asks: how many of its messages are there, up
    to 2, without those that are taken back."""

    tenant: str
    id: UUID
    name: str | None
    status: ScheduleStatus
    version: int
    definition: Definition
    next_slot: datetime | None
    due_at: datetime | None
    look_at: datetime | None
    last_slot: datetime | None
    fired: int
    runs: int
    last_status: str | None
    last_error: str | None
    error_count: int
    idempotency_key: str | None
    fingerprint: bytes | None
    created_at: datetime
    updated_at: datetime
    changed_at: datetime
    """When its status last changed: since when it is paused, completed, parked or deleted."""
    unfinished: int = 0


class ScheduleOrder(StrEnum):
    """In which order schedules are listed."""

    NAME = "name"
    CREATED = "created"
    NEXT_DUE = "next_due_at"


class ScheduleSelection(Struct, frozen=True, kw_only=True):
    """Which schedules: those of a status (None: all but the deleted), of a name, of a calendar.
    A deleted one has no name and no calendar any more.

    `after` continues behind a schedule; by `next_due_at` only active ones with a next slot are
    listed, `before` an instant if it is given."""

    status: ScheduleStatus | None = None
    name: str | None = None
    calendar: str | None = None
    order: ScheduleOrder = ScheduleOrder.CREATED
    before: datetime | None = None
    after: UUID | None = None


class Calendar(Struct, frozen=True, kw_only=True):
    """Days off under a name, shared by the schedules of a tenant."""

    tenant: str
    name: str
    days: tuple[str, ...]
    """ISO dates, sorted."""
    version: int
    updated_at: datetime


def selects_nothing(selection: ScheduleSelection) -> bool:
    """Whether nothing can be selected: what is deleted has given up its name and its calendar."""
    is_said = selection.name is not None or selection.calendar is not None
    return selection.status is ScheduleStatus.DELETED and is_said


def bucket_of(schedule_id: UUID) -> int:
    """The place of a schedule in the hash space: always the same, on every node."""
    return stable_hash(str(schedule_id)) % BUCKETS


def shard_of(bucket: int) -> int:
    """The shard that a bucket belongs to."""
    return bucket // BUCKETS_PER_SHARD


def ordering_key(schedule_id: UUID) -> str:
    """The key of firings that stand in line."""
    return f"schedule:{schedule_id}"


def rule_text(rule: Rule) -> str:
    """A rule as it is stored. Schedules with the same rule have the same text, so that what was
    found out about one is known of all: the seed stays out where nothing depends on it."""
    plain = structs.replace(rule, holidays=frozenset())
    if not depends_on_id(rule):
        plain = structs.replace(plain, seed="")
    return _encode(plain)


def read_rule(text: str, schedule_id: UUID, shift: int = 0) -> Rule:
    """The rule of a stored text, without its calendar's days. An interval counts from so many
    microseconds later: it followed a clock that was set."""
    rule = _decode(text)
    if shift:
        rule = structs.replace(rule, anchor=rule.anchor + timedelta(microseconds=shift))
    return rule if not depends_on_id(rule) else structs.replace(rule, seed=str(schedule_id))


@lru_cache(maxsize=4096)
def terms_text(terms: Terms) -> str | None:
    """Terms as they are stored; None for the usual ones."""
    return None if terms == DEFAULT_TERMS else msgspec.json.encode(terms).decode()


@lru_cache(maxsize=4096)
def read_terms(text: str | None) -> Terms:
    """The terms of a stored text."""
    return DEFAULT_TERMS if text is None else msgspec.json.decode(text, type=Terms)


class StoredTexts(NamedTuple):
    """What is stored of a definition as text: its rule, its terms and its own retries."""

    rule: str
    terms: str | None
    retry: str | None


def stored_texts(said: Definition) -> StoredTexts:
    """A definition's texts."""
    retry = None if said.retry is None else msgspec.json.encode(said.retry).decode()
    return StoredTexts(rule_text(said.rule), terms_text(said.terms), retry)


def depends_on_id(rule: Rule) -> bool:
    """Whether its slots, or when they are due, depend on which schedule it is."""
    hashed = isinstance(rule.timing, Cron) and "H" in rule.timing.expr.upper()
    return bool(rule.jitter_seconds or rule.fire_window_seconds or hashed)


@lru_cache(maxsize=65_536)
def _encode(rule: Rule) -> str:
    return msgspec.json.encode(rule, order="sorted").decode()


@lru_cache(maxsize=65_536)
def _decode(text: str) -> Rule:
    return msgspec.json.decode(text, type=Rule)
