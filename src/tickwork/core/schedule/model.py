"""Stored schedules: a rule (when), a target queue and body (what), and policies.

```
            ┌────────── resume ──────────┐
            ▼                            │
  ──▶  active ──── pause, on_dead ──▶ paused
         │ │
         │ └─ the only slot ends dead, or planning fails ──────▶ parked ── resume ──▶ active
         └─── no slot is left, and the last one finished ──────▶ completed
  any ──────── delete ──▶ deleted          (its history stays)
```

`next_slot` is the first slot without a message or record; it may be on an excluded day. `due_at` is
when the next firing slot is due. `look_at` is when a leader must look at the schedule. Every change
of these raises `version`, except planning, which moves `next_slot` itself. A plan is valid only for
the `version` and `next_slot` it was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct, structs

from tickwork.core.message.backoff import Backoff
from tickwork.core.model import ContentType, Scope
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, ResultTarget
from tickwork.core.stable_hash import stable_hash
from tickwork.core.when import Cron, Interval, IntervalMode, MissedPolicy, Once, Rule
from tickwork.errors import Conflict, Forbidden

BUCKETS = 4096
"""Number of hash buckets that schedules are spread over."""

SHARDS = 64
"""Number of shards of a new database. One node leads a shard, which is a range of buckets."""

SHARDS_MAX = 256
"""Maximum number of shards: one statement looks at all of them."""

SCHEDULE_BODY_BYTES_MAX = 128_000
"""Maximum bytes of a schedule's encoded payload."""

SCHEDULES_AT_ONCE_MAX = 1_000
"""Maximum number of schedules created in one call."""

METADATA_BYTES_MAX = 16_000
"""Maximum bytes of a schedule's encoded metadata."""

DELETED_KEPT_SECONDS = FIRINGS_KEPT_SECONDS
"""Seconds that a deleted schedule is kept: as long as its firing records."""

RULES_CACHED_MAX = 8_192
"""Maximum number of cached rules, about 1 KB each. A rule that only one schedule has is read once
per plan, so more would cost memory and save little."""

FIRED_TYPE = "schedule.fired"
"""Type of a slot's message if the target names none."""


class ScheduleStatus(StrEnum):
    """Status of a schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARKED = "parked"
    DELETED = "deleted"


class OverlapPolicy(StrEnum):
    """What to do with a slot while an earlier firing is unfinished."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"

    @property
    def is_decided_when_due(self) -> bool:
        """Whether a slot is fired or skipped only when it is due, not ahead of time."""
        return self in (OverlapPolicy.SKIP, OverlapPolicy.BUFFER_ONE)

    @property
    def is_ordered(self) -> bool:
        """Whether its firings run one after another, as messages with one key."""
        return self in (OverlapPolicy.BUFFER_ONE, OverlapPolicy.BUFFER_ALL)


class OnDead(StrEnum):
    """What a recurring schedule does after a firing ended dead."""

    CONTINUE = "continue"
    PAUSE = "pause"


class Retry(Struct, frozen=True):
    """Retry settings of a schedule's firings. None means the queue's setting."""

    max_attempts: int | None = None
    backoff: Backoff | None = None


class Terms(Struct, frozen=True, omit_defaults=True):
    """Settings of a schedule that its slots' messages carry, for settling them.

    `is_last`: no slot follows. `is_once`: the schedule has only this slot. `delay_seconds`: the
    next slot comes this long after this one finished. `on_success`, `on_failure`: who gets the
    result.
    """

    missed: MissedPolicy = MissedPolicy.FIRE_LATE
    cap: int = 10
    on_dead: OnDead = OnDead.CONTINUE
    retry: Retry | None = None
    is_last: bool = False
    is_once: bool = False
    delay_seconds: int | None = None
    on_success: ResultTarget | None = None
    on_failure: ResultTarget | None = None


DEFAULT_TERMS = Terms()


class Definition(Struct, frozen=True, kw_only=True, gc=False):
    """The user's settings of a schedule.

    It names the calendar; the calendar's days are not stored in its rule.
    """

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
    on_success: ResultTarget | None = None
    on_failure: ResultTarget | None = None

    @property
    def terms(self) -> Terms:
        """The settings that its messages carry."""
        timing = self.rule.timing
        is_delay = isinstance(timing, Interval) and timing.mode is IntervalMode.FIXED_DELAY
        return Terms(
            missed=self.rule.missed.policy,
            cap=self.rule.missed.cap,
            on_dead=self.on_dead,
            retry=self.retry,
            is_once=isinstance(timing, Once),
            delay_seconds=timing.seconds if is_delay and isinstance(timing, Interval) else None,
            on_success=self.on_success,
            on_failure=self.on_failure,
        )


class NewSchedule(Struct, frozen=True, kw_only=True, gc=False):
    """A schedule to be stored, with its first slot computed.

    `idempotency_key` is unique per tenant. `fingerprint` distinguishes a repeated request from a
    different one with the same key.
    """

    id: UUID
    definition: Definition
    next_slot: datetime | None
    due_at: datetime | None
    look_at: datetime | None
    name: str | None = None
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    owner: str | None = None
    idempotency_key: str | None = None
    fingerprint: bytes | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """A stored schedule.

    `fired` counts slots that became messages, `runs` counts extra runs. `last_slot` is the last
    slot that became a message. `unfinished` counts its unfinished messages up to 2, without
    withdrawn ones; it is loaded only for a change decision, and only if the overlap policy needs
    it.
    """

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
    """When its status last changed."""
    owner: str | None = None
    unfinished: int = 0


class ScheduleOrder(StrEnum):
    """Sort order of a list of schedules."""

    NAME = "name"
    CREATED = "created"
    NEXT_DUE = "next_due_at"


class ScheduleSelection(Struct, frozen=True, kw_only=True):
    """Filter, order and cursor of a list of schedules.

    `status` None selects all but deleted ones. A deleted schedule has no name or calendar. `after`
    is the id of the last schedule of the previous page. The order `next_due_at` lists only active
    schedules with a next slot, `before` limits it to those due before an instant, and `due_from` to
    those due from an instant on, on the first page.
    """

    status: ScheduleStatus | None = None
    name: str | None = None
    calendar: str | None = None
    owner: str | None = None
    name_prefix: str | None = None
    metadata: str | None = None
    order: ScheduleOrder = ScheduleOrder.CREATED
    before: datetime | None = None
    due_from: datetime | None = None
    after: UUID | None = None


class Calendar(Struct, frozen=True, kw_only=True):
    """Named days off, shared by the schedules of a tenant."""

    tenant: str
    name: str
    days: tuple[str, ...]
    """ISO dates, sorted."""
    version: int
    updated_at: datetime


def selects_nothing(selection: ScheduleSelection, scope: Scope) -> bool:
    """Whether the filter matches nothing: a deleted schedule has no name and no calendar, and an
    owner has no schedules of others."""
    names_one = selection.name is not None or selection.calendar is not None
    is_foreign = selection.owner is not None and not scope.reaches(selection.owner)
    return (selection.status is ScheduleStatus.DELETED and names_one) or is_foreign


def in_scope(selection: ScheduleSelection, scope: Scope) -> ScheduleSelection:
    """A selection of what a scope reaches."""
    return selection if scope.owner is None else structs.replace(selection, owner=scope.owner)


def the_named(found: Sequence[Schedule]) -> Schedule | None:
    """The schedule that a name means among those that have it, those without an owner first: one
    without an owner, or the only one. `Conflict` if several owners have one of that name."""
    if not found:
        return None
    if len(found) > 1 and found[0].owner is not None:
        raise Conflict(f"several owners have a schedule {found[0].name}; use its id")
    return found[0]


def check_owner(scope: Scope, new: Iterable[NewSchedule]) -> None:
    """Raises `Forbidden` if a scope with an owner creates schedules of others."""
    if not all(scope.reaches(schedule.owner) for schedule in new):
        raise Forbidden(
            "owner_bound", f"owner: must be {scope.owner}, as that of your key or token"
        )


def bucket_of(schedule_id: UUID) -> int:
    """Hash bucket of a schedule: the same on every node and in every version."""
    return stable_hash(str(schedule_id)) % BUCKETS


def shard_of(bucket: int, shards: int = SHARDS) -> int:
    """Shard of a bucket, if there are so many shards."""
    return bucket // (BUCKETS // shards)


def ordering_key(schedule_id: UUID) -> str:
    """Message key of firings that run one after another."""
    return f"schedule:{schedule_id}"


def rule_text(rule: Rule) -> str:
    """Encodes a rule for storage.

    Schedules with equal rules get equal texts, so caches keyed by the text are shared. The seed is
    omitted if nothing depends on it.
    """
    plain = structs.replace(rule, holidays=frozenset())
    if not depends_on_id(rule):
        plain = structs.replace(plain, seed="")
    return _encode(plain)


def read_rule(text: str, schedule_id: UUID, shift: int = 0) -> Rule:
    """Decodes a stored rule, without its calendar's days.

    `shift` moves an interval's anchor by microseconds, to follow a clock that was set.
    """
    rule = _decode(text)
    if shift:
        rule = structs.replace(rule, anchor=rule.anchor + timedelta(microseconds=shift))
    return rule if not depends_on_id(rule) else structs.replace(rule, seed=str(schedule_id))


@lru_cache(maxsize=4096)
def terms_text(terms: Terms) -> str | None:
    """Encodes terms for storage; None for the default."""
    return None if terms == DEFAULT_TERMS else msgspec.json.encode(terms).decode()


@lru_cache(maxsize=4096)
def read_terms(text: str | None) -> Terms:
    """Decodes stored terms."""
    return DEFAULT_TERMS if text is None else msgspec.json.decode(text, type=Terms)


class StoredTexts(NamedTuple):
    """Encoded parts of a definition: its rule, terms and retry settings."""

    rule: str
    terms: str | None
    retry: str | None


def stored_texts(definition: Definition) -> StoredTexts:
    """Encodes a definition for storage."""
    retry = None if definition.retry is None else msgspec.json.encode(definition.retry).decode()
    return StoredTexts(rule_text(definition.rule), terms_text(definition.terms), retry)


def depends_on_id(rule: Rule) -> bool:
    """Whether its slots or their due times depend on the schedule's id (`H`, jitter, window)."""
    hashed = isinstance(rule.timing, Cron) and "H" in rule.timing.expr.upper()
    return bool(rule.jitter_seconds or rule.fire_window_seconds or hashed)


@lru_cache(maxsize=RULES_CACHED_MAX)
def _encode(rule: Rule) -> str:
    return msgspec.json.encode(rule, order="sorted").decode()


@lru_cache(maxsize=RULES_CACHED_MAX)
def _decode(text: str) -> Rule:
    return msgspec.json.decode(text, type=Rule)
