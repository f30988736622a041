"""Everything of one correlation, as a tree.

A record's parent is what caused it, by its causation id: the event id or the id of a message. A
cause without a record stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct, structs

from tickwork.core.answers.ids import Prefix, public_id

RECORDS_MAX = 1_000
"""Maximum number of records of a trace."""

DEPTH_MAX = 64
"""Maximum depth of the tree; what is deeper is shown at that depth. Hops end at 32."""

_PREFIXES = {
    "message": Prefix.MESSAGE,
    "dead_letter": Prefix.DEAD_LETTER,
    "delivery": Prefix.DELIVERY,
    "firing": Prefix.FIRING,
}


class TraceRecord(Struct, frozen=True, kw_only=True):
    """One record of a correlation. `name` is a queue, an endpoint, or the id of a run, whose `type`
    is its workflow. `message_id` is the message that it is, or was."""

    kind: str
    id: UUID
    message_id: UUID
    name: str
    state: str
    type: str | None
    at: datetime
    causation_id: str | None
    event_id: str | None
    attempts: int
    schedule_id: UUID | None
    slot: datetime | None
    error: str | None
    ended_at: datetime | None = None


class TraceNode(Struct, frozen=True, kw_only=True):
    """A record in the tree, with what it caused. A `handled` message has no record any more: its
    queue keeps none, or it is too old."""

    kind: str
    id: str
    name: str = ""
    state: str = "handled"
    type: str | None = None
    at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 0
    error: str | None = None
    children: tuple[TraceNode, ...] = ()


class Trace(Struct, frozen=True, kw_only=True):
    """Everything of one correlation. `is_cut`: there is more than the tree shows."""

    correlation_id: str
    nodes: tuple[TraceNode, ...]
    records: int
    is_cut: bool


def trace_of(
    correlation_id: str,
    records: Sequence[TraceRecord],
    inside: dict[UUID, tuple[TraceNode, ...]],
    *,
    is_cut: bool,
) -> Trace:
    """The tree of the records. `inside` has what belongs to a record: the steps of a run, the
    firings of a slot."""
    shown = _without_messages_of_others(records)
    by_name = {name: record for record in shown for name in _names(record)}
    caused: dict[UUID | None, list[TraceRecord]] = {}
    gone: dict[str, list[TraceRecord]] = {}
    for effect in shown:
        cause = None if effect.causation_id is None else by_name.get(effect.causation_id)
        if cause is None and effect.causation_id is not None:
            gone.setdefault(effect.causation_id, []).append(effect)
        elif cause is effect:
            caused.setdefault(None, []).append(effect)
        else:
            caused.setdefault(None if cause is None else cause.id, []).append(effect)

    def node(record: TraceRecord, depth: int) -> TraceNode:
        below = caused.get(record.id, []) if depth < DEPTH_MAX else []
        children = [*inside.get(record.id, ()), *(node(child, depth + 1) for child in below)]
        return _node(record, children)

    roots = [node(root, 0) for root in caused.get(None, ())]
    for name, below in gone.items():
        roots.append(
            TraceNode(kind="message", id=name, children=tuple(node(child, 1) for child in below))
        )
    roots.sort(key=_began)
    return Trace(
        correlation_id=correlation_id, nodes=tuple(roots), records=len(shown), is_cut=is_cut
    )


def _without_messages_of_others(records: Sequence[TraceRecord]) -> list[TraceRecord]:
    """The records without the messages of runs and deliveries, which stand for these. A run has the
    cause of its message."""
    owned = {record.message_id for record in records if record.kind in ("run", "delivery")}
    causes = {record.message_id: record.causation_id for record in records if _is_message(record)}
    return [
        structs.replace(record, causation_id=record.causation_id or causes.get(record.message_id))
        for record in records
        if not _is_message(record) or record.message_id not in owned
    ]


def _is_message(record: TraceRecord) -> bool:
    return record.kind == "message"


def _names(record: TraceRecord) -> Iterable[str]:
    """By which ids others name it as their cause."""
    yield public_id(Prefix.MESSAGE, record.message_id)
    yield str(record.message_id)  # A sender may write it without the prefix.
    if record.event_id is not None:
        yield record.event_id


def _node(record: TraceRecord, children: Sequence[TraceNode]) -> TraceNode:
    prefix = _PREFIXES.get(record.kind)
    fields: dict[str, Any] = {
        "id": record.name if prefix is None else public_id(prefix, record.id),
        "name": record.type or "" if prefix is None else record.name,
        "type": None if prefix is None else record.type,
    }
    return TraceNode(
        kind=record.kind,
        state=record.state,
        at=record.at,
        ended_at=record.ended_at,
        attempts=record.attempts,
        error=record.error,
        children=tuple(children),
        **fields,
    )


def _began(node: TraceNode) -> tuple[bool, str]:
    at = node.at or next((child.at for child in node.children if child.at is not None), None)
    return at is None, "" if at is None else at.isoformat()
