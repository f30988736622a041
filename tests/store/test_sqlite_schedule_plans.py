"""Hot statements on schedules use an index, however many schedules there are."""

import sqlite3

import pytest

from tests.store.query_plans import connection, plan, reached, way
from tickwork.store.shared.shard_layout import fit_statement
from tickwork.store.sqlite.engine.sql import SQL

OF_SHARDS = (
    "due_schedules",
    "intervals_to_move",
    "next_look_at",
    "schedules_of_shard",
    "shards_behind",
)

__all__ = ["connection"]

BY_KEY = "sqlite_autoindex_tickwork_schedules_1"
BY_PLACE = "INTEGER PRIMARY KEY"

SEARCHES = {
    "add_stream_events": {BY_KEY},
    "advance_schedules": {BY_PLACE},
    "alike_schedules": {BY_KEY},
    "schedules_to_plan": {BY_KEY},
    "start_next_run": {BY_PLACE},
    "move_planned_slots": {BY_PLACE},
    "change_schedule": {BY_PLACE},
    "complete_parked_schedule": {BY_PLACE},
    "count_owner_schedules": {"tickwork_schedules_owned"},
    "complete_schedules": {BY_PLACE, BY_KEY},
    "end_planning": {BY_PLACE},
    "lock_calendar": {"tickwork_schedules_calendar"},
    "due_schedules": {"tickwork_schedules_look", BY_PLACE},
    "end_schedule": {BY_PLACE},
    "find_schedule": {"tickwork_schedules_name"},
    "fire_keyed_slot": {BY_PLACE},
    "fire_slots": {BY_PLACE},
    "get_tenant_schedule": {BY_KEY},
    "get_schedule": {BY_KEY},
    "intervals_to_move": {"tickwork_schedules_look", "tickwork_schedules_waiting"},
    "schedules_by_name": {"tickwork_schedules_name"},
    "schedules_without_name": {BY_KEY},
    "schedules_of_calendar": {"tickwork_schedules_calendar"},
    "schedules_of_owner": {"tickwork_schedules_owner"},
    "schedules_of_status": {"tickwork_schedules_status"},
    "schedules_by_id": {BY_KEY},
    "move_intervals": {BY_PLACE},
    "next_look_at": {"tickwork_schedules_look"},
    "show_outcomes": {BY_PLACE},
    "show_successes": {BY_PLACE, BY_KEY},
    "number_runs": {BY_KEY},
    "pause_schedule": {BY_PLACE},
    "planned_slots": {BY_KEY},
    "planned_slots_of": {BY_KEY},
    "prune_schedules": {"tickwork_schedules_deleted", BY_PLACE},
    "rewind_schedules": {BY_PLACE},
    "schedules_of_keys": {"tickwork_schedules_key"},
    "slot_template": {BY_PLACE},
    "schedules_of_shard": {"tickwork_schedules_look"},
    "schedules_by_due": {"tickwork_schedules_due"},
    "shown_outcomes": {BY_KEY},
    "schedule_owner": {BY_KEY},
    "shards_behind": {"tickwork_schedules_look"},
    "waiting_schedules": {"tickwork_schedules_waiting"},
}
"""How each statement reaches its schedules."""

FIRINGS = {
    "firings_of_slot": {"tickwork_firings_slot", "tickwork_firings_runs"},
    "last_due_slots": {"tickwork_firings_slot"},
    "last_fired_slot": {"tickwork_firings_slot"},
    "list_firings": {"tickwork_firings_schedule"},
    "succeeded_slots": {"tickwork_firings_slot"},
}


def on_schedules(steps: list[str]) -> list[str]:
    return reached(steps, "tickwork_schedules", "s")


@pytest.mark.parametrize("name", SEARCHES)
def test_a_statement_reaches_schedules_by_its_index(
    connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(connection, name)
    found = on_schedules(steps)
    assert [step for step in found if not step.startswith("SEARCH")] == []
    assert {way(step) for step in found} == SEARCHES[name]
    if name not in ("alike_schedules", "planned_slots"):  # They group a page, and sort seconds.
        assert [step for step in steps if "TEMP B-TREE" in step] == []


def test_every_statement_on_schedules_is_tested(connection: sqlite3.Connection) -> None:
    others = {  # Their tables have the same alias.
        "count_sessions",
        "entity_values",
        "list_entity_storage",
        "list_child_runs",
        "list_entity_storage_reversed",
        "list_runs",
        "list_subscriptions",
        "open_run_steps",
        "run_activities",
        "run_steps",
        "run_steps_window",
        "shard_leaders",
        "subscriptions_of",
    }
    sorting = {"schedules_of_owner_by_due", "troubled_schedules"}  # Tested with the other lists.
    for_people = {"ids_ending"}  # Reads a whole index, once per command.
    touching = {name for name in vars(SQL) if on_schedules(plan(connection, name))}
    assert touching - others - sorting - for_people == {*SEARCHES}


def test_due_schedules_are_read_in_order_up_to_the_limit(
    connection: sqlite3.Connection,
) -> None:
    steps = plan(connection, "due_schedules")
    by_shard = [step for step in on_schedules(steps) if "tickwork_schedules_look" in step]
    assert by_shard != []
    assert all("(<expr>=? AND look_at>? AND look_at<?)" in step for step in by_shard)
    assert "MERGE (UNION ALL)" in steps


@pytest.mark.parametrize("shards", [1, 256])
def test_another_number_of_shards_has_its_own_index(
    connection: sqlite3.Connection, shards: int
) -> None:
    connection.execute(fit_statement(SQL.create_look_index, shards))
    for name in OF_SHARDS:
        ways = {way(step) for step in on_schedules(plan(connection, name, shards))}
        assert f"tickwork_schedules_look_{shards}" in ways
        assert "tickwork_schedules_look" not in ways


@pytest.mark.parametrize("name", FIRINGS)
def test_firings_are_found_by_their_schedule(connection: sqlite3.Connection, name: str) -> None:
    steps = plan(connection, name)
    found = reached(steps, "tickwork_firings", "f")
    assert all(step.startswith("SEARCH") for step in found)
    assert {way(step) for step in found} == FIRINGS[name]
    assert [step for step in steps if "TEMP B-TREE" in step] == []


def test_a_page_of_firings_starts_at_its_cursor(
    connection: sqlite3.Connection,
) -> None:
    (found,) = reached(plan(connection, "list_firings"), "f")
    assert "(tenant=? AND schedule_id=? AND (finished_at,id)<(?,?))" in found
