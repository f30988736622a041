"""Receivers of deliveries with their limits, and the gates of the consumers that claim for them.

Which limits a receiver has is noted whenever something is delivered to it. So a consumer claims one
delivery for a receiver that it does not know, and then as many as the limits of that let go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from tickwork.core.delivery.pace import Limit
from tickwork.core.model import Message
from tickwork.core.queue.rooms import Room, Rooms

RECEIVERS_MAX = 10_000
"""Number of receivers above which all are forgotten."""

UNKNOWN_ONES = 1
"""Deliveries to claim for a receiver whose limits are not known: the first one has them."""

UNKNOWN_MAX = 200
"""Deliveries in one claim to receivers whose limits are not known."""

SEVERAL_MAX = 100
"""Deliveries to claim that go to several receivers at once."""

SEVERAL, UNKNOWN = "several receivers", "unknown receivers"
"""Names of these limits."""


NO_LIMIT = Limit()


class Limits(Protocol):
    """What a node lets go under its limits."""

    def room(self, name: str, limit: Limit, claimed: int = 0, reserved: int = 0) -> int:
        """How many more deliveries to claim under a limit."""

    def room_of_tenant(self, tenant: str, claimed: Mapping[str, int]) -> Room:
        """How many more deliveries of a tenant to claim."""

    def seconds_until_room(self, name: str, limit: Limit) -> float:
        """Seconds until the rate of a limit lets go what is not claimed yet; 0 without a rate."""


class Receivers:
    """The receivers that a node knows, and the gates to wake when a limit has room."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._known: dict[tuple[str, str], Mapping[str, Limit]] = {}
        self._limit_by_name: dict[str, Limit] = {}
        self._waiting: dict[str, set[ReceiverGate]] = {}
        self._asked: dict[ReceiverGate, Rooms] = {}

    def note(self, tenant: str, receiver: str, limits: Mapping[str, Limit]) -> None:
        """Notes the limits of a receiver, by their names."""
        known = self._known.get((tenant, receiver))
        if known == limits:
            return
        is_new = known is None
        if is_new and len(self._known) >= RECEIVERS_MAX:
            self._known.clear()
            self._limit_by_name.clear()
        self._known[tenant, receiver] = limits
        self._limit_by_name.update(limits)
        if is_new:
            self._wake(_unknown_limit(tenant, receiver))

    def rooms_of(
        self,
        tenant: str,
        receiver: str,
        claimed: Mapping[str, int],
        reserved: Mapping[str, int],
    ) -> list[Room]:
        """How many more deliveries to claim for a receiver by each of its limits. `claimed` counts
        by limit those that the asking consumer has, `reserved` what others may claim now."""
        if not receiver:
            return [Room(SEVERAL, SEVERAL_MAX - claimed.get(SEVERAL, 0))]
        limits = self._known.get((tenant, receiver))
        if limits is None:
            own = _unknown_limit(tenant, receiver)
            return [Room(UNKNOWN, UNKNOWN_MAX), Room(own, UNKNOWN_ONES - claimed.get(own, 0))]
        return [
            Room(name, self.limits.room(name, limit, claimed.get(name, 0), reserved.get(name, 0)))
            for name, limit in limits.items()
            if limit != NO_LIMIT
        ]

    def ask(self, gate: ReceiverGate, rooms: Rooms) -> None:
        """A gate claims within these rooms. Nobody else is let go what it may take."""
        self._asked[gate] = rooms

    def answer(self, gate: ReceiverGate) -> None:
        """What it did not take is free again."""
        rooms = self._asked.pop(gate, None)
        for name in () if rooms is None else rooms.reserved:
            self.wake(name, self._limit_by_name.get(name, NO_LIMIT))

    def reserved(self, gate: ReceiverGate) -> Mapping[str, int]:
        """How much of each limit claims may take, except those of the gate."""
        # A claim may ask in another thread.
        asked = [*self._asked.items()]
        reserved = Counter[str]()
        for other, rooms in asked:
            if other is not gate:
                reserved.update(rooms.reserved)
        return reserved

    def limits_of(self, tenant: str, receiver: str) -> Iterable[str]:
        """The limits of a receiver by their names."""
        if not receiver:
            return SEVERAL, tenant_limit(tenant)
        known = self._known.get((tenant, receiver))
        return (_unknown_limit(tenant, receiver), tenant_limit(tenant)) if known is None else known

    def wake_later(self, gate: ReceiverGate, names: Iterable[str]) -> None:
        """Wakes a gate when one of these limits has room."""
        for name in names:
            self._waiting.setdefault(name, set()).add(gate)

    def forget(self, gate: ReceiverGate, names: Iterable[str]) -> None:
        """Wakes it no longer."""
        for name in names:
            gates = self._waiting.get(name, set())
            gates.discard(gate)
            if not gates:
                self._waiting.pop(name, None)

    def wake(self, name: str, limit: Limit) -> None:
        """Wakes the gates that wait for a limit, if it has room for more than they claim now."""
        if name in self._waiting:
            reserved = sum(rooms.reserved.get(name, 0) for rooms in self._asked.values())
            if self.limits.room(name, limit, 0, reserved) > 0:
                self._wake(name)

    def has_room(self, name: str, claimed: int) -> bool:
        """Whether a limit lets go more than the `claimed` ones."""
        return self.limits.room(name, self._limit_by_name.get(name, NO_LIMIT), claimed) > 0

    def seconds_until_room(self, name: str) -> float:
        """Seconds until the rate of a limit has room; 0 without a rate."""
        return self.limits.seconds_until_room(name, self._limit_by_name.get(name, NO_LIMIT))

    def _wake(self, name: str) -> None:
        for gate in [*self._waiting.get(name, ())]:
            gate.on_room()


class ReceiverGate:
    """What a consumer of deliveries may claim. `receiver` is that of all its messages, if they have
    the same one."""

    def __init__(self, receivers: Receivers, receiver: str | None = None) -> None:
        self._receivers, self._receiver = receivers, receiver
        self._binding: frozenset[str] = frozenset()
        self._claimed: Counter[str] = Counter()
        self.on_room: Callable[[], None] = lambda: None

    @property
    def is_bound(self) -> bool:
        """Whether the last claim left something behind limits."""
        return bool(self._binding)

    def rooms(self, owned: Iterable[Message]) -> Rooms:
        """What to claim beside the messages that the consumer has."""
        self._claimed = claimed = self._by_limit(owned)
        receivers = self._receivers
        reserved: Mapping[str, int] | None = None

        def rooms_of(tenant: str, receiver: str) -> list[Room]:
            nonlocal reserved
            if reserved is None:  # Not before the claim begins: it may wait for others.
                reserved = receivers.reserved(self)
            return receivers.rooms_of(tenant, self._receiver or receiver, claimed, reserved)

        rooms = Rooms(
            rooms_of,
            lambda tenant: receivers.limits.room_of_tenant(tenant, claimed),
            by_receiver=self._receiver is None,
        )
        receivers.ask(self, rooms)
        return rooms

    def note(self, rooms: Rooms, found: Sequence[Message]) -> bool:
        """Notes what a claim left behind limits; returns whether another one finds more now."""
        lines = Counter(
            [
                (message.tenant, (message.receiver or "") if rooms.by_receiver else "")
                for message in found
            ]
        )
        self.leave()
        self._binding = rooms.binding(lines)
        self._receivers.wake_later(self, self._binding)
        claimed, has_room = self._claimed + self._by_limit(found), self._receivers.has_room
        has_more = any(has_room(name, claimed[name]) for name in self._binding)
        return bool(found) and (rooms.is_cut or has_more)

    def _by_limit(self, messages: Iterable[Message]) -> Counter[str]:
        """How many of the messages each limit concerns."""
        claimed = Counter[str]()
        lines = Counter([(message.tenant, message.receiver) for message in messages])
        for (tenant, receiver), count in lines.items():
            for name in self._receivers.limits_of(tenant, self._receiver or receiver or ""):
                claimed[name] += count
        return claimed

    def seconds_until_room(self) -> float | None:
        """Seconds until a rate lets go what a claim left; None if no rate holds it back."""
        waits = map(self._receivers.seconds_until_room, self._binding)
        return min((seconds for seconds in waits if seconds > 0), default=None)

    def leave(self) -> None:
        """Waits for no limit any more."""
        self._receivers.forget(self, self._binding)
        self._receivers.answer(self)
        self._binding = frozenset()


def tenant_limit(tenant: str) -> str:
    """The name of what a tenant may have on a node."""
    return f"tenant {tenant}"


def _unknown_limit(tenant: str, receiver: str) -> str:
    return f"{receiver} of {tenant}"
