"""What routes need from outside, handed to those that ask for a `context`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry

from tickwork.core import when
from tickwork.errors import StoreUnavailable
from tickwork.ops.stores import Store


@dataclass
class Context:
    """The present, what a caller may ask for, the store while the application is served, and the
    numbers about this process."""

    now: Callable[[], datetime]
    limits: when.Limits
    store: Store | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)


def store_of(context: Context) -> Store:
    """The store; `StoreUnavailable` where there is none."""
    if context.store is None:
        raise StoreUnavailable("this process has no database")
    return context.store
