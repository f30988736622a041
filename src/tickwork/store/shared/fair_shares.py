"""Fair shares: how many messages a claim takes from each tenant, and in what order.

A lane is one tenant's messages of one priority in a queue; of deliveries, those for one receiver.
The store finds the lanes that have
visible messages and keeps them briefly. A claim takes from one tenant after the other, from each by
its weight, highest priority first. The next claim continues where the last one stopped, also within
a tenant's turn. So no tenant waits longer than one round, and over many claims the shares match the
weights exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from tickwork.core.queue.rooms import Rooms

LANES_FRESH_SECONDS = 0.1

LANES_MAX = 10_000
"""Maximum number of lanes that one search finds. With more, the next search continues where this
one stopped."""

LOOKING_SHARE = 0.1
"""Maximum share of the time spent on searching lanes. A search is slow while the database cannot
clean up dead rows of a queue; then it runs less often."""


class TenantLane(Struct, frozen=True):
    """One tenant's messages of one priority, the tenant's weight, and its quota for claims. Of
    deliveries, those for one receiver."""

    tenant: str
    priority: int
    weight: int = 1
    claimed_max: int | None = None
    receiver: str = ""


class Portion(Struct, frozen=True):
    """How many messages a claim may take from a lane: not more than `quota` from all lanes of its
    tenant, and not more than `most` from this one."""

    lane: TenantLane
    quota: int
    most: int | None = None


class Ring:
    """The tenants of one queue in turn. Lanes that were found are fresh for some seconds."""

    def __init__(self) -> None:
        self._last_receivers: dict[str, str] = {}
        self._lanes: dict[str, list[TenantLane]] = {}
        self._left: dict[str, int] = {}
        self._fresh_until = float("-inf")
        self.look_from = self.look_from_receiver = ""

    def is_fresh(self, monotonic_seconds: float) -> bool:
        return monotonic_seconds < self._fresh_until

    def refresh(
        self, lanes: Sequence[TenantLane], *, looked_at_seconds: float, took_seconds: float
    ) -> None:
        """Replaces the lanes from `look_from` on; known tenants keep their turn."""
        last = lanes[-1] if len(lanes) >= LANES_MAX else None
        self.look_from = "" if last is None else last.tenant
        self.look_from_receiver = "" if last is None else last.receiver
        found: dict[str, list[TenantLane]] = {}
        for lane in lanes:
            found.setdefault(lane.tenant, []).append(lane)
        kept = {tenant: found[tenant] for tenant in self._lanes if tenant in found}
        self._left = {tenant: left for tenant, left in self._left.items() if tenant in found}
        self._lanes = kept | {
            tenant: self._in_turn(tenant, value) for tenant, value in found.items()
        }
        self._last_receivers = {
            tenant: last for tenant, last in self._last_receivers.items() if tenant in found
        }
        self._fresh_until = looked_at_seconds + max(
            LANES_FRESH_SECONDS, took_seconds / LOOKING_SHARE
        )

    def _in_turn(self, tenant: str, lanes: Sequence[TenantLane]) -> list[TenantLane]:
        """The lanes of a tenant by priority, and beginning with the receiver whose turn it is."""
        last = self._last_receivers.get(tenant)
        if last is None:
            return sorted(lanes, key=lambda lane: -lane.priority)
        return sorted(
            lanes, key=lambda lane: (-lane.priority, lane.receiver <= last, lane.receiver)
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

    def portions_within(self, limit: int, rooms: Rooms) -> list[Portion]:
        """The portions that the limits of receivers let go: all that they let go if that is not
        above the limit, else shares by weight. The next claim begins with the next receiver."""
        within = _within(self.everything(limit), rooms)
        if sum(portion.most or 0 for portion in within) > limit and not self.is_single:
            rooms.is_cut = True
            within = _within(self.portions(limit), rooms)
        for portion in within:
            self._last_receivers[portion.lane.tenant] = portion.lane.receiver
        for tenant in {portion.lane.tenant for portion in within}:
            if len(self._lanes[tenant]) > 1:
                self._lanes[tenant] = self._in_turn(tenant, self._lanes[tenant])
        return within

    def everything(self, limit: int) -> list[Portion]:
        """Every lane with the whole limit, in turn."""
        return [Portion(lane, limit) for lanes in self._lanes.values() for lane in lanes]


def _within(portions: Sequence[Portion], rooms: Rooms) -> list[Portion]:
    tenants = {portion.lane.tenant: portion.quota for portion in portions}
    quotas = {tenant: rooms.quota_of_tenant(tenant, quota) for tenant, quota in tenants.items()}
    asked = [
        (portion.lane.tenant, portion.lane.receiver, quotas[portion.lane.tenant])
        for portion in portions
    ]
    most = rooms.quotas(asked)
    if not rooms.by_receiver:
        own = Counter[str]()
        for portion, messages in zip(portions, most, strict=True):
            own[portion.lane.tenant] += messages
        quotas, most = own, [own[portion.lane.tenant] for portion in portions]
    return [
        structs.replace(portion, quota=quotas[portion.lane.tenant], most=messages)
        for portion, messages in zip(portions, most, strict=True)
        if messages > 0
    ]
