"""What routes need from outside, handed to those that ask for a `context`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tickwork.core import when


@dataclass(frozen=True)
class Context:
    """The present, and what a caller may ask for."""

    now: Callable[[], datetime]
    limits: when.Limits
