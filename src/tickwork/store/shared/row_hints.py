"""Caches: the row ids of claimed messages, and encoded values that many schedules share.

A claimed row keeps its row id until it is settled, so a settlement need not look it up. It is only
a hint: the row is compared with the claim, and searched by its key if it does not match.

In a bulk create, many schedules have the same rule. What is stored of it is encoded once. The
encoder may use everything but what is a schedule's own: id, name, idempotency key and its
fingerprint, body and metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar
from uuid import UUID

from tickwork.core.model import Ending
from tickwork.core.schedule.model import NewSchedule

ROW_IDS_MAX = 10_000
"""Maximum number of remembered row ids; beyond it all are dropped. A process has fewer unsettled
claims at a time. More are left over only from claims that it lost, or that another one settles."""

RowId = TypeVar("RowId")


class RowHints(Generic[RowId]):
    """Row ids of the messages that this process has claimed."""

    def __init__(self) -> None:
        self._row_ids: dict[UUID, RowId] = {}

    def note(self, ids: Sequence[UUID], row_ids: Sequence[RowId]) -> None:
        """Remembers the row ids of claimed messages."""
        if len(self._row_ids) + len(ids) > ROW_IDS_MAX:
            self._row_ids.clear()
        self._row_ids.update(zip(ids, row_ids, strict=True))

    def take(self, ids: Sequence[UUID]) -> list[RowId | None]:
        """Returns the row ids of messages that are settled now, and forgets them."""
        pop = self._row_ids.pop
        return [pop(id_, None) for id_ in ids]

    def forget(self, endings: Iterable[Ending]) -> None:
        """Forgets messages whose settlement is over, however it was carried out."""
        pop = self._row_ids.pop
        for ending in endings:
            pop(ending.claim.id, None)


KINDS_MAX = 10_000
"""Maximum number of cached rules; beyond it all are dropped."""

T = TypeVar("T")


class SharedValues(Generic[T]):
    """Encoded values by rule, for the time of one bulk create."""

    def __init__(self, make: Callable[[NewSchedule], T]) -> None:
        self._make = make
        # Keeps the first schedule of each kind, and with it the rule, so that its id() stays
        # unique.
        self._known: dict[int, tuple[NewSchedule, T]] = {}

    def of(self, new: NewSchedule) -> T:
        """The encoded values that this schedule shares with others."""
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
    """Whether both were made from the same objects. Equal but different objects need not be
    recognised."""
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
