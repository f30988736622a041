"""The SQL statements of this store, multi-row statements, and times as the file stores them.

One statement per row is slow: each binding, step and reset crosses between Python and SQLite, and
each step releases the GIL and has to get it back. Times are stored as microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from tickwork import clock
from tickwork.core.message.dead_letter import StoredDeadLetter
from tickwork.core.model import WAITING_SINCE
from tickwork.core.schedule.firing import FiringRecord
from tickwork.store.ids import Moment
from tickwork.store.shared.columns import ENDED, MESSAGE, RARE, Column, Kind, names
from tickwork.store.shared.sql_files import load

Row = TypeVar("Row")

REMOVED_COLUMNS = (
    "tenant, id, claim, holder, queue_id, event_id, key, batch_id, type, source, length(body), "
    "place, claimed_at, attempts, sent_at, correlation_id, causation_id, schedule_id, slot, run, "
    "content_type, CASE WHEN (SELECT settings ->> 'history_bodies' FROM tickwork_queues "
    "WHERE id = queue_id) THEN hex(body) END, visible_at"
)
"""Columns that a DELETE of messages returns for each, in place of `/*removed*/`."""

LARGE_BODY_BYTES = 4_096
"""Bytes of the largest body that a claim reads inline; larger ones are read separately."""

_NOT_CLAIMED = ("queue_id", "state", "holder", "claimed_at")
"""Columns that a claim knows or sets; it does not read them."""


def _as_json(column: Column) -> str:
    """A column as a value of JSON. Ids are hexadecimal."""
    if column.name == "body":
        return f"CASE WHEN length(body) <= {LARGE_BODY_BYTES} THEN hex(body) END"
    if column.kind is Kind.ID:
        return f"nullif(hex({column.name}), '')" if column.is_rare else f"hex({column.name})"
    return column.name


def _have_defaults(columns: Sequence[Column]) -> str:
    """A condition: all columns have their default. Sums and coalesce are quicker than many ANDs."""
    null = [column.name for column in columns if column.default is None]
    zero = [column.name for column in columns if column.default == 0 and column.default is not None]
    others = [column for column in columns if column.name not in (*null, *zero)]
    return " AND ".join(
        (
            f"{' + '.join(zero)} = 0",
            *(f"{other.name} = {_literal(other.default)}" for other in others),
            f"coalesce({', '.join(null)}) IS NULL",
        )
    )


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


COMMON = tuple(
    column for column in MESSAGE if not column.is_rare and column.name not in _NOT_CLAIMED
)
_COMMON_COLUMNS = ", ".join(["place", *map(_as_json, COMMON)])
_RARE_COLUMNS = ", ".join(map(_as_json, RARE))
CLAIMED_COLUMNS = (
    f"CASE WHEN {_have_defaults(RARE)} THEN json_array({_COMMON_COLUMNS}) "
    f"ELSE json_array({_COMMON_COLUMNS}, {_RARE_COLUMNS}) END"
)
"""What a claim returns for each message, in place of `/*claimed*/`: the fields of
`claim_rows.CompleteRow` as a JSON array. Writing a value costs more than finding the message, so
columns that nearly always have their default are left out if all of them do."""

TOOK_DIGITS = 15
"""Digits of a duration in microseconds, among many."""

_STARTED_AT = (
    "CASE WHEN ?7 = x'' THEN m.claimed_at "
    f"ELSE ?1 - CAST(substr(?7, seen.key * {TOOK_DIGITS} + 1, {TOOK_DIGITS}) AS INTEGER) END"
)
_PLAIN_ENDED = {
    "outcome": "'done'",
    "reason": "NULL",
    "attempts": "m.attempts + 1",
    "started_at": _STARTED_AT,
    "run": "CASE WHEN m.slot IS NOT NULL THEN m.run END",
    "content_type": "CASE WHEN ?8 THEN m.content_type END",
    "body": "CASE WHEN ?8 THEN hex(m.body) END",
}


_ENDED_USUAL = 8
"""Number of first fields of a record that are set in nearly every one; most records end there."""


def _plain_ended() -> str:
    """The record of a message that is acked, as JSON. Fields at the end that have no value are left
    out if all rare ones have none."""
    values = [
        _PLAIN_ENDED.get(name) or (f"nullif(hex(m.{name}), '')" if kind is Kind.ID else f"m.{name}")
        for name, kind in ENDED
    ]
    rare = [f"m.{name} IS NULL" for name, _ in ENDED[_ENDED_USUAL:] if name not in _PLAIN_ENDED]
    return (
        f"CASE WHEN NOT ?8 AND {' AND '.join(rare)} THEN "
        f"json_array({', '.join(values[:_ENDED_USUAL])}) ELSE json_array({', '.join(values)}) END"
    )


SQL = load(
    "tickwork.store.sqlite",
    {
        "ended": ", ".join(
            f"json_extract(r.value, '$[{index}]') AS {name}"
            for index, (name, _) in enumerate(ENDED)
        ),
        "plain_ended": _plain_ended(),
        "plain_started_at": _STARTED_AT,
        "removed": REMOVED_COLUMNS,
        "claimed": CLAIMED_COLUMNS,
        # A DELETE does not know its table's alias in what it returns.
        "returned_firing": names(FiringRecord.__struct_fields__),
        "returned_dead_letter": names(StoredDeadLetter.__struct_fields__),
        "on_time_until": "CASE WHEN attempts = 0 AND lost = 0 "
        f"AND coalesce(last_error, '') NOT LIKE '{WAITING_SINCE}%' "
        "THEN due_at + grace_seconds * 1000000 END",
    },
)
"""`on_time_until`: a slot that is claimed for the first time after this is a catch-up. One that
waits for its completion was claimed before."""

ROWS_MAX = 25
"""Maximum number of rows in one statement. More rows gain nothing, and each number of rows is a
statement of its own in the cache."""

_EACH = "/*each*/"


@cache
def for_rows(statement: str, rows: int) -> str:
    """The statement with the part between its `/*each*/` marks repeated for each row: as a list of
    values, or as SELECTs joined by UNION ALL."""
    before, part, after = statement.split(_EACH)
    separator = "UNION ALL" if part.lstrip().startswith("SELECT") else ", "
    return f"{before}{separator.join([part] * rows)}{after}"


def in_chunks(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows in chunks that fit into one statement."""
    for start in range(0, len(rows), ROWS_MAX):
        yield rows[start : start + ROWS_MAX]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000


def current_microseconds(moment: Moment) -> int:
    """The virtual time if there is one, else the machine's: a file has no clock of its own."""
    return to_microseconds(moment() or clock.now())


def to_microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return _EPOCH + timedelta(0, *divmod(microseconds, _PER_SECOND))


def microseconds(seconds: float) -> int:
    """A duration in microseconds."""
    return round(seconds * _PER_SECOND)


def joined_durations(seconds: Iterable[float]) -> bytes:
    """Durations in microseconds, of `TOOK_DIGITS` digits each. They are bytes: SQLite reads a text
    from its start for each part of it."""
    return "".join([f"{microseconds(took):0{TOOK_DIGITS}d}" for took in seconds]).encode()


def id_bytes(value: UUID) -> bytes:
    return value.bytes


CONVERSIONS: dict[Kind, Callable[[Any], Any]] = {
    Kind.ID: id_bytes,
    Kind.TIME: to_microseconds,
}
"""Makes values what the file stores, by the kind of their column; the others are stored as they
are."""
