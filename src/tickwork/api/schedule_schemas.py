"""Schemas of schedules, their firings and next fires."""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from tickwork.api.schemas import RuleRequest
from tickwork.core.answers.ids import Prefix, optional_id, public_id
from tickwork.core.schedule.firing import ChannelOutcome, FiringRecord, FiringStatus
from tickwork.ops.schedules.complete import CompletedFiring
from tickwork.ops.schedules.next_fires import UpcomingFire
from tickwork.ops.schedules.public import Schedule, ScheduleView
from tickwork.ops.schedules.why import TriggeredRun, Why


class RetryPolicy(Struct, frozen=True, kw_only=True):
    """How often a firing is attempted, and after which delays."""

    max_attempts: int | None = None
    backoff: dict[str, Any] | None = None


class ScheduleRequest(RuleRequest, frozen=True, kw_only=True):
    """A schedule: exactly one timing, a target, and policies."""

    target: Annotated[
        dict[str, Any] | None,
        Meta(
            description='Such as {"type": "queue", "queue": "jobs"} or {"type": "webhook", '
            '"endpoint": "billing"}.'
        ),
    ] = None
    target_url: Annotated[str | None, Meta(description="Short for a target of type webhook.")] = (
        None
    )
    payload: Annotated[Any, Meta(description="What each firing carries.")] = None
    name: str | None = None
    owner: Annotated[str | None, Meta(description="The user inside the tenant.")] = None
    idempotency_key: Annotated[
        str | None, Meta(description="Sent with every firing; unique in the tenant.")
    ] = None
    delivery: Annotated[
        Literal["at_least_once", "at_most_once"] | None,
        Meta(description="Whether a crash may repeat a delivery to a target outside."),
    ] = None
    overlap: Literal["allow", "skip", "buffer_one", "buffer_all"] | None = None
    retry: RetryPolicy | None = None
    on_dead: Literal["continue", "pause"] | None = None
    on_success: Annotated[
        dict[str, Any] | None,
        Meta(
            description=(
                'Who gets the result: {"queue": "results"}, {"endpoint": "billing"} or '
                '{"workflow": "report"}.'
            )
        ),
    ] = None
    on_failure: Annotated[
        dict[str, Any] | None, Meta(description="The same, when no attempt is left.")
    ] = None
    priority: Annotated[int, Meta(ge=0, le=9)] | None = None
    expires_after_seconds: int | None = None
    metadata: dict[str, Any] | None = None


class SchedulePatch(ScheduleRequest, frozen=True, kw_only=True):
    """The fields of a schedule that change; null gives one its default again."""

    timezone: str | None = None
    roll: Literal["skip", "next_day", "previous_day"] | None = None
    jitter_seconds: Annotated[int, Meta(ge=0)] | None = None


_view_of = attrgetter(*ScheduleView.__struct_fields__)


class ScheduleAnswer(ScheduleView, frozen=True, kw_only=True):
    """A schedule. Exactly one timing is set; `cron_equivalent` is the cron expression with the same
    slots, where there is one."""

    id: str

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleAnswer:
        """The answer for a schedule."""
        fields = dict(zip(ScheduleView.__struct_fields__, _view_of(schedule), strict=True))
        return cls(id=public_id(Prefix.SCHEDULE, schedule.id), **fields)


class FiringAnswer(Struct, frozen=True, kw_only=True):
    """An attempt at a slot, a slot that is planned or running, or `count` slots from `slot` to
    `last_slot` that did not fire."""

    id: str
    schedule_id: str
    slot: datetime
    due_at: datetime
    attempt: int
    run: int
    status: FiringStatus
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None
    result_code: int | None
    excerpt: str | None
    channels: tuple[ChannelOutcome, ...]
    catch_up: bool
    count: int
    last_slot: datetime | None

    @classmethod
    def of(cls, firing: FiringRecord) -> FiringAnswer:
        """The answer for a firing."""
        ids = ("id", "schedule_id")
        fields = {name: getattr(firing, name) for name in cls.__struct_fields__ if name not in ids}
        return cls(
            id=public_id(Prefix.FIRING, firing.id),
            schedule_id=public_id(Prefix.SCHEDULE, firing.schedule_id),
            **fields,
        )


class CompletedAnswer(Struct, frozen=True, kw_only=True):
    """A firing that its receiver completed. `status` is that of the attempt: `succeeded`, `failed`
    if it is retried, or `dead`."""

    id: str
    schedule_id: str | None
    slot: datetime | None
    attempt: int
    status: FiringStatus

    @classmethod
    def of(cls, completed: CompletedFiring) -> CompletedAnswer:
        """The answer for a firing."""
        return cls(
            id=public_id(Prefix.FIRING, completed.id),
            schedule_id=optional_id(Prefix.SCHEDULE, completed.schedule_id),
            slot=completed.slot,
            attempt=completed.attempt,
            status=completed.status,
        )


class UpcomingAnswer(Struct, frozen=True, kw_only=True):
    """A slot that will fire; `due_at` is later than `fire_at` in a fire window."""

    schedule_id: str | None
    name: str | None
    fire_at: datetime
    due_at: datetime
    timezone: str
    tenant: str

    @classmethod
    def of(cls, fire: UpcomingFire) -> UpcomingAnswer:
        """The answer for a fire."""
        return cls(
            schedule_id=optional_id(Prefix.SCHEDULE, fire.schedule_id),
            name=fire.name,
            fire_at=fire.fire_at,
            due_at=fire.due_at,
            timezone=fire.timezone,
            tenant=fire.tenant,
        )


class WhyAnswer(Struct, frozen=True, kw_only=True):
    """Why a schedule fired, or did not: a code for programs, a sentence for people, and the facts.
    `fired` is null while it is undecided. `triggered` is the latest triggered run, if no
    instant was given."""

    schedule_id: str
    at: datetime
    is_slot: bool
    fired: bool | None
    code: str
    answer: str
    previous_slot: datetime | None
    next_slot: datetime | None
    firings: tuple[FiringAnswer, ...]
    triggered: TriggeredRun | None = None

    @classmethod
    def of(cls, why: Why) -> WhyAnswer:
        """The answer."""
        return cls(
            schedule_id=public_id(Prefix.SCHEDULE, why.schedule_id),
            at=why.at,
            is_slot=why.is_slot,
            fired=why.fired,
            code=why.code,
            answer=why.answer,
            previous_slot=why.previous_slot,
            next_slot=why.next_slot,
            firings=tuple(FiringAnswer.of(firing) for firing in why.firings),
            triggered=why.triggered,
        )
