"""The list of a queue's messages: claimed ones first, then ready and delayed ones in the order in
which they are claimed, then blocked ones."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from tickwork.core.model import Message, State

PRIORITY_MAX = 9
"""The highest priority of a message; the lowest is 0."""

_SECTIONS = (State.CLAIMED, State.READY, State.BLOCKED)
NO_ID, LAST_ID = UUID(int=0), UUID(int=2**128 - 1)


class ShownState(StrEnum):
    """The state of a message as people see it. A delayed one is stored as ready."""

    READY = "ready"
    DELAYED = "delayed"
    CLAIMED = "claimed"
    BLOCKED = "blocked"


class MessageSelection(Struct, frozen=True, kw_only=True):
    """Which messages of a queue to list: those that match every given field. `sent_until` includes
    that time itself."""

    state: ShownState | None = None
    type: str | None = None
    key: str | None = None
    correlation_id: str | None = None
    sent_until: datetime | None = None


class MessagePosition(Struct, frozen=True, array_like=True):
    """The position of a message in the list."""

    state: State
    priority: int
    visible_at: datetime
    id: UUID


class Lane(Struct, frozen=True):
    """The messages of one priority, after a visibility and id."""

    priority: int
    visible_at: datetime | None = None
    id: UUID = NO_ID


def position_of(message: Message) -> MessagePosition:
    """The position of a message."""
    return MessagePosition(message.state, message.priority, message.visible_at, message.id)


def sections_after(selection: MessageSelection, after: MessagePosition | None) -> tuple[State, ...]:
    """The stored states that a page after a position can have, in order."""
    wanted: tuple[State, ...] = _SECTIONS
    if selection.state is not None:
        wanted = (_stored(selection.state),)
    if after is None:
        return wanted
    passed = _SECTIONS.index(after.state)
    return tuple(each for each in wanted if _SECTIONS.index(each) >= passed)


def lanes_after(
    selection: MessageSelection, after: MessagePosition | None, now: datetime
) -> tuple[Lane, ...]:
    """Where a page of ready messages starts in each priority, the highest first."""
    start: datetime | None = None
    start_id = NO_ID
    if selection.state is ShownState.DELAYED:
        start, start_id = now, LAST_ID
    highest = PRIORITY_MAX
    first: tuple[Lane, ...] = ()
    if after is not None and after.state is State.READY:
        highest = after.priority - 1
        first = (Lane(after.priority, after.visible_at, after.id),)
    return first + tuple(Lane(each, start, start_id) for each in range(highest, -1, -1))


def id_after(section: State, after: MessagePosition | None) -> UUID:
    """Where a page of claimed or blocked messages starts."""
    return after.id if after is not None and after.state is section else NO_ID


def _stored(state: ShownState) -> State:
    match state:
        case ShownState.CLAIMED:
            return State.CLAIMED
        case ShownState.BLOCKED:
            return State.BLOCKED
        case _:
            return State.READY
