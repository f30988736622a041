"""The list of a queue's messages: claimed ones first, then ready and delayed ones in the order in
which they are claimed, then blocked ones by key.

The messages of one key are listed as they wait in line, those of one correlation id by their ids.

A list is read in parts, each in the order of one index. The other filters have no index: where one
matches few messages, a page looks at `LOOKED_AT_MAX` rows, and the next one goes on behind them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, TypeAlias
from uuid import UUID

from msgspec import Meta, Struct, structs

from tickwork.core.model import Message, State

PRIORITY_MAX = 9
"""The highest priority of a message; the lowest is 0."""

LOOKED_AT_MAX = 10_000
"""Maximum number of rows that a page looks at to find messages that match a filter."""

NO_ID, LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
START_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)
END_OF_TIME = datetime(9999, 1, 1, tzinfo=UTC)
FIRST_RANK, LAST_RANK = -(2**63), 2**63 - 1
LAST_KEY = "\U0010ffff" * 121
"""Sorts after every key: it is longer than any."""


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


class ListOrder(StrEnum):
    """By what the messages of a part are sorted."""

    CLAIMED = "claimed"
    """Claimed messages by id."""
    READY = "ready"
    """Ready and delayed messages by priority, visibility and id."""
    KEYED = "keyed"
    """Messages with a key by key and rank: the earliest of a key has the lowest."""
    CORRELATED = "correlated"
    """Messages of a correlation id by id."""


class MessagePosition(Struct, frozen=True, array_like=True):
    """A position in the list: the columns by which its part is sorted."""

    order: ListOrder
    priority: Annotated[int, Meta(ge=0, le=PRIORITY_MAX)] = 0
    visible_at: Annotated[datetime, Meta(tz=True)] = START_OF_TIME
    id: UUID = NO_ID
    key: Annotated[str, Meta(max_length=len(LAST_KEY), pattern=r"\A[^\x00]*\Z")] = ""
    rank: Annotated[int, Meta(ge=FIRST_RANK, le=LAST_RANK)] = FIRST_RANK


class MessagePage(Struct, frozen=True):
    """Messages of a list, and the position behind which the next page starts; None on the last."""

    messages: tuple[Message, ...]
    next: MessagePosition | None


class ClaimedPart(Struct, frozen=True):
    """The claimed messages after an id."""

    after: UUID = NO_ID


class Lane(Struct, frozen=True):
    """The ready and delayed messages of one priority, between two visibilities and ids."""

    priority: int
    after: tuple[datetime, UUID] = (START_OF_TIME, NO_ID)
    until: tuple[datetime, UUID] = (END_OF_TIME, LAST_ID)


class KeyPart(Struct, frozen=True):
    """The messages of one key, between two ranks."""

    key: str
    after: int = FIRST_RANK
    until: int = LAST_RANK


class KeysPart(Struct, frozen=True):
    """The messages of the keys between two keys."""

    after: str = ""
    before: str = LAST_KEY


class CorrelatedPart(Struct, frozen=True):
    """The messages of a correlation id between two ids."""

    after: UUID = NO_ID
    until: UUID = LAST_ID


Part: TypeAlias = ClaimedPart | Lane | KeyPart | KeysPart | CorrelatedPart


class StateFilter(Struct, frozen=True):
    """Which stored state messages have, if any is given, and when they become visible: after a time
    and until another."""

    state: State | None
    visible_after: datetime = START_OF_TIME
    visible_until: datetime = END_OF_TIME


def parts_after(
    selection: MessageSelection, after: MessagePosition | None, now: datetime
) -> tuple[Part, ...]:
    """The parts of a list behind a position, in order."""
    order = None if after is None else after.order
    if selection.correlation_id is not None:
        if after is not None and order is ListOrder.CORRELATED:
            return (CorrelatedPart(after.id),)
        return (CorrelatedPart(),)
    if selection.key is not None:
        if after is not None and order is ListOrder.KEYED and after.key == selection.key:
            return (KeyPart(selection.key, after.rank),)
        return (KeyPart(selection.key),)
    wanted, parts = _stored(selection.state), list[Part]()
    if wanted in (None, State.CLAIMED) and order not in (ListOrder.READY, ListOrder.KEYED):
        parts.append(ClaimedPart(after.id if after and order is ListOrder.CLAIMED else NO_ID))
    if wanted in (None, State.READY) and order is not ListOrder.KEYED:
        parts += _lanes_after(selection, after, now)
    if wanted in (None, State.BLOCKED):
        if after is not None and order is ListOrder.KEYED:
            parts += (KeyPart(after.key, after.rank), KeysPart(after.key))
        else:
            parts.append(KeysPart())
    return tuple(parts)


def _lanes_after(
    selection: MessageSelection, after: MessagePosition | None, now: datetime
) -> tuple[Lane, ...]:
    """The priorities of ready messages, the highest first."""
    start, end = (START_OF_TIME, NO_ID), (END_OF_TIME, LAST_ID)
    if selection.state is ShownState.DELAYED:
        start = now, LAST_ID
    if selection.state is ShownState.READY:
        end = now, LAST_ID
    highest, first = PRIORITY_MAX, tuple[Lane, ...]()
    if after is not None and after.order is ListOrder.READY:
        highest = after.priority - 1
        first = (Lane(after.priority, (after.visible_at, after.id), end),)
    return first + tuple(Lane(number, start, end) for number in range(highest, -1, -1))


def has_window(part: Part, selection: MessageSelection) -> bool:
    """Whether few rows of a part may match, so that a page looks at a limited number of them.

    The claimed messages are read whole: there are no more than workers and leases have.
    """
    is_filtered = selection.type is not None or selection.sent_until is not None
    match part:
        case ClaimedPart():
            return False
        case Lane():
            return is_filtered
        case KeyPart():
            return is_filtered or selection.state is not None
        case KeysPart() | CorrelatedPart():
            return True


def state_filter(selection: MessageSelection, now: datetime) -> StateFilter:
    """The stored states to list from a part that has all of them. Without a key and a correlation
    id, only the blocked messages are read from one."""
    if selection.key is None and selection.correlation_id is None:
        return StateFilter(State.BLOCKED)
    match selection.state:
        case ShownState.DELAYED:
            return StateFilter(State.READY, visible_after=now)
        case ShownState.READY:
            return StateFilter(State.READY, visible_until=now)
        case _:
            return StateFilter(_stored(selection.state))


def position_of(message: Message, rank: int | None, selection: MessageSelection) -> MessagePosition:
    """The position of a message in the list."""
    if selection.correlation_id is not None:
        return MessagePosition(ListOrder.CORRELATED, id=message.id)
    if message.key is not None and (selection.key is not None or message.state is State.BLOCKED):
        return MessagePosition(
            ListOrder.KEYED, key=message.key, rank=FIRST_RANK if rank is None else rank
        )
    if message.state is State.CLAIMED:
        return MessagePosition(ListOrder.CLAIMED, id=message.id)
    return MessagePosition(ListOrder.READY, message.priority, message.visible_at, message.id)


def cut(part: Part, end: MessagePosition) -> tuple[Part, ...]:
    """A part up to a position, that row included."""
    match part:
        case ClaimedPart():
            return (part,)
        case Lane():
            return (structs.replace(part, until=(end.visible_at, end.id)),)
        case KeyPart():
            return (structs.replace(part, until=end.rank),)
        case KeysPart():
            return KeysPart(part.after, end.key), KeyPart(end.key, FIRST_RANK, end.rank)
        case CorrelatedPart():
            return (structs.replace(part, until=end.id),)


def _stored(state: ShownState | None) -> State | None:
    match state:
        case None:
            return None
        case ShownState.CLAIMED:
            return State.CLAIMED
        case ShownState.BLOCKED:
            return State.BLOCKED
        case _:
            return State.READY
