"""Which tables `tickwork copy` copies from SQLite to PostgreSQL, and how it converts values.

Both stores have the same tables and columns, except for what is listed here. A table or column that
is neither in both nor listed is a fault: a test finds it, and a copy refuses to start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from itertools import zip_longest
from typing import Any, Protocol
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.model import QueueSettings
from tickwork.core.when import EPOCH
from tickwork.errors import StoreBroken
from tickwork.store.shared.columns import ENDED, Kind

PREFIX = "tickwork_"

FIRST = ("tickwork_tenants", "tickwork_queues")
"""Tables that others refer to, in the order in which they are copied."""

LEFT_OUT = {
    "tickwork_nodes": "processes that run on the source",
    "tickwork_shards": "the target has its own shards, with their leaders and tokens",
    "tickwork_meta": "the target has its own version, epoch and clock",
    "tickwork_limit_uses": "permits of claims; a copied message has no claim",
    "tickwork_message_history_marks": "the target has them in a column of its own",
    "tickwork_ended_counts": "notes of settlements, which are rolled up within seconds",
    "tickwork_receipts": "answers of sends that a client may ask for again within seconds",
}
"""Tables that are not copied, with the reason."""

DERIVED = ("tickwork_keys", "tickwork_backlogs", "tickwork_schedule_counts")
"""Tables of the target that are computed from others when everything is copied."""

OWN_OF_SOURCE = {
    "tickwork_batches": ("completed", "failed"),
    "tickwork_queues": ("backlog_bytes",),
    "tickwork_tenants": ("schedules",),
    "tickwork_message_history": ("place",),
    **dict.fromkeys(
        (
            "tickwork_dead_letters",
            "tickwork_deliveries",
            "tickwork_delivery_attempts",
            "tickwork_published",
            "tickwork_runs",
            "tickwork_schedules",
        ),
        ("place",),
    ),
}
"""Columns that only the source has: rowids, and counters that the target keeps in other tables."""

BATCH_COUNTS = "tickwork_batch_counts"
_BATCH_COUNTS_SOURCE = {
    "tenant": "tenant",
    "batch_id": "id",
    "stripe": "0",
    "completed": "completed",
    "failed": "failed",
}


FILLED = {"tickwork_message_history": ("marks",)}
"""Lists that only the target has. They are computed when everything is copied, and empty until
then."""

WEIGHTS = {"tickwork_message_history": 50}
"""Tables whose rows have many records: so many times as many as others."""

_DIRECT_CALLS = "caller IS NULL"
"""Leaves out direct calls of entities: each waits in a process that is gone."""

_EXPRESSIONS = {
    ("tickwork_messages", "state"): """CASE
        WHEN state = 'held' AND NOT EXISTS (
            SELECT 1 FROM tickwork_messages AS earlier
            WHERE earlier.queue_id = tickwork_messages.queue_id
                AND earlier.tenant = tickwork_messages.tenant
                AND earlier.key = tickwork_messages.key
                AND earlier.place < tickwork_messages.place
                AND earlier.caller IS NULL
        ) THEN 'ready' ELSE state END"""
}
"""Columns of the target that are computed from a row of the source. The first message of a key is
ready, also if the one before it is a direct call, which is not copied."""


class CopiedTable(Struct, frozen=True):
    """A table of the target: the table of the source, and the kind and source expression of each
    column. `computed` columns follow from the others; `filled` ones are lists that are empty until
    everything is copied. A row counts as `weight` rows."""

    name: str
    source: str
    columns: tuple[tuple[str, str, str], ...]
    computed: tuple[str, ...] = ()
    condition: str = "true"
    filled: tuple[str, ...] = ()
    weight: int = 1

    @property
    def names(self) -> list[str]:
        return [*(name for name, _, _ in self.columns), *self.computed]


class SourceTables(Protocol):
    """The database that is copied."""

    async def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns of each table."""

    async def freeze(self, note: str) -> None:
        """Makes every process refuse to write, with a note that says why; once is enough."""

    async def is_frozen(self, note: str) -> bool:
        """Whether it is frozen with this note."""

    async def thaw(self) -> bool:
        """Lets processes write again. False if it was not frozen."""

    async def page(
        self, table: CopiedTable, after: Sequence[Any] | None, limit: int
    ) -> tuple[list[tuple[Any, ...]], list[Any] | None]:
        """Returns converted rows after a position, and the position of the last one; None at the
        end."""

    async def tzdata(self) -> str | None:
        """The oldest version of time zone data from which stored times were computed."""

    async def count(self, table: CopiedTable) -> int:
        """How many rows will be copied."""


class TargetTables(Protocol):
    """The database that the copy is written to."""

    async def columns(self) -> Mapping[str, Mapping[str, str]]:
        """The type of each column of each table."""

    async def begin(self, tables: Sequence[CopiedTable], source: str) -> bool:
        """Prepares an empty database, and makes all but this copy refuse to write. True if a copy
        of this source was started before. Raises `Conflict` if it has rows or another copy."""

    async def position(self, table: CopiedTable) -> tuple[list[Any] | None, int, bool]:
        """The position up to which a table is copied, its number of rows, whether that is all."""

    async def write(
        self,
        table: CopiedTable,
        rows: Sequence[tuple[Any, ...]],
        position: Sequence[Any] | None,
    ) -> None:
        """Stores rows and the position in one transaction; None ends the table."""

    async def checksum(self, table: CopiedTable) -> tuple[int, int]:
        """Number and checksum of the stored rows."""

    async def finish(self, tzdata: str | None) -> None:
        """Computes what follows from the rows, and lets processes write. `tzdata` is the version of
        the time zone data from which the stored times were computed."""


def copied_tables(
    source: Mapping[str, Sequence[str]], target: Mapping[str, Mapping[str, str]]
) -> list[CopiedTable]:
    """The tables to copy, those that others refer to first. Raises `StoreBroken` for tables and
    columns that are neither in both databases nor listed here."""
    faults = [*_faults(source, target)]
    if faults:
        raise StoreBroken(f"the copy does not know {', '.join(faults)}; this is a bug in Tickwork")
    names = [name for name in source if name not in LEFT_OUT]
    names.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    tables = [
        CopiedTable(
            name,
            name,
            tuple(
                (column, kind, _EXPRESSIONS.get((name, column), f'"{column}"'))
                for column, kind in target[name].items()
                if column in source[name]
            ),
            ("is_governed", "is_capped") if name == "tickwork_queues" else (),
            _DIRECT_CALLS if name == "tickwork_messages" else "true",
            FILLED.get(name, ()),
            WEIGHTS.get(name, 1),
        )
        for name in names
    ]
    counts = tuple(
        (column, kind, _BATCH_COUNTS_SOURCE[column])
        for column, kind in target[BATCH_COUNTS].items()
    )
    ended = "completed > 0 OR failed > 0"
    return [*tables, CopiedTable(BATCH_COUNTS, "tickwork_batches", counts, condition=ended)]


def _faults(
    source: Mapping[str, Sequence[str]], target: Mapping[str, Mapping[str, str]]
) -> Iterable[str]:
    known = {*source, *LEFT_OUT, *DERIVED, BATCH_COUNTS}
    yield from (name for name in target if name not in known)
    yield from (name for name in source if name not in target and name not in LEFT_OUT)
    for name in (table for table in source if table in target and table not in LEFT_OUT):
        own = {*OWN_OF_SOURCE.get(name, ())}
        computed = {"is_governed", "is_capped"} if name == "tickwork_queues" else set[str]()
        computed |= {*FILLED.get(name, ())}
        strange = ({*source[name]} - own) ^ ({*target[name]} - computed)
        yield from (f"{name}.{column}" for column in sorted(strange))


def fitted(statement: str, **parts: str) -> str:
    """A statement with its tables and columns, which are no values."""
    for name, part in parts.items():
        statement = statement.replace(f"/*{name}*/", part)
    return statement


def convert(table: CopiedTable, row: Sequence[Any]) -> tuple[Any, ...]:
    """A row of SQLite with the values that PostgreSQL takes. A claimed message becomes ready: the
    process that has claimed it works on the source."""
    values = {
        name: value if value is None else _CONVERSIONS.get(kind, _same)(value)
        for (name, kind, _), value in zip(table.columns, row, strict=True)
    }
    if table.name == "tickwork_messages" and values["state"] == "claimed":
        values |= {"state": "ready", "holder": None, "claimed_at": None, "lease_until": None}
    if table.computed:
        settings = msgspec.json.decode(str(values["settings"]), type=QueueSettings)
        values["is_governed"] = settings.has_claim_limits
        values["is_capped"] = settings.backlog_bytes_max is not None
    return tuple(values.values())


def checksum(table: CopiedTable, rows: Iterable[Sequence[Any]]) -> int:
    """A sum over rows in any order; of equal rows it is equal in both databases."""
    kinds = [*(kind for _, kind, _ in table.columns), *("boolean" for _ in table.computed)]
    total = 0
    for row in rows:
        texts = [
            "" if value is None else f"{_TEXTS.get(kind, repr)(value)}|"
            for kind, value in zip(kinds, row, strict=True)
        ]
        hashed = blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8)
        total += int.from_bytes(hashed.digest(), "big")
    return total % 2**64


def _same(value: Any) -> Any:
    return value


def _instant(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def _json_text(value: Any) -> str:
    return json.dumps(json.loads(value) if isinstance(value, str) else value, sort_keys=True)


_RECORDS = "tickwork_ended[]"

_FIELDS: dict[Kind, Callable[[Any], Any]] = {
    Kind.ID: UUID,
    Kind.TIME: _instant,
    Kind.BYTES: bytes.fromhex,
}
"""How a value in JSON becomes one of PostgreSQL."""


def _ended_records(text: str) -> list[tuple[Any, ...]]:
    """The records of a chunk of the history. Those of SQLite lack last fields without a value."""
    return [
        tuple(
            value if value is None else _FIELDS.get(kind, _same)(value)
            for (_, kind), value in zip_longest(ENDED, record)
        )
        for record in json.loads(text)
    ]


def _ended_text(records: Iterable[Iterable[Any]]) -> str:
    return repr([[_plain(value) for value in record] for record in records])


def _plain(value: Any) -> Any:
    """A value without the type that a driver gives it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value) if isinstance(value, UUID) else value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "uuid": lambda value: UUID(bytes=value),
    "timestamp with time zone": _instant,
    "boolean": bool,
    "text[]": json.loads,
    _RECORDS: _ended_records,
    "date[]": lambda value: [date.fromisoformat(load) for load in json.loads(value)],
}
"""How a value of SQLite becomes one of PostgreSQL, by the type of the column there."""

_TEXTS: dict[str, Callable[[Any], str]] = {
    "uuid": str,
    "timestamp with time zone": lambda value: value.astimezone(UTC).isoformat(),
    "jsonb": _json_text,
    _RECORDS: _ended_text,
    "bytea": lambda value: bytes(value).hex(),
    "double precision": lambda value: repr(float(value)),
}
"""A value as text for its checksum, by type."""
