"""What all consumers of a worker share."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import NamedTuple
from uuid import UUID

from tickwork.app.messages import Composer
from tickwork.clock import monotonic
from tickwork.service.claims import Claims
from tickwork.service.isolating import Isolator
from tickwork.service.observing import Observer
from tickwork.store.contract import Store


class Context(NamedTuple):
    """What all consumers of a worker share. With `is_virtual` every delay is exact, and time is
    what `monotonic` says. After `trusted_until` what was claimed may be somebody else's."""

    store: Store
    claims: Claims
    holder: Callable[[], UUID]
    compose: Composer
    isolator: Isolator
    observer: Observer
    is_virtual: bool = False
    monotonic: Callable[[], float] = monotonic
    trusted_until: Callable[[], float] = lambda: inf

    def is_trusted(self) -> bool:
        """Whether what was claimed is certainly still ours."""
        return self.monotonic() <= self.trusted_until()
