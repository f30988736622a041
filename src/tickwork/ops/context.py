"""What a verb works with: the first argument of every function that a user's call reaches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from tickwork import clock
from tickwork.core.model import Scope
from tickwork.core.types.declared import UnknownTypes
from tickwork.core.when import Limits
from tickwork.ops.outside import NO_OUTSIDE, Outside
from tickwork.store.contract import Store

if TYPE_CHECKING:
    from tickwork.app.payloads import PayloadOf  # Slow to import: `tickwork next` needs none.


def no_types(_queue: str, _type: str | None) -> None:
    """A `PayloadOf` for callers without an app, such as a command without --app."""


class Context:
    """The store, the tenant for which a verb acts, and what the installation has: limits of
    schedules, types of payloads, the clock, and what reaches the outside.

    It never changes. It is no struct, because the HTTP framework would check every field of one in
    each request.
    """

    __slots__ = ("_get_limits", "now", "outside", "scope", "store", "types", "unknown_types")

    def __init__(
        self,
        store: Store,
        scope: Scope,
        get_limits: Callable[[], Limits] = Limits,
        types: PayloadOf = no_types,
        now: Callable[[], datetime] = clock.now,
        outside: Outside = NO_OUTSIDE,
        unknown_types: Callable[[], UnknownTypes] = lambda: UnknownTypes.REFUSE,
    ) -> None:
        self.store = store
        self.scope = scope
        self._get_limits = get_limits
        self.types = types
        self.now = now
        self.outside = outside
        self.unknown_types = unknown_types
        """What becomes of a type that nobody handles; it is in the settings, as the limits are."""

    @property
    def limits(self) -> Limits:
        """The limits of schedules; they are in the settings, which are read for a schedule only."""
        return self._get_limits()

    def within(self, scope: Scope) -> Context:
        """The same on behalf of another tenant, or of the system."""
        return self._with(scope, self.outside)

    def with_one_box(self) -> Context:
        """The same for many secrets: the key is read once, when it is first needed."""
        return self._with(self.scope, self.outside.with_one_box())

    def _with(self, scope: Scope, outside: Outside) -> Context:
        return Context(
            self.store,
            scope,
            self._get_limits,
            self.types,
            self.now,
            outside,
            self.unknown_types,
        )
