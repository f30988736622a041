"""How much to claim for receivers: what may start now, and what will within a moment."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as some

from tickwork.core.delivery.pace import IDLE, HostPace, Limit, Throughput, room_of
from tickwork.core.queue.rooms import Room, Rooms

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
numbers = some.integers(0, 50)


def room(limit: Limit, pace: HostPace = IDLE, per_second: float = 0.0, **taken: int) -> int:
    return room_of(pace, limit, NOW, per_second, **{"waiting": 0, "claimed": 0, **taken})


def test_a_slow_receiver_is_claimed_nothing_ahead() -> None:
    limit = Limit(concurrency=20)
    assert room(limit) == 20
    assert room(limit, HostPace(running=20)) == 0
    assert room(limit, HostPace(running=19)) == 1


def test_a_fast_receiver_is_claimed_a_tenth_of_a_second_ahead_in_large_claims() -> None:
    limit, full = Limit(concurrency=20), HostPace(running=20)
    assert room(limit, full, 2_000.0) == 200
    assert room(limit, full, 2_000.0, waiting=99) == 101
    assert room(limit, full, 2_000.0, waiting=100) == 0


def test_what_is_claimed_and_has_not_started_is_counted_once() -> None:
    assert room(Limit(concurrency=20), HostPace(running=5), claimed=12) == 8


def test_a_rate_is_claimed_a_quarter_of_a_second_ahead() -> None:
    spent = HostPace(spent_until=NOW)
    assert room(Limit(rate_per_second=40.0), spent) == 10
    assert room(Limit(rate_per_second=40.0), spent, waiting=7) == 3
    assert room(Limit(rate_per_second=0.1), spent) == 0
    assert room(Limit(rate_per_second=0.1), HostPace(spent_until=NOW - timedelta(seconds=9))) == 0


def test_throughput_falls_while_nothing_ends() -> None:
    throughput = Throughput(0.0)
    for number in range(100):
        throughput.count(number / 100)
    assert 90 <= throughput.per_second(1.0) <= 110
    assert throughput.per_second(10.0) < 2


@given(
    some.lists(
        some.tuples(some.integers(0, 5), some.lists(some.integers(0, 3), unique=True), numbers),
        max_size=8,
    ),
    some.dictionaries(some.integers(0, 3), numbers),
)
def test_no_limit_gives_more_than_it_has_and_some_is_given_while_there_is_room(
    asked: list[tuple[int, list[int], int]], rooms: dict[int, int]
) -> None:
    """Each receiver has some limits; limits may be common to several."""
    limits_of = {str(index): own for index, (_, own, _) in enumerate(asked)}
    made = Rooms(
        lambda _, receiver: [Room(str(name), rooms.get(name, 0)) for name in limits_of[receiver]],
        lambda tenant: Room(tenant, 1_000),
        by_receiver=True,
    )
    lanes = [(str(tenant), str(index), most) for index, (tenant, _, most) in enumerate(asked)]
    quotas = made.quotas(lanes)
    for name, messages in rooms.items():
        taken = sum(quota for quota, (_, own, _) in zip(quotas, asked, strict=True) if name in own)
        assert taken <= messages
    for quota, (_, own, most) in zip(quotas, asked, strict=True):
        assert 0 <= quota <= most
        assert own or quota == most
    found = {(tenant, receiver): 0 for tenant, receiver, _ in lanes}
    for (tenant, receiver, most), quota in zip(lanes, quotas, strict=True):
        found[tenant, receiver] += quota
        if quota < most:
            assert made.binding({(tenant, receiver): quota})
    assert made.binding({}) <= {str(name) for name in range(4)}
