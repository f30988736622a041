"""`tickwork migrate` and `tickwork doctor`: updates the schema and checks the set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tickwork.cli.options import Database, Json
from tickwork.cli.output import EXIT_FAILED, escape_controls, print_json, print_lines
from tickwork.cli.store_session import load_settings, report_errors

if TYPE_CHECKING:
    from tickwork.ops.stores import Finding


def migrate_command(database: Database = None, as_json: Json = False) -> None:
    """Update the database schema."""
    import asyncio

    from tickwork.wiring import migrate, shown_database

    settings = load_settings(database)
    migrated = shown_database(settings)
    applied = report_errors(lambda: asyncio.run(migrate(settings)))
    if as_json:
        steps = [{"version": migration.version, "name": migration.name} for migration in applied]
        print_json({"database": migrated, "applied": steps})
        return
    lines = [f"applied {migration.name} to {migrated}" for migration in applied]
    print_lines(lines or [f"the schema of {migrated} is up to date"])


def doctor_command(database: Database = None, as_json: Json = False) -> None:
    """Check the database set-up; exit with 1 if a check is bad."""
    import asyncio

    from tickwork.ops.stores import Level
    from tickwork.wiring import examine

    settings = load_settings(database)
    findings = report_errors(lambda: asyncio.run(examine(settings)))
    if as_json:
        print_json(findings)
    else:
        _print_findings(findings)
    if any(finding.level is Level.BAD for finding in findings):
        raise click.exceptions.Exit(EXIT_FAILED)


def _print_findings(findings: tuple[Finding, ...]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        click.echo(f"{finding.level:7}  {finding.check:{width}}  {escape_controls(finding.says)}")
        if finding.advice:
            click.echo(f"{'':7}  {'':{width}}  → {escape_controls(finding.advice)}")
