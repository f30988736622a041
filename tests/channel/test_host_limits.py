"""A host gets no more than its share; others are not concerned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tickwork.channel import host_limits
from tickwork.channel.host_limits import HostLimits
from tickwork.core.delivery.pace import Limit

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


def test_a_host_gets_so_many_a_second() -> None:
    clock = _Clock()
    limits = HostLimits(Limit(5.0, None), clock)
    waits = []
    for _ in range(7):
        with limits.admitted("default", [SLOW]) as wait_seconds:
            waits.append(wait_seconds)
    assert waits[:5] == [0.0] * 5
    assert all(each > 0 for each in waits[5:])
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


def test_a_tenant_with_many_slow_hosts_leaves_room_for_the_others() -> None:
    limits = HostLimits(Limit(concurrency=1), _Clock(), of_tenant=Limit(concurrency=2))
    hosts = [f"https://host{number}.example.com" for number in range(3)]
    with limits.admitted("greedy", hosts[:1]) as first, limits.admitted("greedy", hosts[1:2]):
        assert first == 0
        with limits.admitted("greedy", hosts[2:]) as third:
            assert third > 0
        with limits.admitted("other", hosts[2:]) as others:
            assert others == 0
    with limits.admitted("greedy", hosts[2:]) as again:
        assert again == 0
