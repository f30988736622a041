"""`tickwork copy`: moves a SQLite file to PostgreSQL."""

from __future__ import annotations

from typing import Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, bar, columns, fail

top = Group("From SQLite to PostgreSQL.")

Source = Annotated[str, Argument("Database to copy: sqlite:///tickwork.db.", "SOURCE")]
Target = Annotated[str, Argument("Empty database: postgresql://…", "TARGET")]
Thaw = Annotated[bool, Option("Copy nothing; let processes write to SOURCE again.")]


@top.plain_command("copy")
def copy_database(source: Source, target: Target | None = None, thaw: Thaw = False) -> Report:
    """Copy a SQLite database to an empty PostgreSQL one. SOURCE refuses all changes from then on.

    A copy that was interrupted continues where it was."""
    import asyncio

    from tickwork.wiring import copy, thaw_database

    if thaw:
        if target is not None:
            fail("give --thaw or TARGET, not both", code=EXIT_BAD_USAGE)
        was_frozen = asyncio.run(thaw_database(source))
        done = "processes can write again" if was_frozen else "it was not frozen"
        return Report({"thawed": was_frozen}, done)
    if target is None:
        fail("TARGET is missing; see --help", code=EXIT_BAD_USAGE)
    with bar() as update:
        copied = asyncio.run(copy(source, target, on_progress=update))
    shown = columns("table", "rows", "checksum", none="the source is empty")
    copied_rows = [table for table in copied if table.rows]
    end = "counts and checksums are equal; start your processes on the target"
    return Report(copied, *shown(copied_rows), "", end)
