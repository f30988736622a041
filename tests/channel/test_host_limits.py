"""A host gets no more than its share; others are not concerned."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from tickwork.channel import host_limits
from tickwork.channel.host_limits import HostLimits
from tickwork.channel.receivers import ReceiverGate
from tickwork.clock import monotonic, now
from tickwork.core.delivery.pace import Limit, Shares
from tickwork.core.model import Message
from tickwork.settings import Settings

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
SLOW, FAST = "https://slow.example.com/a", "https://fast.example.com/b"


class _Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_a_host_gets_so_many_at_once_and_others_are_not_concerned() -> None:
    limits = HostLimits(Limit(None, 1), _Clock())
    with limits.admitted("default", [SLOW]) as first:
        with limits.admitted("default", ["https://SLOW.example.com:8443/other"]) as same_host:
            assert same_host > 0
        with limits.admitted("default", [FAST]) as other:
            assert other == 0
    with limits.admitted("default", [SLOW]) as again:
        assert (first, again) == (0, 0)


def test_requests_of_a_tenant_that_hang_do_not_hold_up_another_at_the_same_host() -> None:
    limits = HostLimits(Limit(5.0, 1), _Clock())
    with limits.admitted("hanging", [SLOW]), limits.admitted("hanging", [SLOW]) as held:
        assert held > 0
        with limits.admitted("other", [SLOW]) as wait_seconds:
            assert wait_seconds == 0


def test_a_host_gets_so_many_a_second() -> None:
    clock = _Clock()
    limits = HostLimits(Limit(5.0, None), clock)
    waits = []
    for _ in range(7):
        with limits.admitted("default", [SLOW]) as wait_seconds:
            waits.append(wait_seconds)
    assert waits[:5] == [0.0] * 5
    assert all(wait > 0 for wait in waits[5:])
    clock.now += timedelta(seconds=1)
    with limits.admitted("default", [SLOW]) as wait_seconds:
        assert wait_seconds == 0


def test_what_one_limit_refuses_uses_up_no_other() -> None:
    limits = HostLimits(Limit(None, 2), _Clock())
    own = {"endpoint a": Limit(None, 1)}
    with limits.admitted("default", [SLOW], own) as first:
        for _ in range(5):
            with limits.admitted("default", [SLOW], own) as refused:
                assert refused > 0
        with limits.admitted("default", [SLOW, FAST]) as second:
            assert (first, second) == (0, 0)


def test_no_limit_lets_everything_through() -> None:
    limits = HostLimits(Limit(), _Clock())
    for _ in range(1_000):
        with limits.admitted("default", [SLOW]) as wait_seconds:
            assert wait_seconds == 0


def test_hosts_without_deliveries_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_limits, "RECEIVERS_MAX", 10)
    clock = _Clock()
    limits = HostLimits(Limit(1.0, 1), clock)
    with limits.admitted("default", [SLOW]):
        for number in range(100):
            clock.now += timedelta(seconds=10)
            with limits.admitted("default", [f"https://host{number}.example.com"]):
                pass
        with limits.admitted("default", [SLOW]) as busy:
            assert busy > 0
    assert len(limits._paces) <= 21


class _Node:
    """A node with four deliveries at once, of which each tenant is sure of two."""

    def __init__(self) -> None:
        self._limits = HostLimits(Limit(), _Clock(), shares=Shares(node=4, tenant=2))
        self._running: dict[str, list[ExitStack]] = {}

    def starts(self, tenant: str) -> bool:
        """Starts a delivery that runs until it is finished, if it may."""
        stack = ExitStack()
        wait_seconds = stack.enter_context(self._limits.admitted(tenant, [SLOW]))
        if not wait_seconds:
            self._running.setdefault(tenant, []).append(stack)
        return not wait_seconds

    def fill(self, tenant: str) -> int:
        """Starts as many as may start; returns how many these were."""
        return sum(1 for _ in range(100) if self.starts(tenant))

    def finish(self, tenant: str) -> None:
        self._running[tenant].pop().close()


def test_a_tenant_gets_the_whole_node_while_it_is_alone() -> None:
    assert _Node().fill("greedy") == 4


def test_a_tenant_below_its_share_never_waits_for_another() -> None:
    node = _Node()
    node.fill("greedy")
    assert node.fill("quiet") == 2
    node.finish("quiet")
    assert node.starts("quiet")


def test_a_tenant_above_its_share_gives_way_while_the_node_is_full() -> None:
    node = _Node()
    node.fill("greedy")
    node.fill("quiet")
    for _ in range(2):
        node.finish("greedy")
        assert not node.starts("greedy")
    node.finish("greedy")
    assert node.starts("greedy")
    assert not node.starts("quiet")
    node.finish("quiet")
    assert node.fill("greedy") == 1


def test_a_quiet_tenant_costs_a_busy_one_no_more_than_it_uses() -> None:
    node = _Node()
    assert node.starts("quiet")
    assert node.fill("greedy") == 3


async def test_who_waits_for_a_share_starts_when_another_delivery_ends() -> None:
    limits = HostLimits(Limit(), _Clock(), shares=Shares(node=1, tenant=1))
    order: list[str] = []

    async def deliver(name: str) -> None:
        await limits.wait_for_share("greedy")
        with limits.admitted("greedy", [SLOW]) as wait_seconds:
            assert wait_seconds == 0
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(*map(deliver, "abcd"))
    assert order == [*"abcd"]


async def test_who_waits_for_a_share_in_vain_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_limits, "SHARE_WAIT_SECONDS", 0.01)
    limits = HostLimits(Limit(), _Clock(), shares=Shares(node=1, tenant=1))
    with limits.admitted("greedy", [SLOW]):
        await limits.wait_for_share("greedy")
        with limits.admitted("greedy", [SLOW]) as wait_seconds:
            assert wait_seconds > 0
        await limits.wait_for_share("quiet")


async def test_nobody_waits_for_a_share_where_others_deliver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_limits, "SHARE_WAIT_SECONDS", 60.0)
    limits = HostLimits(Limit(), _Clock(), shares=Shares(node=2, tenant=1))
    with limits.admitted("greedy", [SLOW]), limits.admitted("quiet", [SLOW]):
        await asyncio.wait_for(limits.wait_for_share("greedy"), 5.0)


def test_who_is_not_let_through_is_told_which_limit_it_was() -> None:
    limits = HostLimits(Limit(5.0, 1), _Clock())
    with limits.admitted("default", [SLOW]):
        waits = limits.admitted("default", [SLOW], {"email": Limit(None, 1)})
        with waits as wait_seconds:
            assert wait_seconds > 0
            assert (
                waits.limited_by == "host slow.example.com of default gets 1 at once and 5 a second"
            )


def test_a_host_has_no_rate_unless_it_is_set() -> None:
    assert (Settings().host_rate_per_second, Settings().host_concurrency) == (None, 20)


async def _deliver(limits: HostLimits, ended: asyncio.Event, order: list[int], number: int) -> None:
    async with limits.admitted("default", [SLOW]) as wait_seconds:
        assert wait_seconds == 0
        order.append(number)
        await ended.wait()


async def test_a_freed_permit_starts_the_next_in_line_at_once_and_in_order() -> None:
    limits, order = HostLimits(Limit(None, 1), _Clock()), list[int]()
    ends = [asyncio.Event() for _ in range(4)]
    waiting = [
        asyncio.create_task(_deliver(limits, ended, order, number))
        for number, ended in enumerate(ends)
    ]
    for number, ended in enumerate(ends):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == [*range(number + 1)]
        with limits.admitted("default", [SLOW]) as wait_seconds:
            assert wait_seconds > 0, "nobody passes the line"
        ended.set()
        await waiting[number]


async def test_who_stops_waiting_in_line_leaves_its_place_to_the_next() -> None:
    limits, order = HostLimits(Limit(None, 1), _Clock()), list[int]()
    ends = [asyncio.Event() for _ in range(3)]
    first, second, third = [
        asyncio.create_task(_deliver(limits, ended, order, number))
        for number, ended in enumerate(ends)
    ]
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    ends[0].set()
    await first
    ends[2].set()
    await third
    assert order == [0, 2]


async def test_who_is_cancelled_when_its_turn_has_come_gives_the_permit_back() -> None:
    limits, order = HostLimits(Limit(None, 1), _Clock()), list[int]()
    ended = asyncio.Event()
    with limits.admitted("default", [SLOW]):
        waiting = asyncio.create_task(_deliver(limits, ended, order, 0))
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert order == []
    with limits.admitted("default", [SLOW]) as wait_seconds:
        assert wait_seconds == 0


async def test_who_waits_in_line_in_vain_is_sent_away() -> None:
    limits = HostLimits(Limit(None, 1), _Clock(), line_seconds=0.01)
    with limits.admitted("default", [SLOW]):
        async with limits.admitted("default", [SLOW]) as wait_seconds:
            assert wait_seconds > 0


async def test_a_rate_lets_the_line_go_by_time() -> None:
    limits, times = HostLimits(Limit(50.0, None), now), list[float]()

    async def deliver() -> None:
        async with limits.admitted("default", [SLOW]) as wait_seconds:
            assert wait_seconds == 0
            times.append(monotonic())

    await asyncio.gather(*(deliver() for _ in range(60)))
    assert times[-1] - times[0] >= 10 / 50.0 * 0.9


async def test_a_gate_learns_the_limits_of_a_receiver_and_is_told_when_they_have_room() -> None:
    limits, told = HostLimits(Limit(None, 2), _Clock()), list[int]()
    gate = ReceiverGate(limits.receivers)
    gate.on_room = lambda: told.append(1)

    def claims(*, owned: int) -> tuple[list[int], bool]:
        message = cast(Message, SimpleNamespace(tenant="default", receiver="host slow"))
        rooms = gate.rooms([message] * owned)
        quotas = rooms.quotas([("default", "host slow", 100)])
        return quotas, gate.note(rooms, [message] * quotas[0])

    assert claims(owned=0)[0] == [1], "the first one tells what the others may"
    with limits.admitted("default", [SLOW], receiver="host slow"):
        assert told == [1]
        assert claims(owned=1) == ([1], False)
        with limits.admitted("default", [SLOW], receiver="host slow"):
            assert claims(owned=2) == ([0], False)
            assert told == [1]
        assert len(told) == 2


async def test_what_one_claim_may_take_no_other_takes_until_it_is_answered() -> None:
    limits, told = HostLimits(Limit(None, 5), _Clock()), list[int]()
    with limits.admitted("default", [SLOW], receiver="endpoint slow") as wait_seconds:
        assert wait_seconds == 0
    first, second = (ReceiverGate(limits.receivers, "endpoint slow") for _ in range(2))
    second.on_room = lambda: told.append(1)
    asked = [("default", "", 100)]
    (of_first, of_second) = (gate.rooms([]) for gate in (first, second))
    assert (of_first.quotas(asked), of_second.quotas(asked)) == ([5], [0])
    assert not second.note(of_second, [])
    assert not told
    first.note(of_first, [])
    assert told, "the first one took nothing"
    assert second.rooms([]).quotas(asked) == [5]


def test_a_receiver_that_has_answered_gets_the_next_one_while_that_is_recorded() -> None:
    limits = HostLimits(Limit(None, 1), _Clock())
    gate = ReceiverGate(limits.receivers, "endpoint slow")
    message = cast(Message, SimpleNamespace(tenant="default", receiver=None))

    def room() -> list[int]:
        return gate.rooms([message]).quotas([("default", "", 100)])

    admission = limits.admitted("default", [SLOW], receiver="endpoint slow")
    with admission:
        assert room() == [0]
        admission.answered()
        assert room() == [1]
        with limits.admitted("default", [SLOW]) as wait_seconds:
            assert wait_seconds == 0
    assert room() == [0], "the claim is another one's"
