"""Triggers and leaders record what happened, on both stores."""

from pathlib import Path

import pytest

from tests.conformance.acts import make_queue, pull
from tests.conformance.schedule_acts import create, end, lead, pause, planned, resume
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tickwork.core.limits import TTL_SECONDS_MAX
from tickwork.core.model import SYSTEM
from tickwork.core.schedule.model import SHARDS
from tickwork.core.when import just_before
from tickwork.store.contract import Store
from tickwork.testing.checkers import History, PlanEntry, WatchedSchedule, find_violations
from tickwork.testing.recorder import PlanLog, read_history, read_plans, record

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def history_of(
    store: Store, home: Home, clock: VirtualClock, folder: Path, *, withdraw: bool
) -> History:
    """A schedule is planned for half a minute, and its first slot is handled."""
    await make_queue(store)
    await record(home.url)
    made = await create(store, clock, interval_seconds=10)
    assert made.next_slot is not None
    since = just_before(made.next_slot)
    leader, log = await lead(store), PlanLog(store.schedules, folder / "plans")
    await log.plan(SYSTEM, leader.grants, await planned(store, clock, leader))
    clock.advance(seconds=10)
    (message,) = await pull(store)
    if withdraw:
        await pause(store, made)
        await resume(store, made)
        await log.plan(SYSTEM, leader.grants, await planned(store, clock, leader))
    await end(store, message)
    clock.advance(seconds=1)
    await store.nodes.heartbeat(SYSTEM, leader.node, TTL_SECONDS_MAX)
    log.close()
    watched = WatchedSchedule(id=made.id, rule=made.definition.rule, since=since, until=clock.now())
    return await read_history(store, home.url, [watched], read_plans([folder / "plans"]))


async def test_messages_hand_overs_renewals_and_records_are_seen(
    store: Store, home: Home, clock: VirtualClock, tmp_path: Path
) -> None:
    history = await history_of(store, home, clock, tmp_path, withdraw=False)
    assert find_violations(history) == ()
    assert len(history.handed_over) == SHARDS
    assert {hand_over.former for hand_over in history.handed_over} == {None}
    assert (
        len({hand_over.node for hand_over in history.handed_over} | {history.renewed[0].node}) == 1
    )
    first, *coming = history.stored
    assert (first.run, first.slot, len(coming)) == (0, history.firings[0].slot, 2)
    assert {slot.message_id for slot in coming} == history.open_messages
    assert {(slot.shard, slot.token) for slot in history.stored} <= {
        (hand_over.shard, hand_over.token) for hand_over in history.handed_over
    }
    assert [(firing.slot, firing.status) for firing in history.firings] == [
        (first.slot, "succeeded")
    ]


async def test_what_a_leader_asked_and_was_told_is_seen(
    store: Store, home: Home, clock: VirtualClock, tmp_path: Path
) -> None:
    history = await history_of(store, home, clock, tmp_path, withdraw=False)
    assert history.planned == [
        PlanEntry(
            schedule_id=stored_slot.schedule_id,
            slot=stored_slot.slot,
            token=stored_slot.token,
            is_done=is_done,
        )
        for is_done in (False, True)
        for stored_slot in history.stored
    ]


async def test_what_is_taken_back_and_planned_again_is_no_double(
    store: Store, home: Home, clock: VirtualClock, tmp_path: Path
) -> None:
    history = await history_of(store, home, clock, tmp_path, withdraw=True)
    assert len(history.withdrawn) == 2
    assert len(history.kept) == len(history.stored) - 2 == 4
    assert find_violations(history) == ()


async def test_a_line_that_its_writer_did_not_finish_is_no_belief(
    store: Store, home: Home, clock: VirtualClock, tmp_path: Path
) -> None:
    history = await history_of(store, home, clock, tmp_path, withdraw=False)
    path = tmp_path / "plans"
    path.write_bytes(path.read_bytes()[:-5])
    assert read_plans([path]) == history.planned[:-1]
