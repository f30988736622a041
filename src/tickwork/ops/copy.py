"""Copies a SQLite file to PostgreSQL: every table, in chunks, checked by counts and checksums.

```
  freeze the source ──▶ copy table by table ──▶ compare counts and checksums ──▶ open the target
        │                     │ each chunk is one transaction with its position
        └── stays frozen      └── a copy that was killed goes on there
```

The source stays frozen afterwards, so that nobody works on both; `thaw` opens it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

from tickwork.errors import Conflict, StoreBroken
from tickwork.store.shared.table_copy import (
    CopiedTable,
    SourceTables,
    TargetTables,
    checksum,
    copied_tables,
)

CHUNK_ROWS = 1_000
"""Number of rows that are copied in one transaction."""

CHUNK_BYTES_MAX = 16_000_000
"""Bytes of bodies in a chunk above which the next ones are smaller."""

Progress = Callable[[str, int, int], None]


class CopiedRows(Struct, frozen=True):
    """A table that was copied; `checksum` is that of its rows in both databases."""

    table: str
    rows: int
    checksum: str


async def copy_database(
    source: SourceTables,
    target: TargetTables,
    *,
    source_name: str,
    note: str,
    on_progress: Progress | None = None,
) -> tuple[CopiedRows, ...]:
    """Copies everything, or continues a copy that was interrupted, and returns the tables.

    `source_name` names the source in the target while the copy is incomplete. Writers to the source
    get the `note` in their error. A copy that is complete is compared again. Raises `Conflict` if
    the target has other rows, and `StoreBroken` if a checksum differs.
    """
    tables = copied_tables(await source.columns(), await target.columns())
    try:
        await target.begin(tables, source_name)
    except Conflict:
        if await source.is_frozen(note):
            with suppress(StoreBroken):  # It differs: somebody has worked on the target since.
                return await _all_compared(source, target, tables, on_progress)
        raise
    await source.freeze(note)
    for table in tables:
        await _copy(source, target, table, on_progress)
    copied = await _all_compared(source, target, tables, on_progress)
    await target.finish(await source.tzdata())
    return copied


async def _all_compared(
    source: SourceTables,
    target: TargetTables,
    tables: Iterable[CopiedTable],
    on_progress: Progress | None,
) -> tuple[CopiedRows, ...]:
    return tuple([await _compared(source, target, table, on_progress) for table in tables])


async def _copy(
    source: SourceTables, target: TargetTables, table: CopiedTable, on_progress: Progress | None
) -> None:
    after, done, is_done = await target.position(table)
    total = await source.count(table)
    limit = most = max(CHUNK_ROWS // table.weight, 1)
    while not is_done:
        rows, after = await source.page(table, after, limit)
        await target.write(table, rows, after)
        is_done, done = after is None, done + len(rows)
        size = sum(len(value) for row in rows for value in row if isinstance(value, bytes))
        limit = max(limit // 4, 10) if size > CHUNK_BYTES_MAX else min(limit * 2, most)
        if on_progress is not None:
            on_progress(f"copy {table.name}", done, total)


async def _compared(
    source: SourceTables, target: TargetTables, table: CopiedTable, on_progress: Progress | None
) -> CopiedRows:
    number = 0
    total = 0
    after = None
    while True:
        rows, after = await source.page(table, after, max(CHUNK_ROWS // table.weight, 1))
        if after is None:
            break
        number, total = number + len(rows), total + checksum(table, rows)
        if on_progress is not None:
            on_progress(f"check {table.name}", number, number)
    found = await target.checksum(table)
    if found != (number, total % 2**64):
        raise StoreBroken(
            f"{table.name} differs: {number} rows with checksum {total % 2**64:016x} were read, "
            f"{found[0]} with {found[1]:016x} are stored; the target is not usable"
        )
    return CopiedRows(table.name, number, f"{total % 2**64:016x}")
