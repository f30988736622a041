"""Fair shares: how many messages a claim takes from each tenant, and in what order.

A lane is one tenant's messages of one priority in a queue. The store finds the lanes that have
visible messages and keeps them briefly. A claim takes from one tenant after the other, from each by
its weight, highest priority first. The next claim continues where the last one stopped, also within
a tenant's turn. So no tenant waits longer than one round, and over many claims the shares match the
weights exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

LANES_FRESH_SECONDS = 0.1

LANES_MAX = 10_000
"""Maximum number of lanes that one search finds. With more, the next search continues where this
one stopped."""

LOOKING_SHARE = 0.1
"""Maximum share of the time spent on searching lanes. A search is slow while the database cannot
clean up dead rows of a queue; then it runs less often."""


class TenantLane(Struct, frozen=True):
    """One tenant's messages of one priority, the tenant's weight, and its quota for claims."""

    tenant: str
    priority: int
    weight: int = 1
    claimed_max: int | None = None


class Portion(Struct, frozen=True):
    """How many messages a claim may take from a lane."""

    lane: TenantLane
    quota: int


class Ring:
    """The tenants of one queue in turn."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[TenantLane]] = {}
        self._left: dict[str, int] = {}
        self._fresh_until = float("-inf")
        self.look_from = ""

    def is_fresh(self, monotonic_seconds: float) -> bool:
        return monotonic_seconds < self._fresh_until

    def refresh(
        self, lanes: Sequence[TenantLane], *, looked_at_seconds: float, took_seconds: float
    ) -> None:
        """Replaces the lanes from `look_from` on; known tenants keep their turn."""
        self.look_from = lanes[-1].tenant if len(lanes) >= LANES_MAX else ""
        found: dict[str, list[TenantLane]] = {}
        for lane in lanes:
            found.setdefault(lane.tenant, []).append(lane)
        kept = {tenant: found[tenant] for tenant in self._lanes if tenant in found}
        self._left = {tenant: left for tenant, left in self._left.items() if tenant in found}
        self._lanes = kept | {
            tenant: sorted(value, key=lambda lane: -lane.priority)
            for tenant, value in found.items()
        }
        self._fresh_until = looked_at_seconds + max(
            LANES_FRESH_SECONDS, took_seconds / LOOKING_SHARE
        )

    def expire(self) -> None:
        """Makes the next claim search again."""
        self._fresh_until = float("-inf")

    @property
    def is_single(self) -> bool:
        """Whether there is at most one tenant. Then a claim that got fewer messages than its
        limit got all."""
        return len(self._lanes) < 2

    def portions(self, limit: int) -> list[Portion]:
        """The shares of the next claim by weight; advances the turn."""
        if not self._lanes:
            return []
        weights = {tenant: lanes[0].weight for tenant, lanes in self._lanes.items()}
        rounds, rest = divmod(limit, sum(weights.values()))
        shares = {tenant: rounds * weight for tenant, weight in weights.items()}
        while rest > 0:
            tenant = next(iter(self._lanes))
            turn = self._left.pop(tenant, weights[tenant])
            taken = min(turn, rest)
            shares[tenant] += taken
            rest -= taken
            if taken < turn:
                self._left[tenant] = turn - taken
            else:
                self._lanes[tenant] = self._lanes.pop(tenant)
        return [
            Portion(lane, share)
            for tenant, share in shares.items()
            if share
            for lane in self._lanes[tenant]
        ]

    def everything(self, limit: int) -> list[Portion]:
        """Every lane with the whole limit, in turn."""
        return [Portion(lane, limit) for lanes in self._lanes.values() for lane in lanes]
