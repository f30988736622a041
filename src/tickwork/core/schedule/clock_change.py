"""Clock jumps: how interval schedules follow a database clock that was set.

Interval slots are elapsed time. If the clock is set by an hour, their slots move by an hour and
keep their spacing:

```
   the clock    ──09:00──┤ jump +1 h ├──10:00──10:01──▶
   a slot every 20 s  ▪ ▪ ▪             ▪ ▪ ▪ ▪
```

Several nodes may see one jump, and it must count once. The known jumps are stored as one sum. A
node adds a jump only if it knows the sum before it. Each shard stores how much of the sum its
intervals have followed.

A slot's instant is also its identity. After a jump back the same instants occur again, and after a
jump ahead long intervals move to instants that were slots before. Intervals therefore move a nudge
further, so that none lands on an earlier slot. Jumps are rounded to a tenth of a second; a nudge is
a thousandth of that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from tickwork.core.when import Interval, Rule

JUMP_SECONDS_MIN = 5.0
"""Minimum seconds of a jump. Less is clock adjustment or a busy machine."""

QUANTUM_MICROSECONDS = 100_000
"""Microseconds that jumps are rounded to."""

NUDGE_MICROSECONDS = 100
"""Microseconds added per jump.

Intervals are whole seconds, so 1,000 jumps pass before one repeats.
"""


class ClockReading(Struct, frozen=True):
    """The database's time, and the sum of the known clock jumps in microseconds."""

    now: datetime
    clock: int


class ClockJump(Struct, frozen=True):
    """An observed clock jump: the time before it, its size, and the sum of jumps without it."""

    before: datetime
    microseconds: int
    known: int

    @property
    def after(self) -> datetime:
        """The earliest time that the clock can show after the jump."""
        return self.before + timedelta(microseconds=self.microseconds)

    @property
    def seconds(self) -> float:
        return self.microseconds / 1_000_000


class JumpsApplied(Struct, frozen=True):
    """The sum of jumps that a shard follows now, and the number of intervals moved for it."""

    clock: int
    moved: int


def round_jump(seconds: float) -> int:
    """A jump in microseconds, rounded to the quantum."""
    return round(seconds * 1_000_000 / QUANTUM_MICROSECONDS) * QUANTUM_MICROSECONDS


def shift_microseconds(behind_microseconds: int) -> int:
    """Microseconds to move intervals that lag behind the known jumps by this much."""
    return behind_microseconds + (NUDGE_MICROSECONDS if behind_microseconds else 0)


def anchor_after_update(rule: Rule, known: Rule, *, is_anew: bool) -> datetime:
    """The anchor of an updated interval rule.

    An interval with an unchanged `start_at` keeps the shift that clock jumps gave it. One that
    starts anew, or at another time, keeps only the nudges, to stay off the old slots.
    """
    is_interval = isinstance(rule.timing, Interval) and isinstance(known.timing, Interval)
    if not is_interval or rule.start_at is None or known.start_at is None:
        return rule.anchor
    shift = known.anchor - known.start_at
    if is_anew or rule.start_at != known.start_at:
        shift %= timedelta(microseconds=QUANTUM_MICROSECONDS)
    return rule.start_at + shift
