"""How much memory this process has, and has had at most."""

from __future__ import annotations

import re
from pathlib import Path


def rss_bytes() -> int:
    """Now."""
    return _status("VmRSS")


def rss_bytes_max() -> int:
    """At most, since it runs this program. (What `getrusage` says includes the process that it was
    forked from, before it became this one.)"""
    return _status("VmHWM")


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
