"""Progress rates: items per second and remaining time."""

from __future__ import annotations

import pytest

from tickwork.core.message.batch import RATE_WINDOW_SECONDS, SAMPLES_MAX, ProgressRate


def speed(*samples: tuple[float, int]) -> ProgressRate:
    made = ProgressRate()
    for seconds, done in samples:
        made.add(seconds, done)
    return made


@pytest.mark.parametrize("samples", [[], [(5.0, 3)], [(5.0, 3), (5.0, 9)]])
def test_one_sample_has_no_rate(samples: list[tuple[float, int]]) -> None:
    assert speed(*samples).per_second is None
    assert speed(*samples).remaining_seconds(10) is None


def test_the_remaining_time_follows_from_the_rate() -> None:
    half = speed((100.0, 0), (101.0, 10), (102.0, 50))
    assert half.per_second == 25.0
    assert half.remaining_seconds(100) == 2.0
    assert half.remaining_seconds(50) == 0.0


def test_a_rate_of_0_has_no_remaining_time() -> None:
    still = speed((0.0, 7), (10.0, 7))
    assert (still.per_second, still.remaining_seconds(8)) == (0.0, None)


def test_old_samples_do_not_count() -> None:
    slowed = speed((0.0, 0), (1.0, 10_000), (2.0 + RATE_WINDOW_SECONDS, 10_001))
    assert slowed.per_second == pytest.approx(1 / (RATE_WINDOW_SECONDS + 1))
    rarely = speed((0.0, 0), (10 * RATE_WINDOW_SECONDS, 600))
    assert rarely.per_second == 2.0


def test_the_number_of_samples_is_bounded() -> None:
    often = speed(*((number / 10_000, number) for number in range(3 * SAMPLES_MAX)))
    assert often.per_second == pytest.approx(10_000)
    assert len(often._samples) == SAMPLES_MAX
