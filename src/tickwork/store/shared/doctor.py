"""What a database's set-up gives, in plain words."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


class Finding(Struct, frozen=True):
    """One thing that was looked at: what it is, how it stands, and what to do."""

    check: str
    level: Level
    says: str
    advice: str | None = None


def clock_finding(difference_seconds: float) -> Finding:
    """The clock of this machine against the database's, which rules."""
    says = f"this machine's clock differs from the database's by {abs(difference_seconds):.3f} s"
    if abs(difference_seconds) < 1:
        return Finding("clock", Level.OK, says)
    return Finding(
        "clock",
        Level.WARNING,
        says,
        "schedules follow the database's clock and are not harmed; set this one right for the logs",
    )


def zones_finding(own: str | None, newest: str | None) -> Finding:
    """The zone data of this machine against what schedules were computed with."""
    if own is None:
        return Finding(
            "zones",
            Level.WARNING,
            "the system's zone data does not say its version: its changes go unnoticed",
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


def schema_finding(version: int, known: int) -> Finding:
    """The schema against what this code knows."""
    if version == known:
        return Finding("schema", Level.OK, f"the schema has version {version}")
    if version == 0:
        return Finding("schema", Level.BAD, "there is no schema yet", "run `tickwork migrate`")
    if version < known:
        says = f"the schema has version {version}, this Tickwork needs {known}"
        return Finding("schema", Level.BAD, says, "run `tickwork migrate`")
    says = f"the schema has version {version}, this Tickwork knows only {known}"
    return Finding("schema", Level.BAD, says, "update this installation")
