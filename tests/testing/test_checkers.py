"""Each checker finds the violation it is for, and nothing in a correct history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from tests.core.schedules import CREATED, ID, at
from tickwork.core.schedule.firing import FiringRecord, FiringStatus
from tickwork.core.when import parse
from tickwork.testing.checkers import (
    CHECKERS,
    HandOver,
    History,
    LeaseRenewal,
    PlanEntry,
    StoredSlot,
    WatchedSchedule,
    decreasing_tokens,
    duplicate_slots,
    early_firings,
    find_violations,
    lost_messages,
    not_recovered,
    shards_taken_from_live_nodes,
    slots_outside_rule,
    stale_writes,
    uncovered_slots,
)

HOURLY = parse({"cron_expr": "0 * * * *"})
SLOTS = [at(f"{hour:02}:00") for hour in range(1, 7)]
WATCHED = WatchedSchedule(id=ID, rule=HOURLY, since=at("00:30"), until=at("06:30"))


def a_message(slot: datetime, order: int, **changes: Any) -> StoredSlot:
    plain = StoredSlot(
        order=order,
        schedule_id=ID,
        slot=slot,
        run=0,
        message_id=UUID(int=order),
        shard=7,
        token=1,
    )
    return structs.replace(plain, **changes)


def a_record(slot: datetime, status: FiringStatus, **changes: Any) -> FiringRecord:
    plain = FiringRecord(
        id=UUID(int=9),
        tenant="default",
        schedule_id=ID,
        slot=slot,
        run=0,
        attempt=1,
        status=status,
        reason=None,
        due_at=slot,
        started_at=slot,
        finished_at=slot + timedelta(seconds=1),
        result_code=None,
        excerpt=None,
        channels=(),
        catch_up=False,
        count=1,
        last_slot=None,
    )
    return structs.replace(plain, **changes)


def a_skip(first: datetime, last: datetime | None, count: int) -> FiringRecord:
    return a_record(
        first,
        FiringStatus.SKIPPED,
        attempt=0,
        reason="skipped_missed",
        count=count,
        last_slot=last,
    )


def good() -> History:
    """Six slots: four fired, two were missed and are one record."""
    fired = [SLOTS[0], *SLOTS[3:]]
    return History(
        schedules=[WATCHED],
        handed_over=[HandOver(order=1, shard=7, token=1)],
        stored=[a_message(slot, order) for order, slot in enumerate(fired, start=10)],
        planned=[PlanEntry(schedule_id=ID, slot=slot, token=1) for slot in fired],
        firings=[
            *(a_record(slot, FiringStatus.SUCCEEDED) for slot in fired),
            a_skip(SLOTS[1], SLOTS[2], 2),
        ],
    )


def test_a_good_history_has_no_faults() -> None:
    assert find_violations(good()) == ()


def test_a_day_off_without_a_record_or_with_two_is_seen() -> None:
    rule = parse({"cron_expr": "0 */12 * * *", "exclude": ["2026-03-02"]})
    watched = WatchedSchedule(id=ID, rule=rule, since=at("2026-03-01T13:00"), until=at("23:00"))
    off = structs.replace(a_skip(at("00:00"), at("12:00"), 2), reason="excluded")
    history = History(schedules=[watched], firings=[off])
    assert find_violations(history) == ()
    assert len([*uncovered_slots(structs.replace(history, firings=[]))]) == 2
    assert len([*uncovered_slots(structs.replace(history, firings=[off, off]))]) == 2
    short = structs.replace(off, last_slot=None, count=1)
    assert len([*uncovered_slots(structs.replace(history, firings=[short]))]) == 1


def test_a_slot_without_message_and_record_is_seen() -> None:
    history = good()
    assert [*uncovered_slots(structs.replace(history, stored=history.stored[1:]))]


def test_a_slot_that_fired_and_was_skipped_is_seen() -> None:
    history = good()
    more = [*history.stored, a_message(SLOTS[1], 99)]
    assert [*uncovered_slots(structs.replace(history, stored=more))]


def test_a_run_that_miscounts_is_seen() -> None:
    history = good()
    wrong = [*history.firings[:-1], a_skip(SLOTS[1], SLOTS[2], 3)]
    assert [*uncovered_slots(structs.replace(history, firings=wrong))]


def test_a_second_message_of_a_slot_is_seen() -> None:
    history = good()
    again = [*history.stored, a_message(SLOTS[0], 99)]
    assert [*duplicate_slots(structs.replace(history, stored=again))]


@pytest.mark.parametrize("token", [1, 0])
def test_a_token_that_does_not_rise_is_seen(token: int) -> None:
    history = good()
    more = [*history.handed_over, HandOver(order=50, shard=7, token=token)]
    assert [*decreasing_tokens(structs.replace(history, handed_over=more))]


def handed_over_before(last: StoredSlot) -> History:
    """Its shard has a new leader when the last message is stored."""
    history = good()
    return structs.replace(
        history,
        handed_over=[*history.handed_over, HandOver(order=50, shard=7, token=2)],
        stored=[*history.stored[:-1], last],
    )


def test_a_write_under_another_token_than_the_shards_is_seen() -> None:
    assert [*stale_writes(handed_over_before(a_message(SLOTS[5], 60, token=2)))]


def test_whoever_changes_a_schedule_may_have_written_it() -> None:
    by_hand = handed_over_before(a_message(SLOTS[5], 60, token=2))
    assert not [*stale_writes(structs.replace(by_hand, changed=frozenset({ID})))]
    stale = handed_over_before(a_message(SLOTS[5], 60))
    assert [*stale_writes(structs.replace(stale, changed=frozenset({ID})))]


def test_who_was_told_that_it_is_done_wrote_it() -> None:
    history = good()
    asked = structs.replace(history.planned[0], token=2)
    told = structs.replace(asked, is_done=True)
    assert not [*stale_writes(structs.replace(history, planned=[*history.planned, asked]))]
    assert [*stale_writes(structs.replace(history, planned=[*history.planned, told]))]


def test_a_slot_that_was_taken_back_and_planned_again_is_no_fault() -> None:
    history = good()
    again = a_message(SLOTS[0], 60, token=2)
    told = PlanEntry(schedule_id=ID, slot=SLOTS[0], token=2, is_done=True)
    changed = structs.replace(
        history,
        handed_over=[*history.handed_over, HandOver(order=50, shard=7, token=2)],
        stored=[*history.stored, again],
        planned=[*history.planned, structs.replace(told, is_done=False), told],
        withdrawn=frozenset({history.stored[0].message_id}),
    )
    assert find_violations(changed) == ()


def test_a_slot_that_was_taken_back_must_be_accounted_for() -> None:
    history = good()
    gone = frozenset({history.stored[0].message_id})
    assert [*uncovered_slots(structs.replace(history, withdrawn=gone, firings=history.firings[1:]))]
    expired = a_record(SLOTS[0], FiringStatus.EXPIRED, attempt=0)
    records = [expired, *history.firings[1:]]
    assert not [*uncovered_slots(structs.replace(history, withdrawn=gone, firings=records))]


def test_a_message_that_is_no_slot_of_its_rule_is_seen() -> None:
    history = good()
    strange = a_message(SLOTS[0] + timedelta(minutes=1), 99)
    assert [*slots_outside_rule(structs.replace(history, stored=[*history.stored, strange]))]
    extra = structs.replace(strange, run=1)
    assert not [*slots_outside_rule(structs.replace(history, stored=[*history.stored, extra]))]


def test_a_node_that_lives_on_after_a_shard_was_taken_from_it_is_seen() -> None:
    old, new = UUID(int=1), UUID(int=2)
    taken = HandOver(order=50, shard=7, token=2, node=new, former=old)
    before, after = LeaseRenewal(order=49, node=old), LeaseRenewal(order=51, node=old)
    assert not [*shards_taken_from_live_nodes(History(handed_over=[taken], renewed=[before]))]
    assert [*shards_taken_from_live_nodes(History(handed_over=[taken], renewed=[before, after]))]
    given_up = structs.replace(taken, former=None)
    assert not [
        *shards_taken_from_live_nodes(History(handed_over=[given_up], renewed=[before, after]))
    ]
    back = HandOver(order=52, shard=7, token=3, node=old)
    assert [*shards_taken_from_live_nodes(History(handed_over=[taken, back]))]


def test_a_firing_before_its_time_is_seen() -> None:
    early = a_record(CREATED, FiringStatus.SUCCEEDED, started_at=CREATED - timedelta(seconds=1))
    assert [*early_firings(History(firings=[early]))]


def test_a_message_without_an_end_is_seen_unless_it_is_still_there() -> None:
    history = good()
    lost = structs.replace(history, firings=history.firings[1:])
    assert [*lost_messages(lost)]
    there = structs.replace(lost, open_messages=frozenset({history.stored[0].message_id}))
    assert not [*lost_messages(there)]


def test_what_stays_overdue_or_without_a_leader_is_seen() -> None:
    assert [*not_recovered(History(overdue=[ID]))]
    assert [*not_recovered(History(shards_without_leader=[3]))]


def test_every_checker_is_in_the_verdict() -> None:
    assert {checker.__name__ for checker in CHECKERS} >= {
        "uncovered_slots",
        "duplicate_slots",
        "slots_outside_rule",
        "decreasing_tokens",
        "shards_taken_from_live_nodes",
        "stale_writes",
        "early_firings",
        "lost_messages",
        "not_recovered",
    }
