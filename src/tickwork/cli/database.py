"""`tickwork migrate` and `tickwork doctor`: the schema, and what the set-up gives."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.failing import EXIT_FAILED, fail, refuse
from tickwork.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from tickwork.store.diagnosis import Finding
    from tickwork.wiring import Settings

Database = Annotated[str | None, typer.Option(metavar="URL", help="Default sqlite:///tickwork.db.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def migrate_command(database: Database = None, as_json: Json = False) -> None:
    """Bring the database's schema up to date."""
    import asyncio

    from tickwork.wiring import migrate

    try:
        applied = asyncio.run(migrate(_settings(database)))
    except StoreError as error:
        fail(str(error))
    if as_json:
        _print_json([{"version": each.version, "name": each.name} for each in applied])
        return
    for each in applied:
        typer.echo(f"applied {each.name}")
    if not applied:
        typer.echo("the schema is up to date")


def doctor_command(database: Database = None, as_json: Json = False) -> None:
    """Say what the database's set-up gives, in plain words; exit 1 if something is bad."""
    import asyncio

    from tickwork.store.diagnosis import Level
    from tickwork.wiring import examine

    try:
        findings = asyncio.run(examine(_settings(database)))
    except StoreError as error:
        fail(str(error))
    if as_json:
        _print_json(findings)
    else:
        _print_findings(findings)
    if any(finding.level is Level.BAD for finding in findings):
        raise typer.Exit(EXIT_FAILED)


def _settings(database: str | None) -> Settings:
    from tickwork.wiring import load_settings

    try:
        return load_settings({"database": database}, environ=os.environ, folder=Path.cwd())
    except InvalidInput as error:
        refuse(error, {})


def _print_findings(findings: tuple[Finding, ...]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        typer.echo(f"{finding.level:7}  {finding.check:{width}}  {finding.says}")
        if finding.advice:
            typer.echo(f"{'':7}  {'':{width}}  → {finding.advice}")


def _print_json(value: object) -> None:
    import msgspec

    typer.echo(msgspec.json.encode(value).decode())
