"""The tzdata version that this process uses, such as `2026a`. Versions sort as text.

`zoneinfo` reads the system's folders first and then the package `tzdata`; so does this module.
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
"""A folder that contains this zone is where `zoneinfo` reads zones from."""


def version() -> str | None:
    """The tzdata version; None if the system's folder does not contain it."""
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
