"""Checkers of the scheduling promises: each reads a recorded history and reports violations.

A history is what was observed from outside: all messages that were ever stored for a slot, the
firing records, every transfer of a shard, and what is left at the end. A checker returns sentences
that describe violations; none means the promise was kept. Checkers know nothing about how a leader
works, so a wrong leader cannot fool them.

| checker | the promise |
|---|---|
| `uncovered_slots` | every due slot is one message or in one record |
| `duplicate_slots` | a slot becomes at most one message, ever |
| `slots_outside_rule` | only slots of the rule become messages |
| `decreasing_tokens` | the tokens of a shard only rise |
| `shards_taken_from_live_nodes` | a shard is taken only from a dead node, which stays dead |
| `stale_writes` | nothing is planned under a token that is not the highest |
| `early_firings` | nothing runs before it is due |
| `lost_messages` | after a drain every message has an outcome |
| `not_recovered` | after the fault nothing stays overdue, and every shard has a leader |

A message that was withdrawn before it was claimed (because its schedule was changed) counts as if
it had never been stored; its slot must be accounted for anyway.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.when import Rule, has_days_off, ignoring_days_off, slots_between

SHOWN_MAX = 20
"""Maximum number of violations of a kind that are listed."""

_ENDED = frozenset(
    {FiringStatus.SUCCEEDED, FiringStatus.PARTIAL, FiringStatus.DEAD, FiringStatus.EXPIRED}
)


class WatchedSchedule(Struct, frozen=True, kw_only=True):
    """A schedule whose slots are known: those of its rule in `(since, until]`. A schedule that was
    changed is several of these, one per period."""

    id: UUID
    rule: Rule
    since: datetime
    until: datetime

    @property
    def slots(self) -> list[datetime]:
        return slots_between(self.rule, self.since, self.until)

    @property
    def days_off(self) -> list[datetime]:
        """The slots that the rule excludes because of their day."""
        if not has_days_off(self.rule) or self.rule.max_firings is not None:
            return []
        every, fires = (
            slots_between(ignoring_days_off(self.rule), self.since, self.until),
            {*self.slots},
        )
        return [slot for slot in every if slot not in fires]


class StoredSlot(Struct, frozen=True, kw_only=True):
    """A message that was stored for a slot. `token` is the token of its shard at that moment;
    `order` is its position among all recorded events."""

    order: int
    schedule_id: UUID
    slot: datetime
    run: int
    message_id: UUID
    shard: int
    token: int


class HandOver(Struct, frozen=True, kw_only=True):
    """A node took a shard under a token. `former` led it until then and did not give it up."""

    order: int
    shard: int
    token: int
    node: UUID | None = None
    former: UUID | None = None


class LeaseRenewal(Struct, frozen=True, kw_only=True):
    """A node's lease was renewed."""

    order: int
    node: UUID


class PlanEntry(Struct, frozen=True, kw_only=True):
    """A leader's log entry: it plans a slot under a token, or (`is_done`) the plan is stored."""

    schedule_id: UUID
    slot: datetime
    token: int
    is_done: bool = False


class History(Struct, frozen=True, kw_only=True):
    """All recorded events. `withdrawn` are messages withdrawn before a claim, `open_messages` those
    still stored, `overdue` the schedules that were not planned in time, and `changed` the schedules
    that were changed by hand, which also plans their slots up to then."""

    schedules: Sequence[WatchedSchedule] = ()
    stored: Sequence[StoredSlot] = ()
    withdrawn: frozenset[UUID] = frozenset()
    handed_over: Sequence[HandOver] = ()
    renewed: Sequence[LeaseRenewal] = ()
    planned: Sequence[PlanEntry] = ()
    firings: Sequence[FiringRecord] = ()
    open_messages: frozenset[UUID] = frozenset()
    overdue: Sequence[UUID] = ()
    changed: frozenset[UUID] = frozenset()
    shards_without_leader: Sequence[int] = ()

    @property
    def kept(self) -> Sequence[StoredSlot]:
        """The messages that were not withdrawn."""
        return [slot for slot in self.stored if slot.message_id not in self.withdrawn]


def find_violations(history: History) -> tuple[str, ...]:
    """All violations that the checkers find."""
    found: list[str] = []
    for checker in CHECKERS:
        faults = list(checker(history))
        found += faults[:SHOWN_MAX]
        if len(faults) > SHOWN_MAX:
            found.append(f"{checker.__name__}: and {len(faults) - SHOWN_MAX} more")
    return tuple(found)


def uncovered_slots(history: History) -> Iterator[str]:
    """Each slot is a message, or in a record that says why not; not both."""
    messages = Counter((slot.schedule_id, slot.slot) for slot in history.kept if not slot.run)
    messages.update(_expired(history) - messages.keys())
    skipped = _skipped(history.firings)
    long_runs: dict[UUID, list[FiringRecord]] = defaultdict(list)
    for firing in history.firings:
        if firing.status is FiringStatus.SKIPPED and firing.last_slot is not None:
            long_runs[firing.schedule_id].append(firing)
    for schedule in history.schedules:
        runs = skipped[schedule.id]
        for slot in schedule.slots:
            covering = sum(1 for first, last in runs if first <= slot <= last)
            found = messages[schedule.id, slot] + covering
            if found == 0:
                yield f"slot {slot.isoformat()} of {schedule.id} is not accounted for"
            elif covering and messages[schedule.id, slot]:
                yield f"slot {slot.isoformat()} of {schedule.id} fired and was skipped"
            elif covering > 1:
                yield f"slot {slot.isoformat()} of {schedule.id} is in {covering} records"
        yield from _miscounted(schedule, long_runs[schedule.id])
        for slot in schedule.days_off:
            covering = sum(1 for first, last in runs if first <= slot <= last)
            if covering != 1:
                yield f"day off {slot.isoformat()} of {schedule.id} is in {covering} records"


def _miscounted(schedule: WatchedSchedule, runs: Sequence[FiringRecord]) -> Iterator[str]:
    """A record of a run of skipped slots has the right count."""
    endless = structs.replace(ignoring_days_off(schedule.rule), max_firings=None, end_at=None)
    for firing in runs:
        if firing.last_slot is None:
            continue
        last = min(firing.last_slot, schedule.until)
        real = len(slots_between(endless, firing.slot, last)) + 1
        if last == firing.last_slot and real != firing.count:
            yield (
                f"a run of {schedule.id} from {firing.slot.isoformat()} is recorded with "
                f"{firing.count} slots and has {real}"
            )


def duplicate_slots(history: History) -> Iterator[str]:
    """A slot becomes at most one message, ever."""
    seen = Counter((slot.schedule_id, slot.slot, slot.run) for slot in history.kept)
    for (schedule_id, slot, run), times in seen.items():
        if times > 1:
            yield f"slot {slot.isoformat()} (run {run}) of {schedule_id} became {times} messages"


def slots_outside_rule(history: History) -> Iterator[str]:
    """Only slots of the schedule's rule become messages."""
    periods: dict[UUID, list[WatchedSchedule]] = defaultdict(list)
    own: set[tuple[UUID, datetime]] = set()
    for schedule in history.schedules:
        periods[schedule.id].append(schedule)
        own.update((schedule.id, slot) for slot in schedule.slots)
    for slot in history.kept:
        is_watched = any(one.since < slot.slot <= one.until for one in periods[slot.schedule_id])
        if is_watched and not slot.run and (slot.schedule_id, slot.slot) not in own:
            yield f"{slot.slot.isoformat()} became a message but is no slot of {slot.schedule_id}"


def decreasing_tokens(history: History) -> Iterator[str]:
    """The tokens of a shard only rise."""
    highest: dict[int, int] = {}
    for hand_over in sorted(history.handed_over, key=lambda hand_over: hand_over.order):
        before = highest.get(hand_over.shard)
        if before is not None and hand_over.token <= before:
            yield f"shard {hand_over.shard} got token {hand_over.token} after {before}"
        highest[hand_over.shard] = max(hand_over.token, before or 0)


def shards_taken_from_live_nodes(history: History) -> Iterator[str]:
    """A shard is taken only from a node whose lease has expired, and that node stays dead."""
    lost_by: dict[UUID, HandOver] = {}
    events: list[HandOver | LeaseRenewal] = [*history.handed_over, *history.renewed]
    for event in sorted(events, key=lambda event: event.order):
        former = event.former if isinstance(event, HandOver) else None
        if isinstance(event, HandOver) and former is not None and former != event.node:
            lost_by.setdefault(former, event)
        if event.node in lost_by:
            taken = lost_by.pop(event.node)
            yield f"node {event.node} is alive after shard {taken.shard} was taken from it"


def stale_writes(history: History) -> Iterator[str]:
    """Every message was planned under the highest token at that moment.

    The leader whose log says that the plan is done wrote the message. Without such an entry, one of
    the leaders that attempted it did, or somebody who changed the schedule. If a slot was withdrawn
    and planned again, it is unknown which leader wrote which message.
    """
    times = Counter((slot.schedule_id, slot.slot) for slot in history.stored)
    attempted: dict[tuple[UUID, datetime], set[int]] = defaultdict(set)
    done: dict[tuple[UUID, datetime], set[int]] = defaultdict(set)
    for plan in history.planned:
        (done if plan.is_done else attempted)[plan.schedule_id, plan.slot].add(plan.token)
    highest: dict[int, int] = defaultdict(int)
    events: list[HandOver | StoredSlot] = [*history.handed_over, *history.stored]
    for event in sorted(events, key=lambda event: event.order):
        if isinstance(event, HandOver):
            highest[event.shard] = max(highest[event.shard], event.token)
            continue
        if event.token < highest[event.shard]:
            yield f"slot {event.slot.isoformat()} of {event.schedule_id} has an old token"
        name = event.schedule_id, event.slot
        known = done.get(name) if times[name] == 1 else None
        if known is None and event.schedule_id not in history.changed:
            known = attempted.get(name)
        if known is not None and event.token not in known and not event.run:
            yield (
                f"slot {event.slot.isoformat()} of {event.schedule_id} was planned under token "
                f"{max(known)} while shard {event.shard} had {event.token}"
            )


def early_firings(history: History) -> Iterator[str]:
    """Nothing runs before it is due."""
    for firing in history.firings:
        if firing.started_at is not None and firing.attempt and firing.started_at < firing.due_at:
            early = (firing.due_at - firing.started_at).total_seconds()
            yield f"slot {firing.slot.isoformat()} of {firing.schedule_id} ran {early} s early"


def lost_messages(history: History) -> Iterator[str]:
    """Every stored message has an outcome or is still stored."""
    ended = {
        (firing.schedule_id, firing.slot, firing.run)
        for firing in history.firings
        if firing.status in _ENDED or _is_skipped_message(firing)
    }
    for slot in history.kept:
        if slot.message_id in history.open_messages:
            continue
        if (slot.schedule_id, slot.slot, slot.run) not in ended:
            yield f"the message of {slot.slot.isoformat()} of {slot.schedule_id} has no outcome"


def not_recovered(history: History) -> Iterator[str]:
    """After the fault every shard is led and no schedule is overdue."""
    for schedule_id in history.overdue:
        yield f"schedule {schedule_id} is overdue and is not planned"
    for shard in history.shards_without_leader:
        yield f"shard {shard} has no leader"


CHECKERS = (
    uncovered_slots,
    duplicate_slots,
    slots_outside_rule,
    decreasing_tokens,
    shards_taken_from_live_nodes,
    stale_writes,
    early_firings,
    lost_messages,
    not_recovered,
)


def _expired(history: History) -> set[tuple[UUID, datetime]]:
    """The slots whose message was removed unclaimed because it expired."""
    gone = {
        (slot.schedule_id, slot.slot)
        for slot in history.stored
        if slot.message_id in history.withdrawn and not slot.run
    }
    return gone & {
        (firing.schedule_id, firing.slot)
        for firing in history.firings
        if firing.status is FiringStatus.EXPIRED and not firing.run
    }


def _is_skipped_message(firing: FiringRecord) -> bool:
    """Whether it records a message claimed too late: only those skips are marked late."""
    return firing.status is FiringStatus.SKIPPED and firing.catch_up


def _skipped(firings: Sequence[FiringRecord]) -> dict[UUID, list[tuple[datetime, datetime]]]:
    """The runs of slots that did not fire and never became a message."""
    runs: dict[UUID, list[tuple[datetime, datetime]]] = defaultdict(list)
    for firing in firings:
        is_skipped = firing.status is FiringStatus.SKIPPED and firing.run == 0
        if is_skipped and not _is_skipped_message(firing):
            runs[firing.schedule_id].append((firing.slot, firing.last_slot or firing.slot))
    return runs
