"""Leadership: a node plans only shards that it can prove to lead."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.schedule_acts import join_scheduler
from tests.stores.clock import VirtualClock
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.core.schedule.shards import Grant
from tickwork.service.observe.repeats import RepeatedLines
from tickwork.service.observe.schedule_log import ScheduleLog
from tickwork.service.scheduler.leadership import Leadership
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


class Identity:
    """A node as leadership sees it: who it is, and whether its lease is trusted."""

    def __init__(self, node_id: UUID) -> None:
        self.id, self.is_trusted = node_id, True

    def leadership(self, store: Store) -> Leadership:
        return Leadership(store, lambda: self.id, is_trusted=lambda: self.is_trusted)


@pytest.fixture
async def node(store: Store) -> Identity:
    return Identity(await join_scheduler(store, ttl_seconds=15))


async def test_before_it_holds_it_leads_nothing(store: Store, node: Identity) -> None:
    leadership = node.leadership(store)
    assert (leadership.grants, leadership.shard_count) == ((), 0)
    assert await leadership.hold()
    assert len(leadership.grants) == leadership.shard_count == SHARDS
    assert not await leadership.hold(), "nothing has changed"


async def test_two_nodes_come_to_equal_shares_without_a_word(store: Store, node: Identity) -> None:
    first = node.leadership(store)
    await first.hold()
    second = Identity(await join_scheduler(store)).leadership(store)
    await second.hold()
    assert second.grants == ()
    for leadership in (first, second):
        await leadership.hold()
    shards = [{grant.shard for grant in leader.grants} for leader in (first, second)]
    assert [len(shard) for shard in shards] == [SHARDS // 2] * 2
    assert not shards[0] & shards[1]
    assert (first.lost, second.lost) == (0, 0), "what was given up is not lost"


async def test_without_trust_it_leads_nothing_and_with_it_again(
    store: Store, node: Identity
) -> None:
    leadership = node.leadership(store)
    await leadership.hold()
    granted = leadership.grants
    node.is_trusted = False
    assert leadership.grants == ()
    node.is_trusted = True
    assert leadership.grants == granted


async def test_a_refused_shard_is_dropped_at_once_and_asked_for_again(
    store: Store, node: Identity
) -> None:
    leadership = node.leadership(store)
    await leadership.hold()
    leadership.drop_shards([3, 3, 5, 99])
    assert {3, 5}.isdisjoint(grant.shard for grant in leadership.grants)
    assert (leadership.shard_count, leadership.lost) == (SHARDS - 2, 2)
    assert await leadership.hold()
    assert leadership.shard_count == SHARDS


async def test_another_identity_leads_nothing_of_what_the_old_one_led(
    store: Store, node: Identity
) -> None:
    leadership = node.leadership(store)
    await leadership.hold()
    old, node.id = node.id, await join_scheduler(store)
    assert leadership.grants == (), "before anybody said so"
    leadership.forget_node(old)
    assert (leadership.shard_count, leadership.lost) == (0, SHARDS)
    leadership.forget_node(old)
    assert leadership.lost == SHARDS


async def test_a_lease_that_ran_out_is_found_out_by_holding(
    store: Store, node: Identity, clock: VirtualClock
) -> None:
    leadership = node.leadership(store)
    await leadership.hold()
    clock.advance(seconds=16)
    assert not await leadership.hold()
    assert (leadership.grants, leadership.lost) == ((), SHARDS)
    node.id = await join_scheduler(store)
    assert await leadership.hold()
    assert leadership.shard_count == SHARDS


async def test_an_answer_to_who_we_were_counts_for_nothing(store: Store, node: Identity) -> None:
    old, new = node.id, new_id()

    class Slow:
        """Answers when the identity has changed."""

        async def hold(self, scope: object, node_id: UUID) -> tuple[Grant, ...]:
            assert (scope, node_id) == (SYSTEM, old)
            granted = await store.shards.hold(SYSTEM, node_id)
            node.id = new
            return granted

    class Around:
        shards = Slow()

    leadership = node.leadership(Around())  # type: ignore[arg-type]
    assert not await leadership.hold()
    assert (leadership.shard_count, leadership.grants) == (0, ())


async def test_what_was_given_up_for_us_is_not_ours_nor_an_answer_from_before(
    store: Store, node: Identity
) -> None:
    term = 0

    class Slow:
        """Answers when the term is another."""

        async def hold(self, scope: object, node_id: UUID) -> tuple[Grant, ...]:
            nonlocal term
            assert scope == SYSTEM
            granted = await store.shards.hold(SYSTEM, node_id)
            term += 1
            return granted

    class Around:
        shards: Any = store.shards

    around: Any = Around()
    leadership = Leadership(around, lambda: node.id, is_trusted=lambda: True, term=lambda: term)
    await leadership.hold()
    assert len(leadership.grants) == SHARDS
    term += 1
    assert leadership.grants == ()
    around.shards = Slow()
    assert not await leadership.hold()
    assert leadership.grants == ()
    around.shards = store.shards
    await leadership.hold()
    assert len(leadership.grants) == SHARDS
    assert leadership.lost == 0, "it was given up"


async def test_who_leads_more_than_before_says_so_once(
    store: Store, node: Identity, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    survivor, log = node.leadership(store), ScheduleLog(RepeatedLines())
    dies = Identity(await join_scheduler(store, ttl_seconds=15)).leadership(store)
    for leadership in (survivor, dies, survivor):
        await leadership.hold()
        log.shards_led(survivor.shard_count, survivor.lost)
    assert (survivor.shard_count, dies.shard_count) == (SHARDS // 2, SHARDS // 2)
    caplog.set_level(logging.INFO, "tickwork")
    clock.advance(seconds=10)
    await store.nodes.heartbeat(SYSTEM, node.id, ttl_seconds=15)
    clock.advance(seconds=10)
    for _ in range(3):
        await survivor.hold()
        log.shards_led(survivor.shard_count, survivor.lost)
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"leads shards={SHARDS} now, {SHARDS // 2} more than before"]


async def test_what_is_given_up_others_take_at_once(store: Store, node: Identity) -> None:
    leadership = node.leadership(store)
    await leadership.hold()
    heir = Identity(await join_scheduler(store)).leadership(store)
    await leadership.give_up()
    assert (leadership.grants, leadership.lost) == ((), 0)
    await heir.hold()
    assert heir.shard_count == SHARDS
    await store.nodes.leave(SYSTEM, node.id)
    assert not await heir.hold()
