"""Tzdata made for tests: a zone whose rules change from one version to the next."""

from __future__ import annotations

import struct
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tickwork.core.when import slot_sources as sources
from tickwork.core.when import slots, zone

TOWN = "Test/Town"
HOUR = 3_600
Changes = Sequence[tuple[datetime, int]]
"""From when on a zone has which offset, in hours."""


class ZoneFiles:
    """Folders of zone data, one for each version, of which one is in use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def use(self, version: str, zones: Mapping[str, tuple[int, Changes]]) -> None:
        """From now on this process reads these zones; each begins with an offset in hours."""
        place = self._folder / version
        place.mkdir(exist_ok=True)
        (place / "tzdata.zi").write_text(f"# version {version}\n")
        for name, (hours, changes) in zones.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_compiled(hours, changes))
        zoneinfo.reset_tzpath([str(place), *_USUAL])
        forget_zones()


@contextmanager
def zone_files(folder: Path) -> Iterator[ZoneFiles]:
    """Zone data that is put back afterwards."""
    try:
        yield ZoneFiles(folder)
    finally:
        zoneinfo.reset_tzpath()
        forget_zones()


def forget_zones() -> None:
    """As if this process had just begun."""
    zoneinfo.ZoneInfo.clear_cache()
    for known in (zone.timeline, sources.source_of, slots._next):
        known.cache_clear()


_USUAL = zoneinfo.TZPATH


def _compiled(hours: int, changes: Changes) -> bytes:
    """A zone as RFC 8536 has it: nothing of version 1, all in version 2."""
    offsets = [hours, *(offset for _, offset in changes)]
    header = b"TZif2" + bytes(15)
    nothing = header + struct.pack(">6l", 0, 0, 0, 0, 1, 1) + struct.pack(">lbB", 0, 0, 0) + b"\0"
    counts = struct.pack(">6l", 0, 0, 0, len(changes), len(offsets), 4)
    times = b"".join(struct.pack(">q", int(at.timestamp())) for at, _ in changes)
    places = bytes(range(1, len(offsets)))
    kinds = b"".join(struct.pack(">lbB", offset * HOUR, 0, 0) for offset in offsets)
    footer = f"\n<TWN>{-offsets[-1]}\n".encode()
    return nothing + header + counts + times + places + kinds + b"TWN\0" + footer
