"""Shards: divided evenly among living nodes, with a higher token at every handover."""

from datetime import timedelta

import pytest

from tests.conformance.acts import make_queue
from tests.conformance.schedule_acts import (
    ALL_SHARDS,
    create,
    in_shard,
    join_scheduler,
    lead,
    pause,
    planned,
    write,
)
from tests.faults import tables
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS, bucket_of, shard_of
from tickwork.core.schedule.shards import FREE_SECONDS, Grant, ShardState, split_token
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def tokens(store: Store) -> dict[int, int]:
    return {shard.shard: shard.token for shard in await store.shards.list(SYSTEM)}


def shards(grants: tuple[Grant, ...]) -> set[int]:
    return {grant.shard for grant in grants}


async def test_at_first_no_node_leads_a_shard(store: Store) -> None:
    found = await store.shards.list(SYSTEM)
    assert [shard.shard for shard in found] == [*ALL_SHARDS]
    assert {shard.node for shard in found} == {None}


async def test_a_single_node_leads_all_shards_and_keeps_its_tokens(
    store: Store, clock: VirtualClock
) -> None:
    node, grants = await lead(store)
    assert shards(grants) == {*ALL_SHARDS}
    assert await store.shards.hold(SYSTEM, node) == grants
    assert await store.shards.list(SYSTEM) == tuple(
        ShardState(grant.shard, grant.token, node, clock.now())
        for grant in sorted(grants, key=lambda grant: grant.shard)
    )


async def test_shares_are_even_and_shards_are_given_up_before_they_move(store: Store) -> None:
    first, all_ = await lead(store)
    second, nothing = await lead(store)
    assert nothing == ()
    kept = await store.shards.hold(SYSTEM, first)
    assert len(kept) == SHARDS // 2
    taken = await store.shards.hold(SYSTEM, second)
    assert shards(taken) == {*ALL_SHARDS} - shards(kept)
    before = {grant.shard: grant.token for grant in all_}
    assert {grant.shard: grant.token for grant in kept}.items() <= before.items()
    for grant in taken:
        assert grant.token > before[grant.shard]
    assert await store.shards.hold(SYSTEM, first) == kept
    assert await store.shards.hold(SYSTEM, second) == taken


async def test_three_nodes_share_all_shards(store: Store) -> None:
    nodes = sorted([await join_scheduler(store) for _ in range(3)])
    for _ in range(2):
        for node in nodes:
            await store.shards.hold(SYSTEM, node)
    held = [await store.shards.hold(SYSTEM, node) for node in nodes]
    assert [len(grants) for grants in held] == [22, 21, 21]
    assert sorted(shard for grants in held for shard in shards(grants)) == [*ALL_SHARDS]


async def test_workers_lead_no_shards(store: Store) -> None:
    await store.nodes.join(SYSTEM, new_id(), name="w", roles=["worker"], ttl_seconds=100)
    _, grants = await lead(store)
    assert len(grants) == SHARDS


async def test_a_node_with_both_roles_leads_shards(store: Store) -> None:
    both = new_id()
    await store.nodes.join(
        SYSTEM, both, name="b", roles=["api", "scheduler", "worker"], ttl_seconds=9
    )
    first, _ = await lead(store)
    assert len(await store.shards.hold(SYSTEM, first)) == SHARDS // 2
    assert len(await store.shards.hold(SYSTEM, both)) == SHARDS // 2


async def test_the_shards_of_a_dead_node_are_taken_with_higher_tokens(
    store: Store, clock: VirtualClock
) -> None:
    dead, held = await lead(store, ttl_seconds=15)
    clock.advance(seconds=14)
    heir, nothing = await lead(store)
    assert nothing == ()
    clock.advance(seconds=1.001)
    assert {shard.node for shard in await store.shards.list(SYSTEM)} == {None}
    taken = await store.shards.hold(SYSTEM, heir)
    assert shards(taken) == {*ALL_SHARDS}
    before = {grant.shard: grant.token for grant in held}
    assert all(grant.token > before[grant.shard] for grant in taken)
    with pytest.raises(NodeExpired):
        await store.shards.hold(SYSTEM, dead)


async def test_shards_that_a_living_node_leaves_free_are_taken_beyond_the_share_in_time(
    store: Store, clock: VirtualClock
) -> None:
    _, held = await lead(store, ttl_seconds=15)
    await join_scheduler(store, ttl_seconds=3_600)  # It lives, and never takes its share.
    healthy = await join_scheduler(store, ttl_seconds=3_600)
    assert await store.shards.hold(SYSTEM, healthy) == ()
    clock.advance(seconds=15.001)  # The leader is dead: its shards are free.
    own = await store.shards.hold(SYSTEM, healthy)
    assert len(own) == SHARDS // 2
    clock.advance(seconds=FREE_SECONDS - 0.1)
    assert await store.shards.hold(SYSTEM, healthy) == own, "too early"
    clock.advance(seconds=0.1)
    all_ = await store.shards.hold(SYSTEM, healthy)
    assert shards(all_) == shards(held) == {*ALL_SHARDS}


async def test_an_expired_node_takes_no_shards_even_before_the_reaper_ran(
    store: Store, clock: VirtualClock
) -> None:
    node = await join_scheduler(store, ttl_seconds=15)
    clock.advance(seconds=15.001)
    before = await tokens(store)
    with pytest.raises(NodeExpired):
        await store.shards.hold(SYSTEM, node)
    with pytest.raises(NodeExpired):
        await store.shards.hold(SYSTEM, new_id())
    assert await tokens(store) == before


async def test_a_node_that_left_leads_no_shards(store: Store) -> None:
    node, _ = await lead(store)
    heir = await join_scheduler(store)
    await store.nodes.leave(SYSTEM, node)
    assert len(await store.shards.hold(SYSTEM, heir)) == SHARDS


async def test_a_shard_given_up_is_taken_at_once(store: Store) -> None:
    node, held = await lead(store)
    heir = await join_scheduler(store)
    assert await store.shards.give_up(SYSTEM, node) == SHARDS
    assert {shard.node for shard in await store.shards.list(SYSTEM)} == {None}
    assert await store.shards.give_up(SYSTEM, node) == 0
    taken = await store.shards.hold(SYSTEM, heir)
    assert shards(taken) == {*ALL_SHARDS}
    before = {grant.shard: grant.token for grant in held}
    assert all(grant.token > before[grant.shard] for grant in taken)


async def test_a_node_that_gave_up_stays_alive_without_shards(
    store: Store, clock: VirtualClock
) -> None:
    """It drains running handlers under its lease and does not count as a leader meanwhile."""
    stops = new_id()
    await store.nodes.join(
        SYSTEM, stops, name="s", roles=["api", "scheduler", "worker"], ttl_seconds=15
    )
    first, heir = await join_scheduler(store), await join_scheduler(store)
    assert await store.shards.give_up(SYSTEM, stops) == 0
    for node in (first, heir):
        assert len(await store.shards.hold(SYSTEM, node)) == SHARDS // 2
    clock.advance(seconds=10)
    renewed = await store.nodes.heartbeat(SYSTEM, stops, ttl_seconds=15)
    assert renewed.roles == ("api", "worker")


async def test_a_node_that_gave_up_takes_no_shards_until_it_resumes(store: Store) -> None:
    """An earlier call of the node may arrive after it."""
    node = new_id()
    await store.nodes.join(SYSTEM, node, name="b", roles=["scheduler", "worker"], ttl_seconds=9)
    before = {grant.shard: grant.token for grant in await store.shards.hold(SYSTEM, node)}
    await store.shards.give_up(SYSTEM, node)
    assert await store.shards.hold(SYSTEM, node) == ()
    assert {shard.node for shard in await store.shards.list(SYSTEM)} == {None}
    for _ in range(2):  # Repeating it changes nothing.
        await store.shards.come_back(SYSTEM, node)
    (found,) = await store.nodes.list(SYSTEM)
    assert sorted(found.roles) == ["scheduler", "worker"]
    taken = await store.shards.hold(SYSTEM, node)
    assert shards(taken) == {*ALL_SHARDS}
    assert all(grant.token > before[grant.shard] for grant in taken)


async def test_a_node_that_resumes_gets_its_share_again(store: Store) -> None:
    (first, _), (second, _) = await lead(store), await lead(store)
    await store.shards.give_up(SYSTEM, first)
    assert len(await store.shards.hold(SYSTEM, second)) == SHARDS
    await store.shards.come_back(SYSTEM, first)
    assert await store.shards.hold(SYSTEM, first) == (), "nobody takes from the living"
    for node in (second, first):
        assert len(await store.shards.hold(SYSTEM, node)) == SHARDS // 2


async def test_a_node_with_an_expired_lease_cannot_resume(
    store: Store, clock: VirtualClock
) -> None:
    node = await join_scheduler(store, ttl_seconds=15)
    await store.shards.give_up(SYSTEM, node)
    clock.advance(seconds=15.001)
    for gone in (node, new_id()):
        with pytest.raises(NodeExpired):
            await store.shards.come_back(SYSTEM, gone)


async def test_a_shard_that_is_behind_is_reported_whoever_leads_it(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    later, sooner, other = [
        await create(store, clock, interval_seconds=seconds, schedule_id=in_shard(shard))
        for seconds, shard in ((120, 3), (60, 3), (60, 9))
    ]
    await pause(store, await create(store, clock, schedule_id=in_shard(20)))
    assert sooner.due_at is not None
    assert await store.shards.behind(SYSTEM, sooner.due_at) == ()
    just_after = sooner.due_at + timedelta(microseconds=1)
    found = {3: sooner.due_at, 9: other.due_at}
    assert dict(await store.shards.behind(SYSTEM, just_after)) == found
    leader = await lead(store)
    assert dict(await store.shards.behind(SYSTEM, just_after)) == found
    await pause(store, sooner)
    assert dict(await store.shards.behind(SYSTEM, just_after)) == {9: other.due_at}
    clock.advance(seconds=3_600)
    assert dict(await store.shards.behind(SYSTEM, clock.now()))[3] == later.due_at
    await write(store, leader, await planned(store, clock, leader))
    assert await store.shards.behind(SYSTEM, clock.now()) == ()


async def test_a_shard_kept_in_a_new_epoch_gets_a_token_of_that_epoch(
    home: Home, store: Store, clock: VirtualClock
) -> None:
    """A promoted replica may have missed the last handover, which had a higher token."""
    node, before = await lead(store)
    clock.advance(seconds=10)
    await tables.fetch(home.url, "UPDATE tickwork_meta SET epoch = epoch + 1")
    after = await store.shards.hold(SYSTEM, node)
    epochs = {split_token(grant.token)[0] for grant in before}
    assert {split_token(grant.token)[0] for grant in after} == {epoch + 1 for epoch in epochs}
    assert shards(after) == {*ALL_SHARDS}
    assert await store.shards.hold(SYSTEM, node) == after
    since = {shard.taken_at for shard in await store.shards.list(SYSTEM)}
    assert since == {clock.now() - timedelta(seconds=10)}, "it was never another's"


async def test_tokens_rise_with_every_handover_and_only_then(store: Store) -> None:
    node, _ = await lead(store)
    last = await tokens(store)
    for _ in range(3):
        await store.shards.hold(SYSTEM, node)
        assert await tokens(store) == last
        await store.shards.give_up(SYSTEM, node)
        await store.shards.come_back(SYSTEM, node)
        await store.shards.hold(SYSTEM, node)
        now = await tokens(store)
        assert all(now[shard] > last[shard] for shard in ALL_SHARDS)
        last = now


async def test_a_token_has_room_for_the_epoch(store: Store) -> None:
    _, grants = await lead(store)
    for grant in grants:
        epoch, counter = split_token(grant.token)
        assert counter >= 1
        assert epoch >= (await store.meta()).epoch


async def test_a_node_under_a_new_identity_gets_other_tokens(
    store: Store, clock: VirtualClock
) -> None:
    """The same node under a new identity has other tokens."""
    _, held = await lead(store, ttl_seconds=15)
    clock.advance(seconds=16)
    _, taken = await lead(store)
    assert {*held}.isdisjoint(taken)


async def test_after_shards_are_replaced_old_leaders_change_nothing(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [await create(store, clock) for _ in range(20)]
    for count in (1, 256, 64):
        node, old = leader = await lead(store)
        clock.advance(seconds=60)
        plans = await planned(store, clock, leader)
        assert {plan.id for plan in plans} == {schedule.id for schedule in made}
        await store.shards.replace(SYSTEM, count)
        assert {shard.node for shard in await store.shards.list(SYSTEM)} == {None}
        assert (await write(store, leader, plans)).lost == tuple(range(len(made)))
        heir = leader._replace(grants=await store.shards.hold(SYSTEM, node))
        assert sorted(shards(heir.grants)) == [*range(count)]
        assert min(grant.token for grant in heir.grants) > max(grant.token for grant in old)
        assert (await write(store, leader, plans)).lost == tuple(range(len(made)))
        again = await planned(store, clock, heir)
        assert {plan.shard for plan in again} == {
            shard_of(bucket_of(schedule.id), count) for schedule in made
        }
        assert len((await write(store, heir, again)).done) == len(made)
        await store.shards.drop_old_indexes(SYSTEM)
        assert await store.shards.give_up(SYSTEM, node) == count
        await store.nodes.leave(SYSTEM, node)
