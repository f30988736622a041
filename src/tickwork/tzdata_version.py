"""Which zone data this process reads, as a version such as `2026a`; these order as text.

`zoneinfo` looks into the folders of the system first, and then into the package `tzdata`; so do we.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_HEADERS = ("tzdata.zi", "+VERSION")
_HEADER_BYTES = 100
_VERSION = re.compile(rb"\b(\d{4}[a-z]+)\b")
_SOME_ZONE = "Europe/London"
"""A folder that has this one is where zones are read from."""


def version() -> str | None:
    """The version of the zone data; None if the system's folder does not say which it is."""
    for folder in map(Path, zoneinfo.TZPATH):
        for header in _headers(folder):
            found = _VERSION.search(header)
            if found is not None:
                return found[1].decode()
        if (folder / _SOME_ZONE).exists():
            return None
    return _version_of_package()


def _headers(folder: Path) -> Iterator[bytes]:
    for name in _HEADERS:
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                yield file.read(_HEADER_BYTES)


def _version_of_package() -> str | None:
    try:
        package = import_module("tzdata")
    except ImportError:
        return None
    return str(package.IANA_VERSION)
