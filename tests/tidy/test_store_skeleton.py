"""Both stores have the same modules, classes and statements, except for what is listed here."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

STORES = Path(__file__).resolve().parents[2] / "src" / "tickwork" / "store"
POSTGRES, SQLITE = STORES / "postgres", STORES / "sqlite"
PREFIXES = {POSTGRES: "Postgres", SQLITE: "Sqlite"}

Listed = dict[str, tuple[str, ...]]
"""Names that only one store has, by the reason."""

MODULES: dict[Path, Listed] = {
    POSTGRES: {
        "tells which URLs name one database; SQLite compares files": ("engine/identity",),
        "counts a backlog in stripes, to avoid a hot row": ("messages/backlog",),
        "locks the rows of keys; SQLite has one writer": ("messages/keys",),
        "caches what sends read; SQLite reads it in their transaction": ("messages/subscriptions",),
        "partitions": ("partitions",),
    },
    SQLITE: {
        "SQLite runs in this process: a file, connections, a writer thread": (
            "engine/connection",
            "engine/counters",
            "engine/file",
            "engine/file_watch",
            "engine/work",
            "engine/writer",
        ),
        "decodes the one JSON text that a claim returns": ("messages/claim_rows",),
        "decides about plain acks in Python; PostgreSQL does in the statement": (
            "messages/plain_acks",
        ),
        "values made before the writer's turn": ("messages/prepared_messages",),
        "records what became of messages; PostgreSQL does in the statement that ends them": (
            "messages/history",
        ),
        "makes dead letters in several statements": ("messages/dead_letters",),
        "looks up queues in every transaction; PostgreSQL caches them": ("messages/queue_rows",),
    },
}

CLASSES: dict[Path, Listed] = {
    POSTGRES: {
        "objects that keep the pool and the clock; on SQLite functions of a transaction": (
            "endpoints/publish:Publisher",
            "messages/batch_progress:BatchProgress",
            "messages/removal:Purger",
            "messages/removal:Removal",
            "messages/settle_statements:EndingWriter",
            "schedules/slot_copies:SlotCopies",
        ),
        "the messages of an event, stored with others once all their keys are locked": (
            "endpoints/publish:Delivered",
        ),
        "carries results from the transaction to the work after the commit": (
            "messages/removal:AfterCommit",
            "messages/removal:RemovedMessage",
            "messages/removal:RemovedMessages",
            "messages/effects:EndedMessages",
            "messages/settle_statements:CausedMessages",
            "messages/settle_statements:Settled",
            "schedules/slot_messages:Planned",
            "schedules/slot_outcome:RecordedSlot",
            "schedules/slot_outcome:EffectAndSlot",
        ),
        "messages of many callers in one statement": ("messages/send:Group",),
        "locks the keys of endpoints before it locks schedules": (
            "messages/system_events:Receivers",
        ),
        "bulk copies": ("schedules/create:ScheduleColumns",),
        "what waits for the commit of a caller; SQLite counts in it, and polls": (
            "engine/callers_database:CallersCounters",
            "engine/callers_database:CallersWakeups",
        ),
        "protects a pooled connection from its borrower": (
            "messages/joint_commit:GuardedConnection",
        ),
    },
    SQLITE: {
        "connections for reading are threads": ("engine/database:Readers",),
        "says how the last handler of a removed message ran; PostgreSQL's statement gets columns": (
            "messages/removal:LastAttempt",
        ),
        "values made before the writer's turn": (
            "messages/settle_statements:Endings",
            "schedules/slot_messages:SlotMessage",
            "schedules/slot_messages:SlotMessages",
        ),
        "rows and results between the statements of one transaction": (
            "messages/claim:ClaimBuilder",
            "schedules/rows:StoredSchedule",
            "schedules/slot_messages:SourceSchedule",
            "schedules/slot_outcome:DyingMessage",
            "schedules/slot_outcome:EndedSlot",
        ),
        "decodes ids and times; PostgreSQL's driver does": (
            "messages/rows:Times",
            "messages/rows:Uuids",
        ),
    },
}

STATEMENTS: dict[Path, Listed] = {
    POSTGRES: {
        "whether a caller has committed; SQLite need not know": (
            "meta/add_receipt",
            "meta/ended_transactions",
        ),
        "one message in a caller's transaction; SQLite's `send_plain` is as small": (
            "messages/send_one",
        ),
        "an answer may be lost; SQLite's is not": ("messages/is_sent",),
        "which database a connection is of; SQLite compares files": ("meta/identify",),
        "PostgreSQL is the target of a copy, SQLite the source": (
            "copies/copied_rows",
            "copies/copy_columns",
            "copies/create_copy",
            "copies/create_copy_guard",
            "copies/delete_seeds",
            "copies/derive_backlogs",
            "copies/derive_history_marks",
            "copies/derive_keys",
            "copies/derive_schedule_counts",
            "copies/drop_copy",
            "copies/drop_copy_guard",
            "copies/get_copied",
            "copies/guard_table",
            "copies/has_copy",
            "copies/note_copied",
            "copies/open_table",
            "copies/set_zones",
            "copies/table_has_rows",
        ),
        "locks the key of a direct call before it deletes the call": (
            "entities/calls_of_dead_nodes",
            "entities/delete_calls",
            "entities/withdrawable_call",
        ),
        "looks again after a call is stored; SQLite has one writer": ("entities/waiting_keys",),
        "part of the statements that end messages": ("fragments/discarded", "fragments/history"),
        "takes a lock; SQLite has one writer": (
            "messages/lock_keys",
            "messages/lock_or_create_keys",
            "messages/lock_queue_for_claim",
            "messages/reserve_key_positions",
            "meta/lock_migrations",
            "nodes/claim_expired",
            "nodes/lock_node",
            "queues/lock_queues",
            "tenants/lock_claim_quotas",
            "schedules/lock_schedule",
            "schedules/lock_schedules",
            "schedules/schedule_key",
            "schedules/withdrawable_keys",
            "shards/lock_all_shards",
            "shards/lock_grant",
            "shards/lock_shards",
        ),
        "finds rows first, then deletes those that no other transaction took": (
            "batches/cancel_items",
            "messages/waiting_messages",
            "schedules/count_withdrawable_slots",
            "schedules/delete_withdrawn",
        ),
        "the backlog is striped": (
            "messages/create_backlog_stripes",
            "messages/lock_backlog_stripes",
            "messages/read_backlog_limit",
            "retention/capped_queues",
            "schedules/add_schedule_counts",
        ),
        "firings are partitioned by day": (
            "retention/count_firings_in_partition",
            "retention/create_firing_partition",
            "retention/create_history_partition",
            "retention/drop_firing_partition",
            "retention/drop_history_partition",
            "retention/history_partitions",
            "retention/history_retentions",
            "retention/read_history_partition",
            "retention/firing_partitions",
            "retention/read_firing_partition",
            "retention/try_lock_partitions",
        ),
        "a file has no roles": (
            "readers/bound_lock_wait",
            "readers/describe_role",
            "readers/grant_schema",
            "readers/grant_table",
            "readers/list_readers",
            "readers/revoke_table",
        ),
        "an answer can be lost between server and client": (
            "batches/batch_fill_state",
            "batches/seal_filled_batch",
            "messages/explain_empty_claim",
            "nodes/nodes_not_ended",
            "retention/prune_receipts",
        ),
        "the server has a clock, settings and NOTIFY": (
            "meta/notify",
            "meta/read_clock",
            "meta/server_settings",
            "shards/read_moment",
        ),
        "one statement where SQLite decides in Python between several": (
            "firings/delete_duplicate_firings",
            "firings/record_skips",
            "messages/claim_of_receivers",
            "messages/claim_suspects",
            "schedules/apply_slot_outcomes",
            "schedules/plan",
            "schedules/sweep_schedules",
            "shards/follow_clock",
            "shards/move_shards",
            "workflows/adopt_runs",
            "workflows/end_runs",
            "workflows/record_checkpoints",
        ),
        "one read where SQLite uses another statement twice, or an index": (
            "schedules/all_schedules_by_due",
            "batches/seal_abandoned_batches",
            "batches/uncompleted_batches",
            "stats/oldest_visible",
        ),
        "subscriptions are cached": (
            "subscriptions/all_subscriptions",
            "subscriptions/subscriptions_among",
        ),
    },
    SQLITE: {
        "takes the only write lock for a caller's transaction": ("meta/take_write_lock",),
        "SQLite is the source of a copy": (
            "copies/count_rows",
            "copies/drop_trigger",
            "copies/freeze_table",
            "copies/list_objects",
            "copies/oldest_tzdata",
            "copies/page_of_table",
        ),
        "part of a claim": (
            "messages/count_claimed",
            "messages/find_claimable",
            "messages/find_claimable_of_receiver",
            "messages/find_claimable_suspects",
            "messages/read_bodies",
            "nodes/is_alive",
        ),
        "part of an ack": (
            "messages/claimed_kinds",
            "messages/claimed_rowid",
            "messages/claimed_slots",
            "messages/complete_schedules",
            "messages/record_event",
            "messages/record_successes",
            "messages/show_successes",
        ),
        "part of recording, ending or waking a run": (
            "workflows/claimed_run",
            "workflows/clear_lost_claims",
            "workflows/consume_event",
            "workflows/create_run",
            "workflows/end_run",
            "workflows/fail_dead_run",
            "workflows/forget_received_events",
            "workflows/forgive_lost_claims",
        ),
        "part of a send": (
            "messages/send_keyed",
            "messages/send_plain",
            "messages/stored_ids",
            "messages/stored_rows",
            "queues/get_queue",
            "queues/get_shared_queue",
        ),
        "part of recording what became of messages": (
            "fragments/marked_chunks",
            "performance/count_ended",
            "performance/count_plain_ended",
            "history/kept_history",
            "history/mark_correlations",
            "history/mark_history",
            "history/record_history",
            "history/record_plain_history",
            "retention/prune_history_marks",
        ),
        "deletes what it finds, in one statement": (
            "entities/delete_calls_of_dead_nodes",
            "entities/withdraw_call",
            "messages/delete_message",
            "messages/purge_blocked",
            "messages/purge_ready",
        ),
        "lets a direct call pass; PostgreSQL does in unblock_keys": (
            "messages/block_message",
            "messages/move_call_ahead",
            "messages/passing_calls",
        ),
        "part of recording dead letters": (
            "dead_letters/forward_dead_letter",
            "dead_letters/read_death",
            "nodes/expire_pull_leases",
            "messages/message_rowids",
            "queues/queue_settings",
        ),
        "part of planning": (
            "queues/has_queue",
            "schedules/advance_schedules",
            "schedules/end_planning",
            "schedules/fire_keyed_slot",
            "schedules/schedules_to_plan",
            "schedules/slot_template",
            "schedules/waiting_copies",
            "shards/shard_tokens",
            "subscriptions/has_subscriptions",
        ),
        "part of applying the outcomes of slots": (
            "schedules/complete_parked_schedule",
            "schedules/end_schedule",
            "schedules/has_later_run",
            "schedules/last_fired_slot",
            "schedules/pause_schedule",
            "schedules/show_outcomes",
            "schedules/shown_outcomes",
            "schedules/slots_of_messages",
            "schedules/start_next_run",
        ),
        "part of following the clock": (
            "shards/intervals_to_move",
            "shards/mark_followed",
            "shards/move_intervals",
            "shards/move_planned_slots",
            "shards/shorten_leases",
        ),
        "part of sharing out shards": (
            "shards/give_up_shards",
            "shards/own_shards",
            "shards/shard_leaders",
            "shards/take_shards",
        ),
        "a choice that PostgreSQL makes by a parameter": (
            "endpoints/endpoint_dead",
            "endpoints/endpoint_undelivered",
            "endpoints/tenant_dead",
            "endpoints/tenant_undelivered",
            "queues/all_tenants",
            "schedules/get_tenant_schedule",
            "schedules/schedules_of_owner",
            "schedules/schedules_of_owner_by_due",
            "schedules/schedules_of_status",
            "schedules/schedules_without_name",
        ),
        "counters and checks that PostgreSQL has in the statement that writes": (
            "endpoints/bury_resent_deliveries",
            "endpoints/choose_probe",
            "endpoints/claimed_attempts",
            "endpoints/due_probes",
            "endpoints/put_back_probe",
            "endpoints/show_attempts",
            "retention/prune_attempts",
            "batches/count_ended_items",
            "batches/has_whole_batch",
            "nodes/claimed_by",
        ),
        "one row at a time": ("entities/clear_entity_values", "entities/put_entity_value"),
        "found by an index of its own": ("batches/abandoned_batches", "retention/old_batches"),
        "another process is noticed by looking": ("meta/newest_message",),
    },
}


def _modules(store: Path) -> set[str]:
    return {str(path.relative_to(store).with_suffix("")) for path in store.rglob("*.py")}


def _classes(store: Path) -> set[str]:
    """Public classes as `module:Name`, in modules that both stores have."""
    both = _modules(POSTGRES) & _modules(SQLITE)
    return {
        f"{module}:{node.name.removeprefix(PREFIXES[store])}"
        for module in both
        for node in ast.parse((store / f"{module}.py").read_text("utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def _statements(store: Path) -> set[str]:
    """Statements as `noun/name`."""
    sql = store / "sql"
    return {str(path.relative_to(sql).with_suffix("")) for path in sql.rglob("*.sql")}


@pytest.mark.parametrize(
    ("listed", "names"),
    [(MODULES, _modules), (CLASSES, _classes), (STATEMENTS, _statements)],
    ids=["modules", "classes", "statements"],
)
def test_both_stores_have_one_skeleton(
    listed: dict[Path, Listed], names: Callable[[Path], set[str]]
) -> None:
    """What only one store has is listed with its reason, and what is listed exists."""
    for store, other in ((POSTGRES, SQLITE), (SQLITE, POSTGRES)):
        reasons = [name for group in listed[store].values() for name in group]
        assert len(reasons) == len(set(reasons))
        assert names(store) - names(other) == set(reasons)


def test_both_stores_have_the_same_migrations_and_each_number_once() -> None:
    ours, theirs = (
        sorted(path.name for path in (store / "migrations").glob("*.sql")) for store in PREFIXES
    )
    assert ours == theirs
    assert [int(name.partition("_")[0]) for name in ours] == [*range(1, len(ours) + 1)]
