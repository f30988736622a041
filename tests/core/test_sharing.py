"""Shares: every node comes to the same ones, and nobody takes from the living."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.schedule.model import SHARDS
from tickwork.core.schedule.shards import share_of, share_out

NODES = st.lists(st.uuids(), min_size=1, max_size=8, unique=True)


@given(NODES)
def test_shares_differ_by_at_most_one_and_add_up(nodes: list[UUID]) -> None:
    shares = [share_of(node, nodes) for node in nodes]
    assert sum(shares) == SHARDS
    assert max(shares) - min(shares) <= 1


@given(NODES, NODES, st.data())
def test_whoever_held_what_a_few_rounds_make_it_even(
    living: list[UUID], dead: list[UUID], data: st.DataObject
) -> None:
    holders = st.sampled_from([None, *living, *dead])
    held = {shard: data.draw(holders) for shard in range(SHARDS)}
    for _ in range(2):
        for node in living:
            sharing = share_out(node, living, held)
            assert all(held[shard] == node for shard in sharing.give_up)
            assert all(held[shard] not in living for shard in sharing.take)
            held |= dict.fromkeys(sharing.give_up, None) | dict.fromkeys(sharing.take, node)
    counts = [list(held.values()).count(node) for node in living]
    assert sum(counts) == SHARDS
    assert max(counts) - min(counts) <= 1


@given(NODES)
def test_what_is_even_stays_as_it_is(living: list[UUID]) -> None:
    held: dict[int, UUID | None] = dict.fromkeys(range(SHARDS))
    for node in living:
        held |= dict.fromkeys(share_out(node, living, held).take, node)
    for node in living:
        sharing = share_out(node, living, held)
        assert (sharing.give_up, sharing.take) == ((), ())
