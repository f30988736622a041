"""Reads the rows of a claim: many messages as one JSON text.

Each row of a result is a crossing between Python and SQLite, in which the writer thread releases
the GIL and has to get it back from an event loop that is busy with handlers. Only large bodies are
read separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.model import WAITING_SINCE, Message, State
from tickwork.store.shared.columns import MESSAGE, RARE, Column, Kind, compiled
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.rows import Times

Value = str | int | float | bytes | None


class ClaimedRow(Struct, frozen=True, array_like=True, gc=False):
    """A ready message as its row has it: its rowid and the columns that are not rare. Ids and body
    are in hexadecimal. `body` is None if it is large."""

    rowid: int
    tenant: str
    id: UUID
    priority: int
    visible_at: int
    sent_at: int
    type: str | None
    source: str | None
    body: str | None
    if TYPE_CHECKING:  # Rare fields that a claim looks at; `CompleteRow` has them all.
        attempts: int
        lost: int
        event_id: str | None
        due_at: int | None
        last_error: str | None


_TYPES = {Kind.TEXT: str, Kind.ID: UUID, Kind.BYTES: str}
"""Types of values in JSON; a time is in microseconds, and all other kinds are numbers."""


def _field(column: Column) -> tuple[str, object, object]:
    if column.default is None:
        return column.name, _TYPES.get(column.kind, int) | None, None
    type_ = int if column.kind is Kind.FLAG else type(column.default)
    return column.name, type_, column.default


CompleteRow = msgspec.defstruct(
    "CompleteRow",
    [_field(column) for column in RARE],
    bases=(ClaimedRow,),
    frozen=True,
    array_like=True,
    gc=False,
)
"""A row with the rare columns, which it may leave out."""

_DECODER: msgspec.json.Decoder[list[ClaimedRow]] = msgspec.json.Decoder(
    list[CompleteRow]  # type: ignore[valid-type]  # it is made of the columns
)


def read(transaction: Transaction, statement: str, values: Sequence[Value]) -> list[ClaimedRow]:
    """Runs a statement that returns `/*claimed*/` for each message."""
    (text,) = transaction.execute(statement, tuple(values)).fetchone()
    return _DECODER.decode(text)


def large_bodies(transaction: Transaction, found: Sequence[ClaimedRow]) -> dict[int, bytes]:
    """The bodies that were too large to be read inline, by rowid."""
    rowids = [row.rowid for row in found if row.body is None]
    if not rowids:
        return {}
    asked = msgspec.json.encode(rowids).decode()
    return dict(transaction.execute(SQL.read_bodies, (asked,)).fetchall())


def messages(
    found: Sequence[ClaimedRow], bodies: dict[int, bytes], queue_id: UUID, holder: UUID, at: int
) -> tuple[Message, ...]:
    """The claimed messages, marked as late if they are late at that time."""
    made: tuple[Message, ...] = _messages(found, bodies, queue_id, holder, at, Times())
    return made


def in_order(found: list[ClaimedRow]) -> list[ClaimedRow]:
    """Highest priority first, and within a priority the oldest visible first."""
    return sorted(found, key=lambda row: (-row.priority, row.visible_at, row.id))


def _is_late(row: ClaimedRow, grace_seconds: int, at: int) -> bool:
    if row.attempts or row.lost or row.due_at is None:
        return False
    if row.last_error is not None and row.last_error.startswith(WAITING_SINCE):
        return False
    return row.due_at + grace_seconds * 1_000_000 < at


_CLAIMED = {
    "queue_id": "queue_id",
    "state": "claimed",
    "claim": "row.claim + 1",
    "holder": "holder",
    "claimed_at": "times[at]",
    "catch_up": "row.catch_up == 1 or "
    "(row.grace_seconds is not None and is_late(row, row.grace_seconds, at))",
    "body": "bodies[row.rowid] if row.body is None else from_hex(row.body)",
}
"""Fields of a claimed message that its row does not have as they are."""

_messages = compiled(
    "found, bodies, queue_id, holder, at, times",
    "tuple([message("
    + ", ".join(
        _CLAIMED.get(column.name)
        or (f"times[row.{column.name}]" if column.kind is Kind.TIME else f"row.{column.name}")
        for column in MESSAGE
    )
    + ") for row in found])",
    message=Message,
    claimed=State.CLAIMED,
    is_late=_is_late,
    from_hex=bytes.fromhex,
)
