"""The contract of a store for schedules. The rules of `contract` apply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.health_facts import ScheduleFacts
from tickwork.core.model import Message, Scope
from tickwork.core.schedule.change import Decision
from tickwork.core.schedule.clock_change import ClockJump, ClockReading, JumpsApplied
from tickwork.core.schedule.firing import FiringRecord, FiringStatus, PlannedSlot
from tickwork.core.schedule.forecast import AlikeSchedules
from tickwork.core.schedule.model import Calendar, NewSchedule, Schedule, ScheduleSelection
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant, ShardState
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.core.schedule.withdraw import WithdrawScope


class Schedules(Protocol):
    """Schedules, and the operations of their leaders.

    Ids are the caller's (UUIDv7). A deleted schedule is found by its id and among the deleted ones,
    but not by name or calendar. The pruner removes it after 30 days.
    """

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        """Stores up to 1,000 schedules, all or none.

        A repeat with the same `idempotency_key` and fingerprint returns the first schedule.
        `Conflict` if the fingerprint differs, the first one was deleted, or a `name` is in use.
        `NotFound` if a target queue does not exist. `TooMany` if the tenant is at its limit or over
        its rate.
        """

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int:
        """Stores any number of schedules in chunks, each all or none, and returns the number
        stored. They have no `idempotency_key`; a schedule whose id exists is not stored again.

        `TooMany`, with nothing stored, if the tenant has a rate limit and there are more than it
        allows in a second.
        """

    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        """Returns one schedule, even a deleted one."""

    async def find(self, scope: Scope, name: str) -> Schedule | None:
        """Returns the schedule with a name, unless it is deleted."""

    async def of_keys(self, scope: Scope, keys: Sequence[str]) -> tuple[Schedule, ...]:
        """Returns the schedules that were created with these idempotency keys, even deleted
        ones."""

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        """Returns the selected schedules in order. By name, those without a name come last. In the
        system scope they are grouped by tenant, except by `next_due_at`: soonest first."""

    async def alike(
        self,
        scope: Scope,
        limit: int,
        *,
        since: datetime,
        until: datetime,
        after: tuple[str, UUID] | None = None,
    ) -> tuple[AlikeSchedules, ...]:
        """Returns active schedules that are due before `until` or whose last slot is after `since`,
        after a given tenant and id. Alike ones of up to `limit` schedules are counted together; the
        last of these is that of the last answer. Their rules lack the days of calendars."""

    async def troubled(self, scope: Scope, limit: int) -> tuple[ScheduleFacts, ...]:
        """Returns schedules that are parked, or active and failed at their last slot, by id."""

    async def count(self, scope: Scope) -> int:
        """Returns how many schedules of the tenant may still fire, from a counter."""

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        *,
        under: Grant | None = None,
    ) -> Schedule:
        """Withdraws planned slots, calls `decide`, and writes its decision, in one transaction.
        `decide` must be pure and may be called again. If a slot is due and its overlap policy
        depends on it, `decide` gets the number of `unfinished` firings.

        Fires become messages under the old definition; skips are recorded. `NotFound` for a deleted
        schedule. A leader changes a schedule `under` its grant: if the shard has another leader by
        now, nothing changes.
        """

    async def messages(
        self, scope: Scope, schedule_id: UUID, limit: int, *, since: datetime | None = None
    ) -> tuple[Message, ...]:
        """Returns the stored messages of a schedule by slot and run, of the slots from `since`
        on."""

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[DueSchedule, ...]:
        """Returns the active schedules of these shards that a leader must look at now, soonest
        first; system only."""

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[WaitingSchedule, ...]:
        """Returns the active schedules of a shard that have a next slot, by `look_at` and id, after
        a given position; system only. A schedule that advances during the listing may be
        returned twice."""

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        """Returns when a leader must next look at a schedule of these shards; system only."""

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        """Carries out plans: messages, records, and the new state of each schedule; system only.

        A plan is applied only if its shard still has the granted token and its schedule still has
        the version and next slot that the plan was made from. Both are locked until the commit.
        Other plans change nothing. Messages are copied to subscribers, as those of a send; a copy
        becomes visible with its slot and is withdrawn with it unless a worker has claimed it.
        """

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]:
        """For each tenant, schedule and slot: counts the later slots that are due (ready, claimed
        or handled), and how many of them were missed, up to about 1,000; system only.

        A slot is missed if it is a catch-up, or would be if it were claimed now. Extra runs and
        skipped slots do not count.
        """

    async def sweep(self, scope: Scope, limit: int) -> int:
        """Sets the next slot of schedules that wait for the end of a run whose message is gone
        (purged, discarded, expired), completes those whose last run is gone, and returns their
        number; system only."""


class Calendars(Protocol):
    """Days off by name, within a tenant; in the system scope those of `default`."""

    async def put(self, scope: Scope, name: str, days: Sequence[date]) -> Calendar:
        """Creates a calendar or replaces its days; the same days are no change. The caller
        recomputes the schedules that use it."""

    async def get(self, scope: Scope, name: str) -> Calendar:
        """Returns one calendar."""

    async def list(self, scope: Scope) -> tuple[Calendar, ...]:
        """Returns the calendars by name."""

    async def delete(self, scope: Scope, name: str) -> None:
        """Deletes a calendar; `Conflict` if a schedule that is not deleted uses it."""


class Shards(Protocol):
    """Shards of schedules and their leaders; system only."""

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        """Gives up shards beyond the node's fair share, takes shards without a live leader up to it
        (`core.schedule.shards`), and returns the grants of the node. A shard that is taken gets a
        token higher than all before, including those of a primary that this database replaced; so
        does a shard that the node led there and still leads. A node without the scheduler role gets
        none. `NodeExpired` if its lease has expired."""

    async def give_up(self, scope: Scope, node_id: UUID) -> int:
        """Gives up all shards of the node and its scheduler role, and returns their number. The
        other schedulers share all shards; the node may do other work."""

    async def come_back(self, scope: Scope, node_id: UUID) -> None:
        """Gives the node the scheduler role, and with it a share, even after `give_up`.
        `NodeExpired` if its lease has expired."""

    async def behind(self, scope: Scope, before: datetime) -> tuple[tuple[int, datetime], ...]:
        """Returns the shards, with or without a leader, that have a slot which was due before an
        instant and is not planned, each with the time since when it waits."""

    async def note_zones(self, scope: Scope, grants: Sequence[Grant], tzdata: str) -> int:
        """Records the version of the zone data from which the stored times of these shards were
        computed, and returns the number recorded. Shards with another token are left alone."""

    async def clock(self, scope: Scope) -> ClockReading:
        """Returns the database's time and the known jumps of its clock."""

    async def set_clock(self, scope: Scope, jump: ClockJump, ttl_seconds: float) -> bool:
        """Adds a jump to the known ones. False if their sum is not the one that the jump was seen
        with, or if the time really elapsed: a lease from before a jump ahead is still valid.

        Shards that were taken after a jump ahead, before it was known, count as having followed it.
        Leases follow a jump back if they last longer than one renewed after it could
        (`ttl_seconds`).
        """

    async def follow_clock(self, scope: Scope, grant: Grant) -> JumpsApplied | None:
        """Moves the active intervals of a shard, and their planned slots that were never claimed,
        by the jumps that it has not followed yet; None if the shard has another leader by now.

        Intervals that started after the last jump, or start in the future, stay.
        """

    async def replace(self, scope: Scope, count: int) -> None:
        """Replaces all shards by so many others, without leaders and with higher tokens: schedulers
        take them at their next hold. Plans under the tokens of before are refused. `Conflict` while
        some shards have not followed a jump of the clock."""

    async def drop_old_indexes(self, scope: Scope) -> None:
        """Drops what was needed for another number of shards. A leader that has not noticed the
        change yet finds its schedules slowly."""

    async def list(self, scope: Scope) -> tuple[ShardState, ...]:
        """Returns all shards. The node of a shard is None if it is not alive."""


class Firings(Protocol):
    """The history of slots."""

    async def list(
        self,
        scope: Scope,
        schedule_id: UUID,
        limit: int,
        *,
        status: FiringStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[FiringRecord, ...]:
        """Returns the records of a schedule, newest first, before a given end and id."""

    async def of_slot(
        self, scope: Scope, schedule_id: UUID, at: datetime
    ) -> tuple[FiringRecord, ...]:
        """Returns the records of the slot at an instant and of the run that covers it, oldest
        first."""

    async def succeeded(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        """Returns the slots from `since` to `until`, inclusive, that succeeded at least in part."""

    async def unfinished(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        """Returns the slots from `since` to `until`, inclusive, that have a message in any run."""

    async def last_due(
        self, scope: Scope, schedules: Sequence[Schedule], until: datetime
    ) -> dict[UUID, datetime]:
        """Returns the last slot of each schedule that is due by then or was handled and has a
        message or a record. Extra runs and skipped slots do not count."""

    async def planned(
        self, scope: Scope, now: datetime, limit: int, *, owner: str | None = None
    ) -> tuple[PlannedSlot, ...]:
        """Returns the slots of active schedules that are messages and not due yet, soonest first:
        of all owners that the scope reaches, or of one. Extra runs do not count."""

    async def planned_of(
        self, scope: Scope, schedules: Sequence[Schedule], now: datetime
    ) -> tuple[PlannedSlot, ...]:
        """Returns the slots of these schedules that are messages and not due yet, soonest
        first. Extra runs do not count."""
