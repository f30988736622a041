"""The statements of this store, and those among them that take many rows at once.

A statement for every row is slow here: each binding, step and reset is a crossing between
Python and SQLite, and each step lets go of the interpreter's lock and has to get it back.

Time as the file holds it: whole microseconds since 1970.
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

GONE_COLUMNS = (
    "tenant, id, claim, holder, queue_id, event_id, key, batch_id, type, source, length(body), "
    "place"
)
"""What a statement that deletes messages says of each, where it has `/*gone*/`."""

FIRING_COLUMNS = (
    "id, tenant, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at, "
    "result_code, excerpt, channels, catch_up, count, last_slot"
)
"""What a statement that reads firings says of each, where it has `/*firing*/`."""

LARGE_BODY_BYTES = 4_096
"""A body of more is read by itself."""

_USUAL_COLUMNS = (
    "place, tenant, hex(id), priority, visible_at, sent_at, type, source, "
    f"CASE WHEN length(body) <= {LARGE_BODY_BYTES} THEN hex(body) END"
)
_OTHER_COLUMNS = (
    "content_type, format, claim, attempts, lost, hops, run, catch_up, key, event_id, "
    "correlation_id, causation_id, last_error, nullif(hex(batch_id), ''), "
    "nullif(hex(schedule_id), ''), slot, due_at, grace_seconds, terms"
)
_IS_USUAL = (
    f"content_type = 'json' AND format = {FORMAT_VERSION} "
    "AND claim + attempts + lost + hops + run + catch_up = 0 "
    "AND coalesce(key, event_id, correlation_id, causation_id, last_error, batch_id, "
    "schedule_id, slot, due_at, grace_seconds, terms) IS NULL"
)
HANDED = (
    f"CASE WHEN {_IS_USUAL} THEN json_array({_USUAL_COLUMNS}) "
    f"ELSE json_array({_USUAL_COLUMNS}, {_OTHER_COLUMNS}) END"
)
"""What a claim says of each message, where it has `/*handed*/`: the fields of `handing.Handed`. To
write a value costs more than to find the message; so what is nearly always the same is left out
where it is."""

SQL = SimpleNamespace(
    **{
        name: text.replace("/*gone*/", GONE_COLUMNS)
        .replace("/*firing*/", FIRING_COLUMNS)
        .replace("/*handed*/", HANDED)
        for name, text in vars(load("tickwork.store.sqlite")).items()
    }
)

ROWS_MAX = 25
"""Rows in one statement: more gain nothing, and every number of rows is a statement by itself."""

_EACH = "/*each*/"


@cache
def for_rows(statement: str, rows: int) -> str:
    """The statement with what stands between its marks repeated for so many rows: values in a
    list, or whole SELECTs put together."""
    before, each, after = statement.split(_EACH)
    between = "UNION ALL" if each.lstrip().startswith("SELECT") else ", "
    return f"{before}{between.join([each] * rows)}{after}"


def portions(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Rows in as many as one statement takes."""
    for start in range(0, len(rows), ROWS_MAX):
        yield rows[start : start + ROWS_MAX]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000


def present(moment: Moment) -> int:
    """The virtual time if there is one, else this machine's: the file has no clock of its own."""
    return to_microseconds(moment() or clock.now())


def to_microseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def from_microseconds(microseconds: int) -> datetime:
    return _EPOCH + timedelta(0, *divmod(microseconds, _PER_SECOND))


def duration(seconds: float) -> int:
    """So many seconds in microseconds."""
    return round(seconds * _PER_SECOND)
