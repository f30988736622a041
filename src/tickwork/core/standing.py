"""What the ends of its slots make of a schedule, taken one after the other by slot.

| end | errors | last error | last status |
|---|---|---|---|
| succeeded | 0 | none | as it ended |
| partial | as before | what it says | as it ended |
| failed | one more | what it says | as it ended |
| dead, expired | as before; 0 at the next end | what it says | as it ended |
| skipped | as before | as before | as before |

An `Effect` holds any number of ends. It is relative to what the schedule shows, so that a store
can carry it out on a row that somebody else changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tickwork.core.firing import FiringRecord, FiringStatus, Then

OVER = frozenset({FiringStatus.DEAD, FiringStatus.EXPIRED})
"""After these the count of errors begins anew."""


class Shown(NamedTuple):
    """What a schedule shows of its last end."""

    error_count: int
    last_error: str | None
    last_status: str | None


SUCCESS = Shown(0, None, str(FiringStatus.SUCCEEDED))


class Effect(NamedTuple):
    """What ends mean for a schedule. `is_shown`: at least one of them was an attempt; `is_reset`:
    what was counted before them is over."""

    is_reset: bool = False
    failures: int = 0
    is_shown: bool = False
    error: str | None = None
    status: FiringStatus | None = None
    then: Then = Then.GO_ON
    delay_seconds: float | None = None

    def after(self, record: FiringRecord) -> Effect:
        """With one more end, of a later slot."""
        if self is NOTHING and record.is_plain_success:
            return ONE_SUCCESS
        effect = self
        if record.status is not FiringStatus.SKIPPED:
            if self.status in OVER or record.status is FiringStatus.SUCCEEDED:
                effect = effect._replace(is_reset=True, failures=0)
            failed = record.status is FiringStatus.FAILED
            error = None if record.status is FiringStatus.SUCCEEDED else record.error
            effect = effect._replace(
                failures=effect.failures + failed,
                is_shown=True,
                error=error,
                status=record.status,
            )
        if record.is_followed:
            effect = _followed(effect, record)
        return effect

    def on(self, shown: Shown) -> Shown:
        """What a schedule shows then."""
        if not self.is_shown:
            return shown
        before = 0 if self.is_reset or shown.last_status in OVER else shown.error_count
        return Shown(before + self.failures, self.error, str(self.status))

    def changes(self, shown: Shown) -> bool:
        """Whether a schedule that shows this has to be written."""
        is_followed = self.then is not Then.GO_ON or self.delay_seconds is not None
        return is_followed or self.on(shown) != shown


NOTHING = Effect()
ONE_SUCCESS = Effect(is_reset=True, is_shown=True, status=FiringStatus.SUCCEEDED)


def _followed(effect: Effect, record: FiringRecord) -> Effect:
    """The later one says how its schedule goes on; a pause stays one."""
    is_kept = record.then is Then.GO_ON and effect.then is Then.PAUSE
    then = Then.PAUSE if is_kept else record.then
    return effect._replace(then=then, delay_seconds=record.next_after_seconds)


def effect_of(records: Iterable[FiringRecord]) -> Effect:
    """The effect of ends, which are in the order of their slots."""
    effect = NOTHING
    for record in records:
        effect = effect.after(record)
    return effect
