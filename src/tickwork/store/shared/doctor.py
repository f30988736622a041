"""Findings of `tickwork doctor` that both stores share."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


class Finding(Struct, frozen=True):
    """The result of one check, and what to do about it."""

    check: str
    level: Level
    says: str
    advice: str | None = None


def clock_finding(difference_seconds: float) -> Finding:
    """Compares this machine's clock with the database's."""
    says = f"this machine's clock differs from the database's by {abs(difference_seconds):.3f} s"
    if abs(difference_seconds) < 1:
        return Finding("clock", Level.OK, says)
    return Finding(
        "clock",
        Level.WARNING,
        says,
        "schedules use the database's clock; synchronise this machine so that log times are right",
    )


def zones_finding(own: str | None, newest: str | None) -> Finding:
    """Compares this machine's time zone data with the version that schedules were computed with."""
    if own is None:
        return Finding(
            "zones",
            Level.WARNING,
            "the version of the system's tzdata is unknown, so updates are not detected",
            "install the system's tzdata with its tzdata.zi, or use the Python package alone",
        )
    if newest is None or newest <= own:
        return Finding("zones", Level.OK, f"the zone data of this machine is {own}")
    return Finding(
        "zones",
        Level.WARNING,
        f"the zone data of this machine is {own}, schedules were computed with {newest}",
        "update it: the system's tzdata if it has one, else the Python package",
    )


def schema_finding(version: int, known: int, migrate_command: str) -> Finding:
    """Compares the schema's version with the one that this code needs."""
    advice = f"run {migrate_command}"
    if version == known:
        return Finding("schema", Level.OK, f"the schema has version {version}")
    if version == 0:
        return Finding("schema", Level.BAD, "there is no schema yet", advice)
    if version < known:
        says = f"the schema has version {version}, this Tickwork needs {known}"
        return Finding("schema", Level.BAD, says, advice)
    says = f"the schema has version {version}, this Tickwork knows only {known}"
    return Finding("schema", Level.BAD, says, "update this installation")
