"""How much the receivers of a queue may get now: what a claim of deliveries takes.

A receiver has limits by name: its own, that of its host, a named one. Several receivers may have
one in common. A claim takes of each receiver what all its limits let go soon, and leaves the rest
in the store, ready. It says which limits kept something back, so that whoever claims knows what to
wait for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from tickwork.core.model import Message


class Room(Struct, frozen=True):
    """A limit by its name, and how many more messages it lets go."""

    limit: str
    messages: int


class Line(Struct, frozen=True):
    """How many deliveries to a receiver are claimed before one, and how many are under way."""

    ahead: int
    under_way: int


class Rooms:
    """What a claim may take. `limits_of` returns the limits of a receiver of a tenant, `of_tenant`
    what the tenant may have. Without `by_receiver` all messages of a tenant have one receiver,
    which is empty. `is_cut` says whether a claim had to stop before what they let go, `is_full`
    whether they let go nothing, `reserved` how much of each limit it may take."""

    def __init__(
        self,
        limits_of: Callable[[str, str], Sequence[Room]],
        of_tenant: Callable[[str], Room],
        *,
        by_receiver: bool,
    ) -> None:
        self.limits_of, self.of_tenant = limits_of, of_tenant
        self.by_receiver = by_receiver
        self.is_cut = self.is_full = False
        self.reserved: Mapping[str, int] = {}
        self._bound: dict[tuple[str, str], tuple[int, str]] = {}
        self._bound_tenants: dict[str, tuple[int, str]] = {}

    def quotas(self, asked: Sequence[tuple[str, str, int]]) -> list[int]:
        """How many messages of each of these lanes to take: a tenant, a receiver, and the most that
        may be taken. Receivers that have a limit in common share it evenly."""
        limits = {
            (tenant, receiver): self.limits_of(tenant, receiver) for tenant, receiver, _ in asked
        }
        sharing = Counter(room.limit for own in limits.values() for room in own)
        taken, given = Counter[str](), Counter[tuple[str, str]]()
        self._bound = {}
        quotas = []
        for tenant, receiver, most in asked:
            line = (tenant, receiver)
            quota, name = most, None
            for room in limits[line]:
                even = max(room.messages // sharing[room.limit], 1) - given[line]
                fits = max(min(room.messages - taken[room.limit], even), 0)
                if fits < quota:
                    quota, name = fits, room.limit
            if name is not None:
                # A lane of higher priority may leave what this one could have.
                self.is_cut |= given[line] > 0
                self._bound[line] = (given[line] + quota, name)
            given[line] += quota
            taken.update(dict.fromkeys((room.limit for room in limits[line]), quota))
            quotas.append(quota)
        self.reserved, self.is_full = taken, bool(quotas) and not any(quotas)
        return quotas

    def quota_of_tenant(self, tenant: str, most: int) -> int:
        """How many messages of a tenant to take, of all receivers."""
        room = self.of_tenant(tenant)
        quota = max(min(room.messages, most), 0)
        if quota < most:
            self._bound_tenants[tenant] = (quota, room.limit)
        return quota

    def binding(self, found: Mapping[tuple[str, str], int]) -> frozenset[str]:
        """The limits of which a claim took all that they let go, so that more may wait behind them.
        It found so many messages for each tenant and receiver."""
        of_tenants = Counter[str]()
        for (tenant, _), messages in found.items():
            of_tenants[tenant] += messages
        binding = [
            name for line, (quota, name) in self._bound.items() if found.get(line, 0) >= quota
        ]
        binding += [
            name
            for tenant, (quota, name) in self._bound_tenants.items()
            if of_tenants[tenant] >= quota
        ]
        return frozenset(binding)


class ClaimGate(Protocol):
    """Says what a consumer may claim. It calls `on_room` when a limit that kept something back has
    room again."""

    on_room: Callable[[], None]

    @property
    def is_bound(self) -> bool:
        """Whether the last claim left something behind limits."""

    def rooms(self, owned: Iterable[Message]) -> Rooms:
        """What to claim beside the messages that the consumer has."""

    def note(self, rooms: Rooms, found: Sequence[Message]) -> bool:
        """Notes what a claim left behind limits; returns whether another one finds more now."""

    def seconds_until_room(self) -> float | None:
        """Seconds until a rate lets go what a claim left; None if no rate holds it back."""

    def leave(self) -> None:
        """Waits for no limit any more."""
