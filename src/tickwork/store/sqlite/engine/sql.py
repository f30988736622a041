"""The SQL statements of this store, multi-row statements, and times as the file stores them.

One statement per row is slow: each binding, step and reset crosses between Python and SQLite, and
each step releases the GIL and has to get it back. Times are stored as microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import TypeVar

from tickwork import clock
from tickwork.core.model import FORMAT_VERSION
from tickwork.store.ids import Moment
from tickwork.store.shared.sql_files import load

Row = TypeVar("Row")

REMOVED_COLUMNS = (
    "tenant, id, claim, holder, queue_id, event_id, key, batch_id, type, source, length(body), "
    "place"
)
"""Columns that a DELETE of messages returns for each, in place of `/*removed*/`."""

FIRING_COLUMNS = (
    "id, tenant, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at, "
    "result_code, excerpt, channels, catch_up, count, last_slot"
)
"""Columns that a SELECT of firings returns for each, in place of `/*firing*/`."""

LARGE_BODY_BYTES = 4_096
"""Bytes of the largest body that a claim reads inline; larger ones are read separately."""

_COMMON_COLUMNS = (
    "place, tenant, hex(id), priority, visible_at, sent_at, type, source, "
    f"CASE WHEN length(body) <= {LARGE_BODY_BYTES} THEN hex(body) END"
)
_RARE_COLUMNS = (
    "content_type, format, claim, attempts, lost, hops, run, catch_up, key, event_id, "
    "correlation_id, causation_id, last_error, nullif(hex(batch_id), ''), "
    "nullif(hex(schedule_id), ''), slot, due_at, grace_seconds, terms"
)
_HAS_NO_RARE_VALUE = (
    f"content_type = 'json' AND format = {FORMAT_VERSION} "
    "AND claim + attempts + lost + hops + run + catch_up = 0 "
    "AND coalesce(key, event_id, correlation_id, causation_id, last_error, batch_id, "
    "schedule_id, slot, due_at, grace_seconds, terms) IS NULL"
)
CLAIMED_COLUMNS = (
    f"CASE WHEN {_HAS_NO_RARE_VALUE} THEN json_array({_COMMON_COLUMNS}) "
    f"ELSE json_array({_COMMON_COLUMNS}, {_RARE_COLUMNS}) END"
)
"""What a claim returns for each message, in place of `/*claimed*/`: the fields of
`claim_rows.ClaimedRow` as a JSON array. Writing a value costs more than finding the message, so
columns that nearly always have their default are left out if all of them do."""

SQL = SimpleNamespace(
    **{
        name: text.replace("/*removed*/", REMOVED_COLUMNS)
        .replace("/*firing*/", FIRING_COLUMNS)
        .replace("/*claimed*/", CLAIMED_COLUMNS)
        for name, text in vars(load("tickwork.store.sqlite")).items()
    }
)

ROWS_MAX = 25
"""Maximum number of rows in one statement. More rows gain nothing, and each number of rows is a
statement of its own in the cache."""

_EACH = "/*each*/"


@cache
def for_rows(statement: str, rows: int) -> str:
    """The statement with the part between its `/*each*/` marks repeated for each row: as a list of
    values, or as SELECTs joined by UNION ALL."""
    before, each, after = statement.split(_EACH)
    separator = "UNION ALL" if each.lstrip().startswith("SELECT") else ", "
    return f"{before}{separator.join([each] * rows)}{after}"


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
