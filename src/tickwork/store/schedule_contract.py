"""What a store does for schedules; the rules of `contract` hold here, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.model import Message, Scope
from tickwork.core.schedule.change import Decision
from tickwork.core.schedule.clock_change import ClockJump, ClockReading, JumpsApplied
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.schedule.model import Calendar, NewSchedule, Schedule, ScheduleSelection
from tickwork.core.schedule.plan import DueSchedule, Plan, PlanResult
from tickwork.core.schedule.shards import Grant, ShardState
from tickwork.core.schedule.slot_outcome import LaterSlots
from tickwork.core.schedule.tzdata_change import WaitingSchedule
from tickwork.core.schedule.withdraw import WithdrawScope


class Schedules(Protocol):
    """Schedules, and what their leaders do with them.

    Their ids are the caller's (UUIDv7). What is deleted is found by its id, and among the deleted;
    by its name or its calendar it is not found any more. 30 days later the pruner takes it away.
    """

    async def create(self, scope: Scope, new: Sequence[NewSchedule]) -> tuple[Schedule, ...]:
        """Stores up to 1,000 schedules, all or none.

        A repeat under the same `idempotency_key` and with the same fingerprint is the first one;
        with another fingerprint, or if the first one was deleted, `Conflict`, as is a `name` that
        is in use. `NotFound` if a target queue is not there, `TooMany` if the tenant may not have
        so many, or not so fast.
        """

    async def create_bulk(self, scope: Scope, new: Iterable[NewSchedule]) -> int:
        """Stores any number in pieces, each all or none; says how many it stored. They have no
        `idempotency_key`; what is there already under its id is not stored again.

        `TooMany` at once, with nothing stored, if the tenant has a rate and there are more than it
        allows in a second.
        """

    async def get(self, scope: Scope, schedule_id: UUID) -> Schedule:
        """One schedule, also a deleted one."""

    async def find(self, scope: Scope, name: str) -> Schedule | None:
        """The schedule of a name, if there is one that is not deleted."""

    async def of_keys(self, scope: Scope, keys: Sequence[str]) -> tuple[Schedule, ...]:
        """The schedules that were made under these idempotency keys, also the deleted ones."""

    async def list(
        self, scope: Scope, selection: ScheduleSelection, limit: int
    ) -> tuple[Schedule, ...]:
        """The schedules that are selected, in order; by name, those without one come last. In the
        system scope they come tenant by tenant, but by `next_due_at` soonest first."""

    async def change(
        self,
        scope: Scope,
        schedule_id: UUID,
        withdraw: WithdrawScope,
        decide: Decision,
        *,
        under: Grant | None = None,
    ) -> Schedule:
        """Takes back planned slots, asks `decide` how the schedule shall stand, and makes it so,
        in one transaction; `decide` must be pure, and may be asked again. Where a slot is due
        whose overlap policy asks, it is told how many firings are `unfinished`.

        The fires become messages under the definition as it was, the skips are recorded.
        `NotFound` for a deleted schedule. What a leader changes it changes `under` its grant: if
        that is not the shard's any more, nothing changes.
        """

    async def messages(
        self, scope: Scope, schedule_id: UUID, limit: int, *, since: datetime | None = None
    ) -> tuple[Message, ...]:
        """Its messages that are there, by slot and run; those of the slots from `since` on."""

    async def due(self, scope: Scope, shards: Sequence[int], limit: int) -> tuple[DueSchedule, ...]:
        """Active schedules of these shards that have to be looked at now, soonest first; system
        only."""

    async def of_shard(
        self, scope: Scope, shard: int, limit: int, *, after: tuple[datetime, UUID] | None = None
    ) -> tuple[WaitingSchedule, ...]:
        """Active schedules of a shard that have a next slot, by `look_at` and id, from behind one's
        on; system only. One that moves on meanwhile may come twice."""

    async def next_look_at(self, scope: Scope, shards: Sequence[int]) -> datetime | None:
        """When the next schedule of these shards has to be looked at; system only."""

    async def plan(
        self, scope: Scope, grants: Sequence[Grant], plans: Sequence[Plan]
    ) -> PlanResult:
        """Carries out plans: messages, records, and how each schedule stands then; system only.

        A plan counts only if its shard's token is still the granted one and its schedule still
        has the version and next slot that it was made from; both are held until the commit. The
        others change nothing.
        """

    async def newer_due(
        self, scope: Scope, slots: Sequence[tuple[str, UUID, datetime]]
    ) -> tuple[LaterSlots, ...]:
        """For each tenant, schedule and slot: how many later slots of it are due, whether they
        wait, are claimed, or were handled already, and how many of these were missed, counted up
        to 1,000 or so; system only.

        Missed is what is a catch-up, or would be if it were claimed now. Extra runs do not count,
        nor what was skipped.
        """

    async def sweep(self, scope: Scope, limit: int) -> int:
        """Sets the next slot of schedules that wait for the end of a run that is not there any
        more (purged, discarded, expired), and completes those whose last one is gone; says how
        many; system only."""


class Calendars(Protocol):
    """Days off by name, within a tenant; in the system scope those of `default`."""

    async def put(self, scope: Scope, name: str, days: Sequence[date]) -> Calendar:
        """Creates a calendar or replaces its days; the same days are no change. Schedules that
        use it are not touched: whoever calls computes them anew."""

    async def get(self, scope: Scope, name: str) -> Calendar:
        """One calendar."""

    async def list(self, scope: Scope) -> tuple[Calendar, ...]:
        """The calendars by name."""

    async def delete(self, scope: Scope, name: str) -> None:
        """Removes it; `Conflict` if a schedule that is not deleted uses it."""


class Shards(Protocol):
    """Who leads which part of the schedules; the system's."""

    async def hold(self, scope: Scope, node_id: UUID) -> tuple[Grant, ...]:
        """Gives up what is beyond the node's share, takes what nobody alive holds up to it
        (`core.sharing`), and says what it leads now. A shard that is taken gets a token that
        is higher than every one before, also those of a primary that this database replaced; so
        does one that the node led there and leads still. Who is no scheduler leads nothing.
        `NodeExpired` if the node's lease ran out."""

    async def give_up(self, scope: Scope, node_id: UUID) -> int:
        """The node leads nothing any more; how many shards that were. Nor is it a scheduler any
        more, while it may go on with other work: the others share out all shards among them."""

    async def come_back(self, scope: Scope, node_id: UUID) -> None:
        """The node is a scheduler, and has a share: also one that gave up. `NodeExpired` if its
        lease ran out."""

    async def behind(self, scope: Scope, before: datetime) -> tuple[tuple[int, datetime], ...]:
        """The shards, also those that nobody leads, whose first schedule should have been looked at
        before an instant; each with when that was."""

    async def note_zones(self, scope: Scope, grants: Sequence[Grant], tzdata: str) -> int:
        """Notes that the stored times of these shards may be from this version of the zone data,
        and from none before it; how many that were. Those whose token is another by now are left
        alone."""

    async def clock(self, scope: Scope) -> ClockReading:
        """The database's time, and the jumps of it that are known."""

    async def set_clock(self, scope: Scope, jump: ClockJump, ttl_seconds: float) -> bool:
        """Adds a jump to those that are known; False if the sum of them is not the one that the
        jump was seen with, or if time did pass: a lease that began before a jump ahead lives.

        Shards that were taken after a jump ahead, before it was known, have followed it: whoever
        took them went on in the new time. The leases of nodes follow a jump back, those that last
        for longer than any that was renewed after it may (`ttl_seconds`)."""

    async def follow_clock(self, scope: Scope, grant: Grant) -> JumpsApplied | None:
        """Moves the active intervals of a shard by the jumps that it has not followed yet, and with
        them what is planned and was never handed out, slots and all; None if the shard is another's
        by now.

        What began after the last jump, and what begins at a time that had not come, stays."""

    async def list(self, scope: Scope) -> tuple[ShardState, ...]:
        """All shards; the node of a holding is None if it is not alive."""


class Firings(Protocol):
    """What became of slots."""

    async def list(
        self,
        scope: Scope,
        schedule_id: UUID,
        limit: int,
        *,
        status: FiringStatus | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> tuple[FiringRecord, ...]:
        """The records of a schedule, newest first, from before a record's end and id on."""

    async def of_slot(
        self, scope: Scope, schedule_id: UUID, at: datetime
    ) -> tuple[FiringRecord, ...]:
        """The records of the slot at an instant, and of the run that covers it, oldest first."""

    async def succeeded(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        """The slots from `since` to `until`, both with it, that succeeded, at least in part."""

    async def unfinished(
        self, scope: Scope, schedule_id: UUID, since: datetime, until: datetime
    ) -> frozenset[datetime]:
        """The slots from `since` to `until`, both with it, that are messages, in whichever run."""

    async def last_due(
        self, scope: Scope, schedules: Sequence[Schedule], until: datetime
    ) -> dict[UUID, datetime]:
        """The last slot of each of these schedules that is due by then or was handled, as far as
        there is a message or a record of it; extra runs do not count, nor what was skipped."""
