"""What must be true of a history, whatever happened meanwhile.

A history is what was seen from outside: the messages that were ever stored for a slot, the records,
every hand-over of a shard, and what is left at the end. Each checker answers with what is wrong,
in words; nothing is the good answer. They know nothing of how a leader works, so that a leader that
is wrong cannot convince them.

| checker | the promise |
|---|---|
| `uncovered_slots` | every due slot is one message or in one record |
| `duplicate_slots` | a slot becomes at most one message, ever |
| `slots_outside_rule` | only slots of the rule become messages |
| `decreasing_tokens` | a shard's tokens only rise |
| `shards_taken_from_live_nodes` | a shard is taken only from the dead, and the dead stay dead |
| `stale_writes` | nothing is planned under a token that is not the highest |
| `early_firings` | nothing runs before it is due |
| `lost_messages` | after a drain every message has an end |
| `not_recovered` | after the fault nothing stays overdue, and every shard has a leader |

A message that was taken back before anybody was handed it (its schedule was changed) counts as if
it had never been; its slot must be accounted for all the same.
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
"""So many faults of a kind are told one by one."""

_ENDED = frozenset(
    {FiringStatus.SUCCEEDED, FiringStatus.PARTIAL, FiringStatus.DEAD, FiringStatus.EXPIRED}
)


class WatchedSchedule(Struct, frozen=True, kw_only=True):
    """A schedule whose slots are known: those of its rule in `(since, until]`. One that was
    changed is several, one for each stretch of time."""

    id: UUID
    rule: Rule
    since: datetime
    until: datetime

    @property
    def slots(self) -> list[datetime]:
        return slots_between(self.rule, self.since, self.until)

    @property
    def days_off(self) -> list[datetime]:
        """The slots that the rule leaves out because of their day, while it goes on."""
        if not has_days_off(self.rule) or self.rule.max_firings is not None:
            return []
        every, fires = (
            slots_between(ignoring_days_off(self.rule), self.since, self.until),
            {*self.slots},
        )
        return [slot for slot in every if slot not in fires]


class StoredSlot(Struct, frozen=True, kw_only=True):
    """A message that was stored for a slot; `token` is the one that its shard had just then, and
    `order` its place among everything that was stored or handed over."""

    order: int
    schedule_id: UUID
    slot: datetime
    run: int
    message_id: UUID
    shard: int
    token: int


class HandOver(Struct, frozen=True, kw_only=True):
    """A node got a shard, under a token; `former` had it until then and did not give it up."""

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
    """What a leader believes: that it plans a slot under a token; or (`is_done`) that it did."""

    schedule_id: UUID
    slot: datetime
    token: int
    is_done: bool = False


class History(Struct, frozen=True, kw_only=True):
    """All that was seen. `withdrawn` are messages that were taken back unseen, `open_messages`
    those that are still there; `overdue` the schedules that nobody looked at in time, and `changed`
    those that somebody changed by hand, which makes what was owed until then."""

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
        """The messages that were not taken back."""
        return [each for each in self.stored if each.message_id not in self.withdrawn]


def find_violations(history: History) -> tuple[str, ...]:
    """Everything that is wrong."""
    found: list[str] = []
    for checker in CHECKERS:
        faults = list(checker(history))
        found += faults[:SHOWN_MAX]
        if len(faults) > SHOWN_MAX:
            found.append(f"{checker.__name__}: and {len(faults) - SHOWN_MAX} more")
    return tuple(found)


def uncovered_slots(history: History) -> Iterator[str]:
    """Each slot is a message or in a record that says why not, and not both."""
    messages = Counter((each.schedule_id, each.slot) for each in history.kept if not each.run)
    messages.update(_expired(history) - messages.keys())
    skipped = _skipped(history.firings)
    long_runs: dict[UUID, list[FiringRecord]] = defaultdict(list)
    for each in history.firings:
        if each.status is FiringStatus.SKIPPED and each.last_slot is not None:
            long_runs[each.schedule_id].append(each)
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
    """A run says how many slots it has."""
    endless = structs.replace(ignoring_days_off(schedule.rule), max_firings=None, end_at=None)
    for firing in runs:
        if firing.last_slot is None:
            continue
        last = min(firing.last_slot, schedule.until)
        real = len(slots_between(endless, firing.slot, last)) + 1
        if last == firing.last_slot and real != firing.count:
            yield (
                f"a run of {schedule.id} from {firing.slot.isoformat()} says {firing.count} "
                f"slots and has {real}"
            )


def duplicate_slots(history: History) -> Iterator[str]:
    """A slot becomes at most one message, ever."""
    seen = Counter((each.schedule_id, each.slot, each.run) for each in history.kept)
    for (schedule_id, slot, run), times in seen.items():
        if times > 1:
            yield f"slot {slot.isoformat()} (run {run}) of {schedule_id} became {times} messages"


def slots_outside_rule(history: History) -> Iterator[str]:
    """What became a message is a slot of the schedule's rule."""
    stretches: dict[UUID, list[WatchedSchedule]] = defaultdict(list)
    own: set[tuple[UUID, datetime]] = set()
    for schedule in history.schedules:
        stretches[schedule.id].append(schedule)
        own.update((schedule.id, slot) for slot in schedule.slots)
    for each in history.kept:
        is_watched = any(one.since < each.slot <= one.until for one in stretches[each.schedule_id])
        if is_watched and not each.run and (each.schedule_id, each.slot) not in own:
            yield f"{each.slot.isoformat()} became a message, and is no slot of {each.schedule_id}"


def decreasing_tokens(history: History) -> Iterator[str]:
    """The tokens of a shard only rise."""
    highest: dict[int, int] = {}
    for each in sorted(history.handed_over, key=lambda hand_over: hand_over.order):
        before = highest.get(each.shard)
        if before is not None and each.token <= before:
            yield f"shard {each.shard} got token {each.token} after {before}"
        highest[each.shard] = max(each.token, before or 0)


def shards_taken_from_live_nodes(history: History) -> Iterator[str]:
    """A shard is taken only from a node whose lease is over, and that stays over."""
    robbed: dict[UUID, HandOver] = {}
    events: list[HandOver | LeaseRenewal] = [*history.handed_over, *history.renewed]
    for each in sorted(events, key=lambda event: event.order):
        former = each.former if isinstance(each, HandOver) else None
        if isinstance(each, HandOver) and former is not None and former != each.node:
            robbed.setdefault(former, each)
        if each.node in robbed:
            taken = robbed.pop(each.node)
            yield f"node {each.node} is alive after shard {taken.shard} was taken from it"


def stale_writes(history: History) -> Iterator[str]:
    """What is stored was planned under the token that was the highest just then.

    Who was told that a plan is done wrote it; if nobody was told, somebody who asked did, or who
    changed the schedule. Of a slot that was taken back and planned again nobody knows which of them
    wrote which message.
    """
    times = Counter((each.schedule_id, each.slot) for each in history.stored)
    asked: dict[tuple[UUID, datetime], set[int]] = defaultdict(set)
    done: dict[tuple[UUID, datetime], set[int]] = defaultdict(set)
    for plan in history.planned:
        (done if plan.is_done else asked)[plan.schedule_id, plan.slot].add(plan.token)
    highest: dict[int, int] = defaultdict(int)
    events: list[HandOver | StoredSlot] = [*history.handed_over, *history.stored]
    for each in sorted(events, key=lambda event: event.order):
        if isinstance(each, HandOver):
            highest[each.shard] = max(highest[each.shard], each.token)
            continue
        if each.token < highest[each.shard]:
            yield f"slot {each.slot.isoformat()} of {each.schedule_id} has an old token"
        name = each.schedule_id, each.slot
        known = done.get(name) if times[name] == 1 else None
        if known is None and each.schedule_id not in history.changed:
            known = asked.get(name)
        if known is not None and each.token not in known and not each.run:
            yield (
                f"slot {each.slot.isoformat()} of {each.schedule_id} was planned under token "
                f"{max(known)} while shard {each.shard} had {each.token}"
            )


def early_firings(history: History) -> Iterator[str]:
    """Nothing runs before it is due."""
    for firing in history.firings:
        if firing.started_at is not None and firing.attempt and firing.started_at < firing.due_at:
            early = (firing.due_at - firing.started_at).total_seconds()
            yield f"slot {firing.slot.isoformat()} of {firing.schedule_id} ran {early} s early"


def lost_messages(history: History) -> Iterator[str]:
    """Every message that was stored ended, or is still there."""
    ended = {
        (each.schedule_id, each.slot, each.run)
        for each in history.firings
        if each.status in _ENDED or _is_skipped_message(each)
    }
    for each in history.kept:
        if each.message_id in history.open_messages:
            continue
        if (each.schedule_id, each.slot, each.run) not in ended:
            yield f"the message of slot {each.slot.isoformat()} of {each.schedule_id} has no end"


def not_recovered(history: History) -> Iterator[str]:
    """After the fault has ended, everything is led and nothing is overdue."""
    for schedule_id in history.overdue:
        yield f"schedule {schedule_id} is overdue, and nobody looks at it"
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
    """The slots whose message went without being handed out, but had an end: it expired."""
    gone = {
        (each.schedule_id, each.slot)
        for each in history.stored
        if each.message_id in history.withdrawn and not each.run
    }
    return gone & {
        (each.schedule_id, each.slot)
        for each in history.firings
        if each.status is FiringStatus.EXPIRED and not each.run
    }


def _is_skipped_message(firing: FiringRecord) -> bool:
    """Whether a message was handed out too late: of skips, only those are marked late."""
    return firing.status is FiringStatus.SKIPPED and firing.catch_up


def _skipped(firings: Sequence[FiringRecord]) -> dict[UUID, list[tuple[datetime, datetime]]]:
    """The runs of slots that did not fire and never were a message."""
    runs: dict[UUID, list[tuple[datetime, datetime]]] = defaultdict(list)
    for each in firings:
        is_skipped = each.status is FiringStatus.SKIPPED and each.run == 0
        if is_skipped and not _is_skipped_message(each):
            runs[each.schedule_id].append((each.slot, each.last_slot or each.slot))
    return runs
