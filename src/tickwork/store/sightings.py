"""Where rows that were handed out were last seen.

A row that is claimed stays where it is until it is settled, so that whoever claimed it need not
look it up once more. A sighting is only a hint: the row is compared with what is held, and looked
for by its key if it is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar
from uuid import UUID

SIGHTINGS_MAX = 50_000
"""So many are remembered; then all are forgotten."""

Place = TypeVar("Place")


class Sightings(Generic[Place]):
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
