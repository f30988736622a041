"""What is taken back of a schedule when it is changed, and what becomes of that: it is gone back
to, or it is on record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tickwork.core.schedule.next_slot import before, following
from tickwork.core.schedule.plan import Skip
from tickwork.core.when import Interval, Rule, is_single


class Withdraw(StrEnum):
    """Which planned slots are taken back first; never one that was claimed."""

    NOTHING = "nothing"
    COMING = "coming"
    """What is not due yet, but for extra runs and for a slot before one that is on its way or on
    record already: that is not gone back over."""
    UNCLAIMED = "unclaimed"
    """What was never claimed, but for extra runs."""
    ALL = "all"
    """What was never claimed, extra runs too."""


class Withdrawn(NamedTuple):
    """A planned slot that was taken back. `is_passed`: it, or a later one, was claimed or is on
    record; whoever went back to it would come to that one twice. `is_again`: the one on record is
    still to come, because the clock was set back; intervals followed it, and have others now."""

    slot: datetime
    due_at: datetime
    is_passed: bool = False
    run: int = 0
    is_again: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether there may be a slot behind it that is on record, or that it is none itself."""
        return self.is_passed or self.is_again or self.run > 0


class Parted(NamedTuple):
    """What was taken back by a pause: the first slot that is gone back to, if any is, and those
    that never come again."""

    begin: Withdrawn | None
    over: tuple[Withdrawn, ...]


def part(
    rule: Rule, next_slot: datetime | None, withdrawn: Sequence[Withdrawn], now: datetime
) -> Parted:
    """Parts what was taken back from a schedule with this rule. Only slots of this rule are gone
    back to: what is due may be of one that it had before, and nobody would find it again."""
    follows = isinstance(rule.timing, Interval)
    found = sorted(
        each for each in withdrawn if not each.is_passed and (follows or not each.is_again)
    )
    if is_single(rule):
        # No more than one slot is known at a time, and it is the next one, or the last.
        kept = found[-1:] if next_slot is None else []
    else:
        kept, then = [each for each in found if each.due_at > now], next_slot
        if kept:
            then = kept[0].slot
        for each in reversed([each for each in found if each.due_at <= now]):
            if not _leads(rule, each.slot, then):
                break
            kept.append(each)
            then = each.slot
    over = sorted(each for each in withdrawn if each not in kept)
    return Parted(min(kept, default=None), tuple(over))


def _leads(rule: Rule, slot: datetime, then: datetime | None) -> bool:
    """Whether a rule has a slot, and after it the one that is given, if any is."""
    try:
        is_slot = following(rule, before(slot)) == slot
        return is_slot and (then is None or following(rule, slot) == then)
    except (KeyError, ValueError):
        return False  # Nobody here knows its zone.


def left_out(withdrawn: Sequence[Withdrawn], reason: str) -> tuple[Skip, ...]:
    """The records of what was taken back for good: one for all that nothing is behind, and one
    for each of the others, because there may be a slot in between that fired."""
    together = sorted(each.slot for each in withdrawn if not each.is_alone)
    alone = sorted((each.run, each.slot) for each in withdrawn if each.is_alone)
    skips = [Skip(slot, slot, 1, reason, run) for run, slot in alone]
    if together:
        skips.append(Skip(together[0], together[-1], len(together), reason))
    return tuple(skips)
