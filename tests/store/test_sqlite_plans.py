"""Hot statements reach their rows through an index, however large the tables are."""

import sqlite3

import pytest

from tests.store.query_plans import connection, plan, reached, way
from tickwork.store.sqlite.engine.sql import SQL

__all__ = ["connection"]

BY_KEY = "sqlite_autoindex_tickwork_messages_1"
BY_PLACE = "INTEGER PRIMARY KEY"
BY_SLOT = "tickwork_messages_slot"

SORTED = {
    *("find_claimable_suspects", "claimed_kinds", "count_plain_ended", "newer_due", "find_trace"),
    *("ready_window_end", "key_window_end", "keys_window_end", "correlated_window_end"),
    *("choose_probe", "planned_slots"),
}
"""Statements that may sort: a trace by time, settlements sort by kind, newer slots are counted, as
are the rows that a page looks at, up to a limit, suspects are sorted by lost claims, and some
deliveries by their last attempts."""

SEARCHES = {
    "ack": {BY_KEY, BY_PLACE},
    "ack_plain": {BY_PLACE},
    "record_plain_history": {BY_PLACE},
    "mark_correlations": {BY_PLACE},
    "read_bodies": {BY_PLACE},
    "record_dead_letters": {BY_PLACE},
    "move_planned_slots": {BY_SLOT, BY_PLACE},
    "find_claimable": {"tickwork_messages_ready"},
    "find_claimable_of_receiver": {"tickwork_messages_receiver"},
    "find_claimable_suspects": {"tickwork_messages_suspect", "tickwork_messages_counted"},
    "suspects": {"tickwork_messages_suspect"},
    "with_ready": {"tickwork_messages_ready"},
    "waiting_message": {BY_KEY},
    "count_claimed": {"tickwork_messages_counted"},
    "count_limited": {"tickwork_messages_counted", BY_KEY},
    "claimed_run": {BY_KEY},
    "clear_lost_claims": {BY_KEY},
    "lock_run_message": {BY_KEY},
    "assign_version": {BY_KEY},
    "diverge_run": {BY_KEY},
    "wake_signalled_runs": {BY_KEY},
    "take_run_message": {BY_KEY},
    "list_child_runs": {BY_KEY},
    "list_runs": {BY_KEY},
    "run_activities": {BY_KEY},
    "fail_lost_runs": {"tickwork_messages_holder"},
    "route_run_message": {BY_KEY},
    "forgive_lost_claims": {"tickwork_messages_holder"},
    "wake_run_message": {BY_KEY},
    "delete_ended_uses": {BY_KEY},
    "complete_schedules": {BY_PLACE},
    "count_unfinished": {BY_SLOT},
    "delete_message": {BY_KEY},
    "delete_messages": {BY_PLACE},
    "due_schedules": {BY_SLOT},
    "unfinished_slots": {BY_SLOT},
    "expire_pull_leases": {BY_PLACE},
    "expired_pull_leases": {"tickwork_messages_lease"},
    "expired_messages": {"tickwork_messages_expiring"},
    "extend": {BY_KEY},
    "fire_keyed_slot": {"tickwork_messages_key"},
    "stored_ids": {BY_PLACE},
    "get_batch": {"tickwork_messages_batch_claimed"},
    "get_message": {BY_KEY},
    "give_back": {"tickwork_messages_holder"},
    "give_back_unknown": {BY_PLACE},
    "claim": {BY_PLACE},
    "claimed_kinds": {BY_PLACE},
    "count_plain_ended": {BY_PLACE},
    "claimed_by": {"tickwork_messages_holder"},
    "claimed_rowid": {BY_KEY},
    "message_rowids": {BY_KEY},
    "claimed_slots": {BY_KEY},
    "take_message": {BY_KEY},
    "slots_to_copy": {BY_KEY},
    "waiting_copies": {BY_KEY},
    "ready_tenants": {"tickwork_messages_ready", BY_PLACE},
    "ready_receivers": {"tickwork_messages_receiver", BY_PLACE},
    "last_fired_slot": {BY_SLOT},
    "last_due_slots": {BY_SLOT},
    "planned_slots": {BY_SLOT},
    "planned_slots_of": {BY_SLOT},
    "has_later_run": {BY_SLOT},
    "list_batches": {"tickwork_messages_batch_claimed"},
    "lost_too_often": {"tickwork_messages_holder"},
    "forward_dead_letter": {"tickwork_messages_key"},
    "newer_due": {BY_SLOT},
    "newest_message": {BY_PLACE, ""},
    "show_successes": {BY_PLACE},
    "next_expiry": {"tickwork_messages_lease", "tickwork_messages_expiring"},
    "list_ready": {"tickwork_messages_ready"},
    "count_ahead": {"tickwork_messages_ready"},
    "count_line": {"tickwork_messages_receiver", "tickwork_messages_holder"},
    "list_of_key": {"tickwork_messages_key"},
    "list_of_keys": {"tickwork_messages_key"},
    "list_correlated": {"tickwork_messages_correlation"},
    "ready_window_end": {"tickwork_messages_ready"},
    "key_window_end": {"tickwork_messages_key"},
    "keys_window_end": {"tickwork_messages_key"},
    "correlated_window_end": {"tickwork_messages_correlation"},
    "next_visible_at": {"tickwork_messages_ready", BY_PLACE},
    "peek": {"tickwork_messages_ready"},
    "pending_items": {"tickwork_messages_batch"},
    "waiting_items": {"tickwork_messages_batch"},
    "unblock_keys": {"tickwork_messages_key", BY_PLACE},
    "passing_calls": {"tickwork_messages_key", "tickwork_messages_calls", BY_PLACE},
    "block_message": {BY_PLACE},
    "move_call_ahead": {"", BY_PLACE},
    "purge_blocked": {"tickwork_messages_held", BY_PLACE},
    "purge_ready": {"tickwork_messages_ready", BY_PLACE},
    "record_successes": {BY_PLACE},
    "record_event": set[str](),
    "retired_messages": {"tickwork_messages_ready"},
    "retry": {BY_KEY},
    "schedule_messages": {BY_SLOT},
    "send": set[str](),
    "send_keyed": {"tickwork_messages_key"},
    "send_plain": set[str](),
    "slots_of_messages": {BY_PLACE},
    "stored_rows": {BY_PLACE},
    "waiting_schedules": {BY_SLOT},
    "withdrawable_slots": {BY_SLOT},
}
"""How each hot statement reaches its messages."""

SEARCHES |= {
    name: {BY_KEY}
    for name in (
        *("claimed_attempts", "deliveries_to_resend", "waiting_deliveries"),
        *("prune_deliveries", "show_messages", "choose_probe", "put_back_probe", "wake_enabled"),
    )
}
"""Deliveries to endpoints look up their messages."""

SEARCHES |= {
    "find_trace": {"tickwork_messages_correlation", BY_KEY},
    "delete_alarms": {BY_KEY},
    "delete_calls_of_dead_nodes": {"tickwork_messages_caller", BY_PLACE},
    "count_waiting_calls": {"tickwork_messages_key"},
    "enter_call": {"tickwork_messages_key"},
    "entered_call": {BY_KEY},
    "withdraw_call": {BY_KEY},
}
"""Calls of entities."""

SELDOM = {
    *("recount_backlog", "count_claims", "count_messages", "delete_queue", "processing_items"),
    "count_waiting",
    *("claims_of_holders", "ids_ending", "list_claimed"),
    *("count_tenant_messages", "count_tenant_claims", "count_claimed_of_tenants"),
}
"""These use an index, too, but read all matching rows, or sort them."""

COUNTED_FROM = {
    *("tickwork_messages_ready", "tickwork_messages_holder", "tickwork_messages_held", BY_PLACE)
}

BY_OTHER_WAYS = {
    "abandoned_batches": "tickwork_batches_filling",
    "count_limited": "tickwork_queues_limit",
    "get_limit": "tickwork_limits_name",
    "bury_resent_deliveries": "tickwork_deliveries_message",
    "due_probes": "tickwork_endpoints_probe",
    "endpoint_dead": "tickwork_deliveries_endpoint_dead",
    "endpoint_deliveries": "tickwork_deliveries_endpoint",
    "endpoint_undelivered": "tickwork_deliveries_endpoint_open",
    "prune_deliveries": "tickwork_deliveries_tenant",
    "prune_published": "tickwork_published_age",
    "resolve_dead_letters": "tickwork_dead_letters_message",
    "dead_letter_of_message": "tickwork_dead_letters_message",
    "tenant_dead": "tickwork_deliveries_tenant_dead",
    "tenant_deliveries": "tickwork_deliveries_tenant",
    "tenant_undelivered": "tickwork_deliveries_tenant_open",
    "undelivered_ids": "tickwork_deliveries_endpoint_open",
    "waiting_deliveries": "tickwork_deliveries_endpoint_open",
    "pick_dead_letters_by_id": "tickwork_dead_letters_id",
    "list_entities": "tickwork_entities_key",
    "prune_entity_results": "tickwork_entity_results_age",
    "ended_batches": "tickwork_batches_ended",
    "dead_letter_position": "tickwork_dead_letters_id",
    "list_batches": "tickwork_batches_latest",
    "list_firings": "tickwork_firings_schedule",
    "old_batches": "tickwork_batches_completed",
    "pick_dead_letters": "tickwork_dead_letters_open",
    "pick_tenant_dead_letters": "tickwork_dead_letters_own",
    "prune_events": "tickwork_events_done_age",
    "prune_firings": "tickwork_firings_age",
    "prune_dead_letters": "tickwork_dead_letters_age",
    "prune_schedules": "tickwork_schedules_deleted",
    "prune_counters": "tickwork_tallies_age",
    "count_entities": "tickwork_entities_key",
    "subscriptions_of": "tickwork_subscriptions_once",
}
"""How rows of other tables are found, in order where there is one."""


def on_messages(steps: list[str]) -> list[str]:
    return reached(steps, "tickwork_messages", "m", "last")


@pytest.mark.parametrize("name", SEARCHES)
def test_a_hot_statement_reaches_messages_by_its_index(
    connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(connection, name)
    found = on_messages(steps)
    assert [step for step in found if not step.startswith("SEARCH")] == []
    assert {way(step) for step in found} == SEARCHES[name]
    assert name in SORTED or [step for step in steps if "TEMP B-TREE" in step] == []


def test_every_statement_on_messages_is_tested(connection: sqlite3.Connection) -> None:
    touching = {name for name in vars(SQL) if on_messages(plan(connection, name))}
    assert touching - set(SEARCHES) == SELDOM


@pytest.mark.parametrize("name", BY_OTHER_WAYS)
def test_lookups_by_age_or_name_use_an_index(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, name)
    assert [step for step in steps if f"INDEX {BY_OTHER_WAYS[name]}" in step] != []
    assert [step for step in steps if "TEMP B-TREE" in step] == []


def test_messages_of_one_tenant_and_priority_are_read_in_order_by_a_range(
    connection: sqlite3.Connection,
) -> None:
    for name in ("find_claimable", "peek", "retired_messages"):
        (step,) = on_messages(plan(connection, name))
        assert "(queue_id=? AND tenant=? AND priority=? AND visible_at<?)" in step


def test_ready_tenants_are_found_without_reading_messages(
    connection: sqlite3.Connection,
) -> None:
    by_index = [
        step
        for step in on_messages(plan(connection, "ready_tenants"))
        if "tickwork_messages_ready" in step
    ]
    assert len(by_index) == 4
    assert all("COVERING" in step for step in by_index)


def test_waiting_messages_are_counted_from_a_covering_index(
    connection: sqlite3.Connection,
) -> None:
    steps = on_messages(plan(connection, "count_messages"))
    assert {way(step) for step in steps} == COUNTED_FROM
    few = ("tickwork_messages_holder", BY_PLACE)
    waiting = [step for step in steps if way(step) not in few]
    assert all("COVERING" in step for step in waiting)
    letters = [step for step in plan(connection, "count_messages") if "dead_letters" in step]
    assert [way(step) for step in letters if "COVERING" in step] == ["tickwork_dead_letters_own"]


def test_depths_are_measured_from_a_covering_index(connection: sqlite3.Connection) -> None:
    steps = on_messages(plan(connection, "count_waiting"))
    assert {way(step) for step in steps} == {"tickwork_messages_ready", BY_PLACE}
    assert all("COVERING" in step for step in steps if way(step) != BY_PLACE)


def test_dead_letters_are_grouped_from_a_covering_index_in_its_order(
    connection: sqlite3.Connection,
) -> None:
    steps = plan(connection, "group_dead_letters")
    (read,) = [step for step in steps if "tickwork_dead_letters" in step]
    assert ("COVERING" in read, way(read)) == (True, "tickwork_dead_letters_group")
    sorts = [step for step in steps if "TEMP B-TREE" in step]
    assert len(sorts) == 2, "of the groups only, by cause and by size"


def test_selected_dead_letters_are_counted_from_a_covering_index(
    connection: sqlite3.Connection,
) -> None:
    (read,) = [step for step in plan(connection, "count_dead_letters") if "dead_letters" in step]
    assert ("COVERING" in read, way(read)) == (True, "tickwork_dead_letters_group")


def test_what_people_ask_for_reads_indexes_and_no_bodies(connection: sqlite3.Connection) -> None:
    (step,) = on_messages(plan(connection, "claims_of_holders"))
    assert way(step) == "tickwork_messages_holder"
    (step,) = on_messages(plan(connection, "ids_ending"))
    assert (way(step), "COVERING" in step) == (BY_KEY, True)


def test_a_queue_is_found_by_its_name(connection: sqlite3.Connection) -> None:
    for name in ("find_queue", "get_queue", "get_shared_queue"):
        assert (
            plan(connection, name)[0]
            == "SEARCH tickwork_queues USING INDEX tickwork_queues_name (<expr>=? AND name=?)"
        )


def test_a_trace_searches_every_table_by_its_correlation(connection: sqlite3.Connection) -> None:
    steps = plan(connection, "find_trace")
    reads = [step for step in steps if step.startswith(("SCAN", "SEARCH"))]
    assert {way(step) for step in reached(reads, "m", "d", "r", "p")} == {
        BY_KEY,
        "tickwork_messages_correlation",
        "tickwork_dead_letters_correlation",
        "tickwork_dead_letters_first",
        "tickwork_runs_correlation",
        "tickwork_runs_message",
        "tickwork_published_correlation",
        "tickwork_deliveries_published",
    }
    assert not [step for step in reached(reads, "m", "d", "r", "p") if step.startswith("SCAN")]


def test_a_probe_is_chosen_from_the_first_and_the_last_of_an_index(
    connection: sqlite3.Connection,
) -> None:
    steps = plan(connection, "choose_probe")
    reads = [step for step in steps if "tickwork_deliveries" in step]
    assert [way(step) for step in reads] == ["tickwork_deliveries_endpoint_open"] * 2
    sorts = [step for step in steps if "TEMP B-TREE" in step]
    assert len(sorts) == 2, "of these only: to count each once, and by their last attempts"
