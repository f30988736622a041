"""What is taken back of a schedule when it is changed, and what becomes of that: it is gone back
to, or it is on record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tickwork.core.planning import Skip


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
    record; whoever went back to it would come to that one twice."""

    slot: datetime
    due_at: datetime
    is_passed: bool = False
    run: int = 0


def left_out(withdrawn: Sequence[Withdrawn], reason: str) -> tuple[Skip, ...]:
    """The records of what was taken back for good: one for all that nothing is behind, and one
    for each of the others, because there may be a slot in between that fired."""
    together = sorted(each.slot for each in withdrawn if not (each.is_passed or each.run))
    alone = sorted((each.run, each.slot) for each in withdrawn if each.is_passed or each.run)
    skips = [Skip(slot, slot, 1, reason, run) for run, slot in alone]
    if together:
        skips.append(Skip(together[0], together[-1], len(together), reason))
    return tuple(skips)
