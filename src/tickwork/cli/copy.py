"""`tickwork copy`: moves a SQLite file to PostgreSQL."""

from __future__ import annotations

from typing import Annotated

from tickwork.cli.options import Argument, Json, Option
from tickwork.cli.output import EXIT_BAD_USAGE, bar, fail, print_json, print_lines, print_table
from tickwork.cli.store_session import report_errors, required

Source = Annotated[
    str | None, Argument(metavar="SOURCE", help="Database to copy: sqlite:///tickwork.db.")
]
Target = Annotated[str | None, Argument(metavar="TARGET", help="Empty database: postgresql://…")]
Thaw = Annotated[
    bool, Option(name="--thaw", help="Copy nothing; let processes write to SOURCE again.")
]


def copy_command(
    source: Source = None, target: Target = None, thaw: Thaw = False, as_json: Json = False
) -> None:
    """Copy a SQLite database to an empty PostgreSQL one. SOURCE refuses all changes from then on.

    A copy that was interrupted continues where it was."""
    import asyncio

    from tickwork.wiring import copy, thaw_database

    source = required(source, "SOURCE")
    if thaw:
        if target is not None:
            fail("give --thaw or TARGET, not both", code=EXIT_BAD_USAGE)
        was_frozen = report_errors(lambda: asyncio.run(thaw_database(source)))
        print_lines(["processes can write again" if was_frozen else "it was not frozen"])
        return
    target = required(target, "TARGET")
    with bar() as update:
        copied = report_errors(lambda: asyncio.run(copy(source, target, on_progress=update)))
    if as_json:
        print_json(copied)
        return
    rows = [(table.table, table.rows, table.checksum) for table in copied if table.rows]
    print_table(("table", "rows", "checksum"), rows, none="the source is empty")
    print_lines(["", "counts and checksums are equal; start your processes on the target"])
