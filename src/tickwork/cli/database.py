"""`tickwork migrate` and `tickwork doctor`: updates the schema and checks the set-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tickwork.cli.command import Group
from tickwork.cli.output import EXIT_FAILED, Report
from tickwork.cli.store_session import load_settings

if TYPE_CHECKING:
    from tickwork.ops.stores import Finding

top = Group("The database itself.")


@top.plain_command("migrate", on_database=True, tenant=False)
def update_schema() -> Report:
    """Update the database schema."""
    import asyncio

    from tickwork.wiring import migrate, shown_database

    settings = load_settings()
    migrated = shown_database(settings)
    applied = asyncio.run(migrate(settings))
    steps = [{"version": migration.version, "name": migration.name} for migration in applied]
    lines = [f"applied {migration.name} to {migrated}" for migration in applied]
    current = f"the schema of {migrated} is up to date"
    return Report({"database": migrated, "applied": steps}, *(lines or [current]))


@top.plain_command("doctor", on_database=True, tenant=False)
def examine_database() -> Report:
    """Check the database set-up; exit with 1 if a check is bad."""
    import asyncio

    from tickwork.ops.stores import Level
    from tickwork.wiring import examine

    findings = asyncio.run(examine(load_settings()))
    is_bad = any(finding.level is Level.BAD for finding in findings)
    return Report(findings, *_lines(findings), exit_code=EXIT_FAILED if is_bad else 0)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        yield f"{finding.level:7}  {finding.check:{width}}  {finding.says}"
        if finding.advice:
            yield f"{'':7}  {'':{width}}  → {finding.advice}"
