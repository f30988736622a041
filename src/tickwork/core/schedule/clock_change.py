"""A clock that was set, and what intervals make of it.

The slots of an interval are elapsed time: a clock that is set by an hour moves them by an hour, so
that their spacing stays. Everybody who watches the clock may see the jump, and it counts once: all
jumps that are known are one sum, each shard says how much of it its intervals follow, and a jump is
added only by who knows the sum as it was before.

```
   the clock    ──09:00──┤ jump +1 h ├──10:00──10:01──▶
   a slot every 20 s  ▪ ▪ ▪             ▪ ▪ ▪ ▪
```

A slot is an instant, and an identity. After a jump back, the same instants come again, and what
waits for longer than a jump ahead is moved to where other slots were: intervals are moved by a
trifle more, so that none of them is a slot that was there before. For that jumps are counted in
tenths of a second, and a trifle is a thousandth of that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from tickwork.core.when import Interval, Rule

JUMP_SECONDS_MIN = 5.0
"""Less is a clock being adjusted, or a busy machine."""

QUANTUM_MICROSECONDS = 100_000
NUDGE_MICROSECONDS = 100
"""A thousand jumps until an interval is where it was: intervals are whole seconds."""


class ClockReading(Struct, frozen=True):
    """What the database says: its time, and the sum of the jumps that are known, in
    microseconds."""

    now: datetime
    clock: int


class ClockJump(Struct, frozen=True):
    """A jump that was seen: from a time on, and by how much; `known` is the sum of the jumps
    without it."""

    before: datetime
    microseconds: int
    known: int

    @property
    def after(self) -> datetime:
        """No time after it is earlier."""
        return self.before + timedelta(microseconds=self.microseconds)

    @property
    def seconds(self) -> float:
        return self.microseconds / 1_000_000


class JumpsApplied(Struct, frozen=True):
    """The jumps that a shard follows now, and how many intervals were moved for it."""

    clock: int
    moved: int


def round_jump(seconds: float) -> int:
    """A jump as it is counted."""
    return round(seconds * 1_000_000 / QUANTUM_MICROSECONDS) * QUANTUM_MICROSECONDS


def shift_microseconds(behind_microseconds: int) -> int:
    """By how much intervals are moved that are behind by so much."""
    return behind_microseconds + (NUDGE_MICROSECONDS if behind_microseconds else 0)


def anchor_after_update(rule: Rule, known: Rule, *, is_anew: bool) -> datetime:
    """From when a rule counts that takes the place of another one. An interval that begins at a
    given time stays where the clock moved it; one that begins `is_anew`, or at another time, stays
    off the slots of before."""
    is_interval = isinstance(rule.timing, Interval) and isinstance(known.timing, Interval)
    if not is_interval or rule.start_at is None or known.start_at is None:
        return rule.anchor
    moved = known.anchor - known.start_at
    if is_anew or rule.start_at != known.start_at:
        moved %= timedelta(microseconds=QUANTUM_MICROSECONDS)
    return rule.start_at + moved
