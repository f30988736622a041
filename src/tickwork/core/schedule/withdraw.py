"""Withdrawn slots: which planned slots a change takes back, and which of them fire later.

A pause or an update removes the messages of slots that no worker has claimed. A removed slot is
either *kept* (the schedule's next slot goes back to it) or *dropped* (recorded as skipped).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tickwork.core.schedule.next_slot import next_slot_or_excluded
from tickwork.core.schedule.plan import Skip
from tickwork.core.when import Interval, Rule, has_one_known_slot, just_before


class WithdrawScope(StrEnum):
    """Which planned slots a change withdraws. A claimed slot is never withdrawn."""

    NOTHING = "nothing"
    NOT_DUE = "not_due"
    """Slots of the rule that are not due yet. A slot stays if a later one was claimed or recorded:
    the schedule cannot go back past that one."""
    UNCLAIMED = "unclaimed"
    """Slots of the rule that were never claimed."""
    ALL = "all"
    """Slots that were never claimed, including those of extra runs."""


class Withdrawn(NamedTuple):
    """A planned slot that was withdrawn.

    `is_superseded`: it or a later slot was claimed or recorded. Going back to it would plan that
    slot twice. `has_future_record`: the recorded slot is in the future because the clock was set
    back. Intervals moved with the clock, so their slots differ from the recorded ones.
    """

    slot: datetime
    due_at: datetime
    is_superseded: bool = False
    run: int = 0
    has_future_record: bool = False

    @property
    def needs_own_record(self) -> bool:
        """Whether it must not share a record: it is an extra run, or a recorded slot may follow."""
        return self.is_superseded or self.has_future_record or self.run > 0


class SplitWithdrawn(NamedTuple):
    """Withdrawn slots of a paused schedule: the first one to keep, if any, and those to drop."""

    first_kept: Withdrawn | None
    dropped: tuple[Withdrawn, ...]


def split_withdrawn(
    rule: Rule, next_slot: datetime | None, withdrawn: Sequence[Withdrawn], now: datetime
) -> SplitWithdrawn:
    """Splits withdrawn slots into those to keep and those to drop.

    Only slots of the current rule are kept. A due slot may come from an earlier rule, and the
    current rule would never produce it again.
    """
    follows_clock = isinstance(rule.timing, Interval)
    candidates = sorted(
        planned_slot
        for planned_slot in withdrawn
        if not planned_slot.is_superseded and (follows_clock or not planned_slot.has_future_record)
    )
    if has_one_known_slot(rule):
        # Only one slot is known at a time: the next one or the last one.
        kept = candidates[-1:] if next_slot is None else []
    else:
        kept = _not_due_or_before(rule, next_slot, candidates, now)
    dropped = sorted(planned_slot for planned_slot in withdrawn if planned_slot not in kept)
    return SplitWithdrawn(min(kept, default=None), tuple(dropped))


def _not_due_or_before(
    rule: Rule, next_slot: datetime | None, candidates: Sequence[Withdrawn], now: datetime
) -> list[Withdrawn]:
    """The slots that are not due, and the due ones without a gap before them."""
    kept = [candidate for candidate in candidates if candidate.due_at > now]
    following = kept[0].slot if kept else next_slot
    for candidate in reversed(candidates):
        if candidate.due_at > now:
            continue
        if not _is_followed_by(rule, candidate.slot, following):
            break
        kept.append(candidate)
        following = candidate.slot
    return kept


def _is_followed_by(rule: Rule, slot: datetime, following: datetime | None) -> bool:
    """Whether the rule has `slot`, and `following` right after it (if given)."""
    try:
        is_slot = next_slot_or_excluded(rule, just_before(slot)) == slot
        return is_slot and (following is None or next_slot_or_excluded(rule, slot) == following)
    except (KeyError, ValueError):
        return False  # The zone data on this machine lacks the rule's zone.


def skips_of_withdrawn(withdrawn: Sequence[Withdrawn], reason: str) -> tuple[Skip, ...]:
    """Records for dropped slots: one per slot that needs its own, and one for all the others.

    Slots share a record only if no slot between them fired.
    """
    together = sorted(
        planned_slot.slot for planned_slot in withdrawn if not planned_slot.needs_own_record
    )
    single = sorted(
        (planned_slot.run, planned_slot.slot)
        for planned_slot in withdrawn
        if planned_slot.needs_own_record
    )
    skips = [Skip(slot, slot, 1, reason, run) for run, slot in single]
    if together:
        skips.append(Skip(together[0], together[-1], len(together), reason))
    return tuple(skips)
