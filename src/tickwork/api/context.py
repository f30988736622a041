"""What routes need from outside, handed to those that ask for a `context`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tickwork.core import when
from tickwork.store.contract import Store


@dataclass
class Context:
    """The present, what a caller may ask for, and the store while the application is served."""

    now: Callable[[], datetime]
    limits: when.Limits
    store: Store | None = None
