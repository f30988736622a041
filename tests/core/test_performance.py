"""Percentiles from histograms are off by less than 5 %, however histograms were merged."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.soak import examples
from tickwork.core.queue.performance import (
    BOUNDS_SECONDS,
    PERCENTILES,
    Measure,
    Noted,
    Performance,
    PeriodPerformance,
    Width,
    bucket_of,
    merged,
    percentiles,
    period_of,
    roll_up,
)

durations = st.floats(min_value=BOUNDS_SECONDS[0], max_value=BOUNDS_SECONDS[-2])
AT = datetime(2030, 1, 1, 10, 59, 30, tzinfo=UTC)


@settings(max_examples=examples(300))
@given(st.lists(durations, min_size=1, max_size=200))
def test_a_percentile_is_off_by_less_than_a_twentieth(seconds: list[float]) -> None:
    histogram = Counter(map(bucket_of, seconds))
    in_order = sorted(seconds)
    for share, found in zip(PERCENTILES, percentiles(histogram, PERCENTILES), strict=True):
        exact = next(
            value for rank, value in enumerate(in_order, start=1) if rank >= share * len(in_order)
        )
        assert found is not None
        assert abs(found - exact) <= 0.05 * exact


def test_no_durations_have_no_percentiles() -> None:
    assert percentiles({}, PERCENTILES) == (None, None, None)


def test_durations_beyond_the_bounds_are_in_the_first_and_last_bucket() -> None:
    assert bucket_of(0.0) == 0
    assert bucket_of(1e12) == len(BOUNDS_SECONDS)
    assert percentiles({len(BOUNDS_SECONDS): 1}, [0.5])[0] is not None


@settings(max_examples=examples(100))
@given(
    st.lists(
        st.tuples(
            st.datetimes(timezones=st.just(UTC)),
            st.sampled_from(["a", ""]),
            st.sampled_from(Measure),
            st.integers(0, 5),
            st.integers(1, 9),
        ),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_notes_add_up_however_they_are_split(
    rows: list[tuple[datetime, str, Measure, int, int]], cut: int
) -> None:
    notes = [
        Noted(period_of(at, Width.MINUTE), "default", "work", type_, measure, bucket, messages)
        for at, type_, measure, bucket, messages in rows
    ]
    together, split = roll_up(notes), roll_up(notes[:cut])
    for name, added in roll_up(notes[cut:]).items():
        split[name] = split.get(name, Performance()).plus(added)
    assert together == split
    for width in (Width.MINUTE, Width.HOUR):
        done = sum(row.done for name, row in together.items() if name.width is width)
        assert done == sum(note.messages for note in notes if note.measure is Measure.DONE)


def test_periods_begin_on_the_clock_of_utc() -> None:
    starts = [period_of(AT, width).isoformat() for width in Width]
    assert starts == [
        "2030-01-01T10:59:00+00:00", "2030-01-01T10:00:00+00:00", "2030-01-01T00:00:00+00:00",
    ]  # fmt: skip


def test_rows_of_hours_are_merged_to_days_and_types_to_queues() -> None:
    rows = [
        PeriodPerformance(AT.replace(hour=hour), "work", type_, Performance(done=1, runs={hour: 1}))
        for hour in (1, 2)
        for type_ in ("a", None)
    ]
    by_type = merged(rows, Width.DAY)
    assert [(row.type, row.performance.done) for row in by_type] == [(None, 2), ("a", 2)]
    (day,) = merged(rows, Width.DAY, by_type=False)
    assert day.performance == Performance(done=4, runs={1: 2, 2: 2})
