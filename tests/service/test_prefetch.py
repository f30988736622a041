"""Prefetched messages are bounded, in number and in bytes."""

from itertools import count
from uuid import UUID

import pytest

from tests.core.messages import claimed_message
from tickwork.core.model import Message
from tickwork.service.worker.prefetch import (
    CLAIM_MAX,
    PREFETCH_BYTES_MAX,
    PREFETCH_MAX,
    PREFETCH_SECONDS,
    THROUGHPUT_SECONDS,
    WAIT_SECONDS_MAX,
    Prefetch,
)

_numbers = count(1)


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    """The intake's time."""
    return Clock()


@pytest.fixture
def prefetch(clock: Clock) -> Prefetch:
    """An empty one."""
    return Prefetch(clock)


def some(number: int, body: bytes = b"{}") -> tuple[Message, ...]:
    return tuple(claimed_message(id=UUID(int=next(_numbers)), body=body) for _ in range(number))


def test_at_first_as_much_is_claimed_as_finds_a_slot(prefetch: Prefetch) -> None:
    assert prefetch.claim_limit(7) == 7
    prefetch.add(some(5))
    assert prefetch.claim_limit(7) == 2
    assert prefetch.claim_limit(5) == 0


def test_messages_come_out_in_the_order_they_came_in(prefetch: Prefetch) -> None:
    first, second = some(2), some(1)
    prefetch.add(first)
    prefetch.add(second)
    assert prefetch.peek() == [*first, *second]
    assert prefetch.take(3) == [*first, *second]
    assert not prefetch


def test_with_a_pace_more_is_claimed_but_not_for_longer_than_a_moment(
    prefetch: Prefetch, clock: Clock
) -> None:
    clock.seconds += 1
    prefetch.count_finished(100)
    assert prefetch.claim_limit(1) == 1 + 100 * PREFETCH_SECONDS
    clock.seconds += 1
    prefetch.count_finished(1_000_000)
    assert prefetch.claim_limit(1) == CLAIM_MAX
    prefetch.add(some(PREFETCH_MAX))
    assert prefetch.claim_limit(0) == 0
    assert prefetch.claim_limit(PREFETCH_MAX) == CLAIM_MAX


def test_many_are_claimed_at_once_and_not_one_as_soon_as_another_is_done(
    prefetch: Prefetch, clock: Clock
) -> None:
    clock.seconds += 1
    prefetch.count_finished(1_000)
    ahead = int(1_000 * PREFETCH_SECONDS)
    prefetch.add(some(ahead))
    prefetch.take(ahead // 2 - 1)
    assert prefetch.claim_limit(0) == 0
    prefetch.take(1)
    assert prefetch.claim_limit(0) == ahead // 2


def test_what_is_coming_is_as_good_as_in_hand(prefetch: Prefetch) -> None:
    prefetch.add(some(2))
    assert prefetch.claim_limit(7, pending=4) == 1
    assert prefetch.claim_limit(7, pending=5) == 0


def test_a_pace_that_was_kept_long_ago_does_not_count(prefetch: Prefetch, clock: Clock) -> None:
    clock.seconds += 1
    prefetch.count_finished(100)
    clock.seconds += 1_000
    prefetch.count_finished(1)
    assert prefetch.claim_limit(1) == 1


def test_there_is_no_pace_when_nothing_ends(prefetch: Prefetch, clock: Clock) -> None:
    clock.seconds += 1
    prefetch.count_finished(1_000)
    assert prefetch.claim_limit(0) == 1_000 * PREFETCH_SECONDS
    clock.seconds += THROUGHPUT_SECONDS / 2
    prefetch.count_finished(1_000)
    clock.seconds += THROUGHPUT_SECONDS
    assert prefetch.claim_limit(0) > 0
    clock.seconds += 2 * THROUGHPUT_SECONDS
    assert prefetch.claim_limit(0) == 0


def test_what_waits_too_long_for_a_slot_is_no_more_in_hand(
    prefetch: Prefetch, clock: Clock
) -> None:
    first, second = some(3, b"x" * 1_000), some(2)
    prefetch.add(first)
    clock.seconds += WAIT_SECONDS_MAX / 2
    prefetch.add(second)
    assert prefetch.take_overdue(0) == []
    clock.seconds += WAIT_SECONDS_MAX / 2
    assert prefetch.take_overdue(0) == [*first]
    assert (prefetch.peek(), prefetch.oldest_wait_seconds()) == ([*second], WAIT_SECONDS_MAX / 2)
    clock.seconds += WAIT_SECONDS_MAX
    assert prefetch.take_overdue(0) == [*second]
    assert (len(prefetch), prefetch.claim_limit(3), prefetch.take_overdue(0)) == (0, 3, [])


def test_what_gathers_for_a_free_slot_may_wait_longer(prefetch: Prefetch, clock: Clock) -> None:
    first, second = some(3), some(2)
    prefetch.add(first)
    prefetch.add(second)
    clock.seconds += 10 * WAIT_SECONDS_MAX
    assert prefetch.take_overdue(5) == []
    assert prefetch.take_overdue(4) == [second[1]]
    assert prefetch.take(5) == [*first, second[0]]
    assert prefetch.claim_limit(1) == 1


def test_one_claim_asks_for_no_more_than_a_store_gives_at_once(prefetch: Prefetch) -> None:
    assert prefetch.claim_limit(10_000) == CLAIM_MAX


def test_many_bytes_in_hand_stop_the_claims(prefetch: Prefetch) -> None:
    large = b"x" * 128_000
    prefetch.add(some(PREFETCH_BYTES_MAX // len(large) + 1, large))
    assert prefetch.claim_limit(10_000) == 0
    prefetch.take(1)
    assert prefetch.claim_limit(10_000) > 0


def test_no_more_is_claimed_than_has_room_if_it_is_as_large_as_the_last(prefetch: Prefetch) -> None:
    large = b"x" * (PREFETCH_BYTES_MAX // 100)
    prefetch.add(some(10, large))
    assert prefetch.claim_limit(1_000) == 90
    assert prefetch.claim_limit(1_000, pending=60) == 30
    assert prefetch.claim_limit(1_000, pending=200) == 1


def test_it_knows_how_long_the_first_one_waits(prefetch: Prefetch, clock: Clock) -> None:
    assert prefetch.oldest_wait_seconds() == 0
    prefetch.add(some(1))
    clock.seconds += 2
    prefetch.add(some(1))
    clock.seconds += 3
    assert prefetch.oldest_wait_seconds() == 5
    prefetch.take(1)
    assert prefetch.oldest_wait_seconds() == 3


def test_what_is_given_up_is_no_more_in_hand(prefetch: Prefetch) -> None:
    claimed = some(3, b"x" * 1_000)
    prefetch.add(claimed)
    assert prefetch.take_all() == [*claimed]
    assert (len(prefetch), prefetch.claim_limit(3), prefetch.oldest_wait_seconds()) == (0, 3, 0)
