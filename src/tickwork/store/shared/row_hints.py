"""Where rows that were handed out were last seen.

A row that is claimed stays where it is until it is settled, so that whoever claimed it need not
look it up once more. A sighting is only a hint: the row is compared with what is held, and looked
for by its key if it is not there.

Schedules that are alike: what is stored of the rule that very many have is made once.

Contract: `of` is what `make` makes of a new schedule. `make` may look at everything but what a
schedule has for itself: id, name, idempotency key and its fingerprint, body and metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from tickwork.core.schedule.model import NewSchedule

SIGHTINGS_MAX = 50_000
"""So many are remembered; then all are forgotten."""

Place = TypeVar("Place")


class RowHints(Generic[Place]):
    """What this process has seen of the rows that it holds."""

    def __init__(self) -> None:
        self._places: dict[UUID, Place] = {}

    def note(self, ids: Sequence[UUID], places: Sequence[Place]) -> None:
        """They were claimed, and are there."""
        if len(self._places) + len(ids) > SIGHTINGS_MAX:
            self._places.clear()
        self._places.update(zip(ids, places, strict=True))

    def take(self, ids: Sequence[UUID]) -> list[Place | None]:
        """Where they were seen; they will be gone now."""
        pop = self._places.pop
        return [pop(each, None) for each in ids]


KINDS_MAX = 10_000

T = TypeVar("T")


class SharedValues(Generic[T]):
    """Remembers what was made, for as long as a bulk takes."""

    def __init__(self, make: Callable[[NewSchedule], T]) -> None:
        self._make = make
        # The first of each kind is kept, and with it its rule: nothing else gets that address.
        self._known: dict[int, tuple[NewSchedule, T]] = {}

    def of(self, new: NewSchedule) -> T:
        """What is the same for all that are like this one."""
        address = id(new.definition.rule)
        known = self._known.get(address)
        if known is not None and is_alike(known[0], new):
            return known[1]
        made = self._make(new)
        if len(self._known) >= KINDS_MAX:
            self._known.clear()
        self._known[address] = (new, made)
        return made


def is_alike(one: NewSchedule, other: NewSchedule) -> bool:
    """Whether they were made from the same values; ones that are only equal need not be found."""
    a, b = one.definition, other.definition
    return (
        a.rule is b.rule
        and a.queue is b.queue
        and a.type is b.type
        and a.content_type is b.content_type
        and a.priority is b.priority
        and a.overlap is b.overlap
        and a.on_dead is b.on_dead
        and a.retry is b.retry
        and a.expires_after_seconds is b.expires_after_seconds
        and one.status is other.status
        and one.next_slot is other.next_slot
        and one.due_at is other.due_at
        and one.look_at is other.look_at
    )
