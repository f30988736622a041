"""Shards: all nodes compute the same even shares, and tokens compare as numbers."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.kit.soak import examples
from tickwork.core.schedule.model import BUCKETS, SHARDS, shard_of
from tickwork.core.schedule.shards import (
    COUNTER_MAX,
    EPOCH_MAX,
    FREE_SECONDS,
    KEEP_SECONDS,
    SLOW_SECONDS,
    Grant,
    NewShards,
    ShardFacts,
    ShardWrites,
    balance_shards,
    check_shard_count,
    hold_shards,
    make_token,
    replace_shards,
    shard_count_for,
    slow_nodes,
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
            moves = balance_shards(node, dict.fromkeys(living), led_by)
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
        led_by |= dict.fromkeys(balance_shards(node, dict.fromkeys(living), led_by).take, node)
    for node in living:
        moves = balance_shards(node, dict.fromkeys(living), led_by)
        assert (moves.give_up, moves.take) == ((), ())


@given(NODES, st.lists(st.none() | st.floats(0, 100), min_size=8, max_size=8))
def test_a_node_that_is_not_slow_is_left_and_slow_ones_have_no_share(
    nodes: list[UUID], seconds: list[float | None]
) -> None:
    living = dict(zip(nodes, seconds, strict=False))
    slow = slow_nodes(living)
    assert slow < {*nodes}
    assert all((living[node] or 0) > SLOW_SECONDS for node in slow)
    led_by: dict[int, UUID | None] = dict.fromkeys(range(SHARDS))
    for node in slow:
        assert balance_shards(node, living, led_by, overdue=range(SHARDS)).take == ()
        led_by |= dict.fromkeys(range(SHARDS), node)
        given_up = balance_shards(node, living, led_by, kept=range(SHARDS)).give_up
        assert given_up == (*range(SHARDS),)


@settings(max_examples=examples(30))
@given(
    st.lists(st.sampled_from((0.01, 0.3, 0.8, 1.3, 2.4, 7.0)), min_size=1, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_free_shards_are_led_in_time_and_the_balance_settles_beside_slow_nodes(
    slow_hold_seconds: list[float], seed: int
) -> None:
    cluster = SimulatedCluster([0.01, *slow_hold_seconds], Random(seed))
    cluster.run(until_seconds=KILLED_SECONDS)
    cluster.kill(Random(seed).randrange(1, len(cluster.nodes)))
    cluster.run(until_seconds=KILLED_SECONDS + 3 * KEEP_SECONDS)
    assert cluster.free_seconds_max <= FREE_SECONDS + HOLD_SECONDS + 2 * STEP_SECONDS
    shares = Counter(cluster.leader.values())
    fast = cluster.living.keys() - slow_nodes(cluster.living)
    assert {*shares} == fast
    assert max(shares.values()) - min(shares.values()) <= 1
    moves = [(at - KILLED_SECONDS, shard) for at, shard in cluster.moves if at > KILLED_SECONDS]
    assert [at for at, _ in moves if at > 2 * KEEP_SECONDS] == [], "it has settled"
    assert max(Counter(shard for _, shard in moves).values(), default=0) <= 3


KILLED_SECONDS = 2 * KEEP_SECONDS
SIMULATED_SHARDS = 16
STEP_SECONDS = 0.25
HOLD_SECONDS = 1.0
HEARTBEAT_SECONDS = 5.0
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedCluster:
    """Nodes that hold every second, each with its own delay between reading and writing. A
    heartbeat reports the delay every five seconds. Node 0 is as fast as it can be."""

    def __init__(self, hold_seconds: list[float], chance: Random) -> None:
        self.nodes = sorted(UUID(int=chance.getrandbits(128)) for _ in hold_seconds)
        chance.shuffle(self.nodes)
        self._took = dict(zip(self.nodes, hold_seconds, strict=True))
        self.living: dict[UUID, float | None] = dict.fromkeys(self.nodes)
        self._hold_at = {node: chance.random() for node in self.nodes}
        self._beat_at = {node: chance.random() * HEARTBEAT_SECONDS for node in self.nodes}
        self._writes: list[tuple[float, UUID, ShardWrites, dict[int, int]]] = []
        self._facts = {shard: ShardFacts(shard, 1, None) for shard in range(SIMULATED_SHARDS)}
        self._seconds = self.free_seconds_max = 0.0
        self._free_since: dict[int, float] = {}
        self.moves: list[tuple[float, int]] = []

    @property
    def leader(self) -> dict[int, UUID | None]:
        return {shard: fact.leader for shard, fact in self._facts.items()}

    def kill(self, number: int) -> None:
        """The lease of a node ends now."""
        node = self.nodes[number]
        del self.living[node]
        for shard, fact in self._facts.items():
            if fact.leader == node:
                self._facts[shard] = structs.replace(fact, lease_until=self._now())
                self._free_since[shard] = self._seconds

    def run(self, *, until_seconds: float) -> None:
        while self._seconds < until_seconds:
            self._seconds += STEP_SECONDS
            for node in self.living:
                self._step(node)
            for write in [write for write in self._writes if write[0] <= self._seconds]:
                self._writes.remove(write)
                self._execute(*write[1:])
            for since in self._free_since.values():
                self.free_seconds_max = max(self.free_seconds_max, self._seconds - since)

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._seconds)

    def _step(self, node: UUID) -> None:
        if self._seconds >= self._beat_at[node]:
            self._beat_at[node] += HEARTBEAT_SECONDS
            self.living[node] = self._took[node]
        if self._seconds >= self._hold_at[node]:
            facts = self._facts.values()
            writes = hold_shards(node, self.living, facts, now=self._now(), token_min=0)
            tokens = {fact.shard: fact.token for fact in facts}
            self._writes.append((self._seconds + self._took[node], node, writes, tokens))
            self._hold_at[node] = self._seconds + max(HOLD_SECONDS, self._took[node])

    def _execute(self, node: UUID, writes: ShardWrites, tokens: dict[int, int]) -> None:
        if node not in self.living:
            return
        for shard, at in writes.free.items():
            fact = self._facts[shard]
            is_own = fact.leader == node
            if fact.token == tokens[shard] and (is_own or fact.leader not in self.living):
                self._facts[shard] = ShardFacts(shard, fact.token, None, freed_at=at)
                if is_own:
                    self._free_since[shard] = self._seconds
        for shard, until in writes.take.items():
            fact = self._facts[shard]
            if fact.token == tokens[shard] and fact.leader not in self.living:
                self._facts[shard] = ShardFacts(shard, fact.token + 1, node, kept_until=until)
                self._free_since.pop(shard, None)
                self.moves.append((self._seconds, shard))


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
