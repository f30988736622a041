"""The dependencies of routes, injected as `context`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry

from tickwork.core import when
from tickwork.errors import StoreUnavailable
from tickwork.ops.authenticate import Authenticator
from tickwork.ops.stores import Store


@dataclass
class Context:
    """The clock, the limits for schedules, the store and who checks keys while the application
    serves, and the metrics of this process. `is_on_loopback`: it listens on this machine only."""

    now: Callable[[], datetime]
    limits: when.Limits
    store: Store | None = None
    authenticator: Authenticator | None = None
    is_on_loopback: bool = False
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)


def store_of(context: Context) -> Store:
    """Returns the store; raises `StoreUnavailable` if this process has none."""
    if context.store is None:
        raise StoreUnavailable("this process has no database")
    return context.store
