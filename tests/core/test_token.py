"""Laws of the fencing token: it compares as a number, and an epoch outranks every counter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.schedule.shards import COUNTER_MAX, EPOCH_MAX, parts, token

EPOCHS = st.integers(0, EPOCH_MAX)
COUNTERS = st.integers(0, COUNTER_MAX)


@given(EPOCHS, COUNTERS)
def test_a_token_has_its_parts_and_fits_a_signed_64_bit_number(epoch: int, counter: int) -> None:
    assert parts(token(epoch, counter)) == (epoch, counter)
    assert 0 <= token(epoch, counter) < 2**63


@given(EPOCHS, COUNTERS, EPOCHS, COUNTERS)
def test_tokens_compare_by_epoch_and_then_by_counter(
    epoch: int, counter: int, other_epoch: int, other_counter: int
) -> None:
    ours, theirs = token(epoch, counter), token(other_epoch, other_counter)
    assert (ours < theirs) == ((epoch, counter) < (other_epoch, other_counter))


@pytest.mark.parametrize(
    ("epoch", "counter"), [(-1, 0), (0, -1), (EPOCH_MAX + 1, 0), (0, COUNTER_MAX + 1)]
)
def test_what_does_not_fit_is_refused(epoch: int, counter: int) -> None:
    with pytest.raises(OverflowError):
        token(epoch, counter)
