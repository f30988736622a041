"""Shards: all nodes compute the same even shares, and tokens compare as numbers."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.schedule.model import BUCKETS, SHARDS, shard_of
from tickwork.core.schedule.shards import (
    COUNTER_MAX,
    EPOCH_MAX,
    Grant,
    NewShards,
    balance_shards,
    check_shard_count,
    make_token,
    replace_shards,
    shard_count_for,
    split_token,
)
from tickwork.errors import Conflict, InvalidInput

NODES = st.lists(st.uuids(), min_size=1, max_size=8, unique=True)
EPOCHS = st.integers(0, EPOCH_MAX)
COUNTERS = st.integers(0, COUNTER_MAX)


@given(NODES)
def test_shares_differ_by_at_most_one_and_add_up(nodes: list[UUID]) -> None:
    shares = [shard_count_for(node, nodes, SHARDS) for node in nodes]
    assert sum(shares) == SHARDS
    assert max(shares) - min(shares) <= 1


@given(NODES, NODES, st.data())
def test_two_rounds_balance_any_distribution(
    living: list[UUID], dead: list[UUID], data: st.DataObject
) -> None:
    leaders = st.sampled_from([None, *living, *dead])
    led_by = {shard: data.draw(leaders) for shard in range(SHARDS)}
    for _ in range(2):
        for node in living:
            moves = balance_shards(node, living, led_by)
            assert all(led_by[shard] == node for shard in moves.give_up)
            assert all(led_by[shard] not in living for shard in moves.take)
            led_by |= dict.fromkeys(moves.give_up, None) | dict.fromkeys(moves.take, node)
    counts = [list(led_by.values()).count(node) for node in living]
    assert sum(counts) == SHARDS
    assert max(counts) - min(counts) <= 1


@given(NODES)
def test_a_balanced_distribution_does_not_change(living: list[UUID]) -> None:
    led_by: dict[int, UUID | None] = dict.fromkeys(range(SHARDS))
    for node in living:
        led_by |= dict.fromkeys(balance_shards(node, living, led_by).take, node)
    for node in living:
        moves = balance_shards(node, living, led_by)
        assert (moves.give_up, moves.take) == ((), ())


@given(EPOCHS, COUNTERS)
def test_a_token_splits_into_its_parts_and_fits_63_bits(epoch: int, counter: int) -> None:
    assert split_token(make_token(epoch, counter)) == (epoch, counter)
    assert 0 <= make_token(epoch, counter) < 2**63


@given(EPOCHS, COUNTERS, EPOCHS, COUNTERS)
def test_tokens_compare_by_epoch_and_then_by_counter(
    epoch: int, counter: int, other_epoch: int, other_counter: int
) -> None:
    ours, theirs = make_token(epoch, counter), make_token(other_epoch, other_counter)
    assert (ours < theirs) == ((epoch, counter) < (other_epoch, other_counter))


@pytest.mark.parametrize(
    ("epoch", "counter"), [(-1, 0), (0, -1), (EPOCH_MAX + 1, 0), (0, COUNTER_MAX + 1)]
)
def test_an_epoch_or_counter_out_of_range_raises(epoch: int, counter: int) -> None:
    with pytest.raises(OverflowError):
        make_token(epoch, counter)


@pytest.mark.parametrize("count", [1, 2, 64, 256])
def test_shards_divide_the_buckets_evenly(count: int) -> None:
    found = [shard_of(bucket, check_shard_count(count)) for bucket in range(BUCKETS)]
    assert sorted(found) == found
    assert {found.count(shard) for shard in range(count)} == {BUCKETS // count}


@pytest.mark.parametrize("count", [-64, 0, 3, 48, 100, 512, 4096])
def test_a_number_that_does_not_divide_the_buckets_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match=rf"shards: .*power of two.*you gave {count}"):
        check_shard_count(count)


def test_new_shards_have_the_highest_token_and_the_oldest_tzdata() -> None:
    old = [Grant(0, 7, "2026a", 5), Grant(1, 9, "2025b", 5)]
    assert replace_shards(old) == NewShards(token=10, tzdata="2025b", clock=5)
    unknown = [*old, Grant(2, 1, None, 5)]
    assert replace_shards(unknown) == NewShards(token=10, tzdata=None, clock=5)


def test_shards_are_not_replaced_while_some_follow_a_clock_jump() -> None:
    with pytest.raises(Conflict, match="clock was set"):
        replace_shards([Grant(0, 1, None, 0), Grant(1, 1, None, 3_600)])
