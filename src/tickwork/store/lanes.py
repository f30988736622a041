"""Which lanes a claim looks into, and in what order.

A lane is one tenant's messages of one priority in a queue. The lanes that have something
visible are found by the store and kept for a moment; a claim takes from tenant after tenant,
each its share, and of each tenant the highest priority first. Where the last claim ended the
next one begins, so that no tenant waits longer than one round.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

LANES_FRESH_SECONDS = 0.1

LANES_MAX = 10_000
"""As many as one look finds; with more, the next look goes on where this one ended."""

LOOKING_SHARE = 0.1
"""Looking costs more when the database cannot clean up behind a queue; then we look less
often, so that it never takes more than this share of the time."""


class Lane(Struct, frozen=True):
    """One tenant's messages of one priority."""

    tenant: str
    priority: int


class Portion(Struct, frozen=True):
    """How many messages a claim may take from a lane."""

    lane: Lane
    quota: int


class Ring:
    """The tenants that wait in one queue, in turn."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[Lane]] = {}
        self._fresh_until = float("-inf")
        self.look_from = ""

    def is_fresh(self, monotonic_seconds: float) -> bool:
        return monotonic_seconds < self._fresh_until

    def refresh(
        self, lanes: Sequence[Lane], *, looked_at_seconds: float, took_seconds: float
    ) -> None:
        """Takes over what was found from `look_from` on; tenants known already keep their turn."""
        self.look_from = lanes[-1].tenant if len(lanes) >= LANES_MAX else ""
        found: dict[str, list[Lane]] = {}
        for lane in lanes:
            found.setdefault(lane.tenant, []).append(lane)
        kept = {tenant: found[tenant] for tenant in self._lanes if tenant in found}
        self._lanes = kept | {
            tenant: sorted(each, key=lambda lane: -lane.priority) for tenant, each in found.items()
        }
        self._fresh_until = looked_at_seconds + max(
            LANES_FRESH_SECONDS, took_seconds / LOOKING_SHARE
        )

    def expire(self) -> None:
        """The next claim looks again."""
        self._fresh_until = float("-inf")

    @property
    def is_single(self) -> bool:
        """Nobody to share with: whoever got nothing more, there is nothing more."""
        return len(self._lanes) < 2

    def portions(self, limit: int) -> list[Portion]:
        """Equal shares of the next claim, and the turn passed on."""
        tenants = list(self._lanes)
        if not tenants:
            return []
        share = max(limit // len(tenants), 1)
        chosen = tenants[:limit]
        self._pass_turn(chosen)
        return [Portion(lane, share) for tenant in chosen for lane in self._lanes[tenant]]

    def everything(self, limit: int) -> list[Portion]:
        """Any lane for all of it, in turn."""
        return [Portion(lane, limit) for lanes in self._lanes.values() for lane in lanes]

    def _pass_turn(self, served: Sequence[str]) -> None:
        for tenant in served[: len(self._lanes) - 1]:
            self._lanes[tenant] = self._lanes.pop(tenant)
