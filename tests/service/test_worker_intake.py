"""The intake: what is in hand before its slot is free is bounded, in number and in bytes."""

from itertools import count
from uuid import UUID

import pytest

from tests.core.messages import handed_out
from tickwork.core.model import Message
from tickwork.service.worker.prefetch import (
    AHEAD_MAX,
    AHEAD_SECONDS,
    CLAIM_MAX,
    HELD_BYTES_MAX,
    PACE_SECONDS,
    WAIT_SECONDS_MAX,
    Intake,
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
def intake(clock: Clock) -> Intake:
    """An empty one."""
    return Intake(clock)


def some(number: int, body: bytes = b"{}") -> tuple[Message, ...]:
    return tuple(handed_out(id=UUID(int=next(_numbers)), body=body) for _ in range(number))


def test_at_first_as_much_is_claimed_as_finds_a_slot(intake: Intake) -> None:
    assert intake.room(7) == 7
    intake.add(some(5))
    assert intake.room(7) == 2
    assert intake.room(5) == 0


def test_messages_come_out_in_the_order_they_came_in(intake: Intake) -> None:
    first, second = some(2), some(1)
    intake.add(first)
    intake.add(second)
    assert intake.peek() == [*first, *second]
    assert intake.take(3) == [*first, *second]
    assert not intake


def test_with_a_pace_more_is_claimed_but_not_for_longer_than_a_moment(
    intake: Intake, clock: Clock
) -> None:
    clock.seconds += 1
    intake.count_ended(100)
    assert intake.room(1) == 1 + 100 * AHEAD_SECONDS
    clock.seconds += 1
    intake.count_ended(1_000_000)
    assert intake.room(1) == CLAIM_MAX
    intake.add(some(AHEAD_MAX))
    assert intake.room(0) == 0
    assert intake.room(AHEAD_MAX) == CLAIM_MAX


def test_many_are_claimed_at_once_and_not_one_as_soon_as_another_is_done(
    intake: Intake, clock: Clock
) -> None:
    clock.seconds += 1
    intake.count_ended(1_000)
    ahead = int(1_000 * AHEAD_SECONDS)
    intake.add(some(ahead))
    intake.take(ahead // 2 - 1)
    assert intake.room(0) == 0
    intake.take(1)
    assert intake.room(0) == ahead // 2


def test_what_is_coming_is_as_good_as_in_hand(intake: Intake) -> None:
    intake.add(some(2))
    assert intake.room(7, coming=4) == 1
    assert intake.room(7, coming=5) == 0


def test_a_pace_that_was_kept_long_ago_does_not_count(intake: Intake, clock: Clock) -> None:
    clock.seconds += 1
    intake.count_ended(100)
    clock.seconds += 1_000
    intake.count_ended(1)
    assert intake.room(1) == 1


def test_there_is_no_pace_when_nothing_ends(intake: Intake, clock: Clock) -> None:
    clock.seconds += 1
    intake.count_ended(1_000)
    assert intake.room(0) == 1_000 * AHEAD_SECONDS
    clock.seconds += PACE_SECONDS / 2
    intake.count_ended(1_000)
    clock.seconds += PACE_SECONDS
    assert intake.room(0) > 0
    clock.seconds += 2 * PACE_SECONDS
    assert intake.room(0) == 0


def test_what_waits_too_long_for_a_slot_is_no_more_in_hand(intake: Intake, clock: Clock) -> None:
    first, second = some(3, b"x" * 1_000), some(2)
    intake.add(first)
    clock.seconds += WAIT_SECONDS_MAX / 2
    intake.add(second)
    assert intake.overstayed(0) == []
    clock.seconds += WAIT_SECONDS_MAX / 2
    assert intake.overstayed(0) == [*first]
    assert (intake.peek(), intake.waits_seconds()) == ([*second], WAIT_SECONDS_MAX / 2)
    clock.seconds += WAIT_SECONDS_MAX
    assert intake.overstayed(0) == [*second]
    assert (len(intake), intake.room(3), intake.overstayed(0)) == (0, 3, [])


def test_what_gathers_for_a_free_slot_may_wait_longer(intake: Intake, clock: Clock) -> None:
    first, second = some(3), some(2)
    intake.add(first)
    intake.add(second)
    clock.seconds += 10 * WAIT_SECONDS_MAX
    assert intake.overstayed(5) == []
    assert intake.overstayed(4) == [second[1]]
    assert intake.take(5) == [*first, second[0]]
    assert intake.room(1) == 1


def test_one_claim_asks_for_no_more_than_a_store_gives_at_once(intake: Intake) -> None:
    assert intake.room(10_000) == CLAIM_MAX


def test_many_bytes_in_hand_stop_the_claims(intake: Intake) -> None:
    large = b"x" * 128_000
    intake.add(some(HELD_BYTES_MAX // len(large) + 1, large))
    assert intake.room(10_000) == 0
    intake.take(1)
    assert intake.room(10_000) > 0


def test_no_more_is_claimed_than_has_room_if_it_is_as_large_as_the_last(intake: Intake) -> None:
    large = b"x" * (HELD_BYTES_MAX // 100)
    intake.add(some(10, large))
    assert intake.room(1_000) == 90
    assert intake.room(1_000, coming=60) == 30
    assert intake.room(1_000, coming=200) == 1


def test_it_knows_how_long_the_first_one_waits(intake: Intake, clock: Clock) -> None:
    assert intake.waits_seconds() == 0
    intake.add(some(1))
    clock.seconds += 2
    intake.add(some(1))
    clock.seconds += 3
    assert intake.waits_seconds() == 5
    intake.take(1)
    assert intake.waits_seconds() == 3


def test_what_is_given_up_is_no_more_in_hand(intake: Intake) -> None:
    claimed = some(3, b"x" * 1_000)
    intake.add(claimed)
    assert intake.give_up() == [*claimed]
    assert (len(intake), intake.room(3), intake.waits_seconds()) == (0, 3, 0)
