"""`tickwork queues`: lists, inspects, pauses, purges and deletes queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tickwork.core.limits import HIDDEN_QUEUES
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings, Scope, Tenant
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def put(store: Store) -> None:
    await store.queues.put(DEFAULT, "emails", QueueSettings(dead_letter_queue="dead"))
    await store.queues.put(SYSTEM, "events", QueueSettings(max_batch_size=100))
    messages = [
        NewMessage(id=new_id(), body=b"{}", type="welcome", source="shop") for _ in range(3)
    ]
    await store.messages.send_batch(DEFAULT, "emails", messages)


@pytest.mark.parametrize(
    "words",
    [
        ["queues", "list"],
        ["queues", "stats", "emails"],
        ["queues", "purge", "emails", "--yes"],
        ["dead", "groups", "emails"],
        ["dead", "discard", "emails", "--yes"],
        ["batches", "list"],
    ],
)
def test_a_missing_database_is_not_created(desk: Desk, words: list[str]) -> None:
    refused = desk.run(*words)
    assert (refused.exit_code, refused.stdout) == (1, "")
    path = desk.folder / "tickwork.db"
    assert refused.stderr == (
        f"tickwork: database {path} does not exist: "
        f"run `tickwork migrate --database sqlite:///{path}` to create it, "
        "or choose another one with --app, --database or TICKWORK_DATABASE\n"
    )
    assert [*desk.folder.iterdir()] == []


@pytest.mark.parametrize(
    "words",
    [
        ["queues", "list"],
        ["queues", "stats", "events"],
        ["dead", "list", "events"],
        ["batches", "list"],
    ],
)
def test_a_missing_tenant_is_reported(desk: Desk, words: list[str]) -> None:
    desk.store(put)
    refused = desk.run(*words, "--tenant", "nobody")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "tickwork: there is no tenant nobody\n"


def test_a_new_database_has_no_queues(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("queues", "list") == "there are no queues\n"
    assert desk.json("queues", "list") == []


def test_queues_are_listed_with_their_settings(desk: Desk) -> None:
    desk.store(put)
    assert desk.answer("queues", "list").splitlines() == [
        "queue   shared  paused  max_batch_size  max_retries  dead_letter_queue",
        "emails                              10            3  dead",
        "events  yes                        100            3",
    ]
    listed = {queue["name"]: queue for queue in desk.json("queues", "list")}
    assert listed["emails"]["dead_letter_queue"] == "dead"
    assert listed["events"]["shared"] is True


def test_stats_show_counts_and_throughput(desk: Desk) -> None:
    desk.store(put)
    lines = desk.answer("queues", "stats", "emails").splitlines()
    assert lines[0] == "3 ready, 0 delayed, 0 claimed, 0 blocked, 0 dead letters"
    assert lines[1].startswith("the oldest message has waited ")
    assert desk.json("queues", "stats", "emails")["counts"]["ready"] == 3


def test_a_message_is_sent_with_the_id_of_its_event(desk: Desk) -> None:
    desk.store(put)
    sent = desk.json("queues", "send", "emails", "1", "--event-id", "order-17")
    events = {
        message["id"]: message["event_id"] for message in desk.json("queues", "peek", "emails")
    }
    assert events[sent["id"]] == "order-17"


def test_a_queue_is_paused_and_resumed(desk: Desk) -> None:
    desk.store(put)
    assert desk.answer("queues", "pause", "emails") == "emails is paused\n"
    assert desk.store(lambda store: store.queues.get(DEFAULT, "emails")).paused
    assert desk.json("queues", "resume", "emails") == {"queue": "emails", "paused": False}
    assert not desk.store(lambda store: store.queues.get(DEFAULT, "emails")).paused


def test_settings_of_a_queue_are_changed(desk: Desk) -> None:
    desk.store(put)
    changed = ("queues", "update", "emails", "--push-to", "shop", "--max-retries", "7")
    done = desk.run(*changed)
    assert (done.exit_code, done.stdout) == (0, "emails is changed\n")
    warning = "warning: there is no endpoint shop; messages wait until it is created"
    assert done.stderr == f"tickwork: {warning}\n"
    stored = desk.store(lambda store: store.queues.get(DEFAULT, "emails")).settings
    assert (stored.push_to, stored.max_retries, stored.dead_letter_queue) == ("shop", 7, "dead")
    shown = desk.json("queues", "update", "emails", "--no-push", "--rate-per-second", "2.5")
    assert (shown["push_to"], shown["rate_per_second"]) == (None, 2.5)
    shown = desk.json("queues", "update", "emails", "--limit", "partner")
    assert shown["limit"] == "partner"
    shown = desk.json("queues", "update", "emails", "--no-limit")
    assert shown["limit"] is None
    for wrong in (
        [],
        ["--push-to", "a", "--no-push"],
        ["--limit", "a", "--no-limit"],
        ["--max-retries", "x"],
    ):
        assert desk.run("queues", "update", "emails", *wrong).exit_code == 2


def test_a_shared_queue_is_changed_only_with_the_shared_option(desk: Desk) -> None:
    desk.store(put)
    for command in (["pause"], ["resume"], ["delete"], ["update", "--rate-per-second", "2"]):
        refused = desk.run("queues", *command, "events")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr == (
            "tickwork: queue events is shared; pass --shared to change it for every tenant\n"
        )
    desk.answer("queues", "pause", "events", "--shared")
    assert desk.store(lambda store: store.queues.get(SYSTEM, "events")).paused
    both = desk.run("queues", "pause", "events", "--shared", "--tenant", "acme")
    assert both.exit_code == 2


def test_purge_asks_for_confirmation(desk: Desk) -> None:
    desk.store(put)
    refused = desk.run("queues", "purge", "emails", given="n\n")
    assert refused.exit_code == 1
    assert "nothing was done" in refused.stderr
    silent = desk.run("queues", "purge", "emails", given="")
    assert silent.exit_code == 1
    assert "--yes" in silent.stderr
    agreed = desk.run("queues", "purge", "emails", given="y\n")
    assert (agreed.exit_code, agreed.stdout) == (0, "3 deleted\n")
    assert desk.json("queues", "purge", "emails", "--yes") == {"queue": "emails", "purged": 0}


def test_only_an_empty_queue_is_deleted(desk: Desk) -> None:
    desk.store(put)
    assert desk.run("queues", "delete", "emails").exit_code == 1
    desk.answer("queues", "purge", "emails", "--yes")
    assert desk.answer("queues", "delete", "emails") == "emails is deleted\n"
    assert "emails" not in desk.answer("queues", "list")


def test_each_tenant_sees_its_own_queues(desk: Desk) -> None:
    async def make(store: Store) -> None:
        await store.tenants.put(SYSTEM, Tenant(id="acme"))
        await store.queues.put(Scope("acme"), "own", QueueSettings())

    desk.store(make)
    assert desk.answer("queues", "list") == "there are no queues\n"
    assert [queue["name"] for queue in desk.json("queues", "list", "--tenant", "acme")] == ["own"]


@pytest.mark.parametrize("command", ["stats", "pause", "resume", "purge", "delete"])
def test_missing_arguments_and_unknown_queues_are_one_line(desk: Desk, command: str) -> None:
    missing = desk.run("queues", command)
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert missing.stderr == "tickwork: QUEUE is missing; see --help\n"
    desk.answer("migrate")
    extra = ["--yes"] if command == "purge" else []
    unknown = desk.run("queues", command, "nowhere", *extra)
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert unknown.stderr == "tickwork: there is no queue nowhere\n"


def test_commands_work_the_same_on_postgres(tmp_path: Path, postgres_url: str) -> None:
    desk = Desk(tmp_path, postgres_url)
    unready = desk.run("queues", "list")
    assert unready.exit_code == 1
    assert "tickwork migrate" in unready.stderr
    desk.answer("migrate")
    desk.store(put)
    assert [queue["name"] for queue in desk.json("queues", "list")] == ["emails", "events"]
    assert desk.json("queues", "stats", "emails")["counts"]["ready"] == 3


def test_the_usage_shows_required_arguments(desk: Desk) -> None:
    assert "queues stats [OPTIONS] QUEUE\n" in desk.answer("queues", "stats", "--help")
    assert "dead show [OPTIONS] ID\n" in desk.answer("dead", "show", "--help")


def test_a_group_without_a_command_is_bad_usage(desk: Desk) -> None:
    assert desk.run("queues", "colour").exit_code == 2


FORGED = '{"target": {"type": "webhook", "url": "https://example.com"}, "payload": 1}'


async def put_hidden(store: Store) -> None:
    for name in HIDDEN_QUEUES:
        await store.queues.put(SYSTEM, name, QueueSettings())


@pytest.mark.parametrize("queue", sorted(HIDDEN_QUEUES))
def test_nothing_is_sent_to_a_queue_that_tickwork_uses_itself(desk: Desk, queue: str) -> None:
    desk.store(put_hidden)
    every = ["schedules", "create", "@daily", "--payload", FORGED, "--queue", queue]
    for words in (["queues", "send", queue, FORGED], every):
        refused = desk.run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"{queue} is used by Tickwork itself; choose another queue" in refused.stderr
    entries = {
        "queues[0].name": f'name = "{queue}"',
        "queues[0].dead_letter_queue": f'name = "work"\ndead_letter_queue = "{queue}"',
        "subscriptions[0].queue": (
            f'name = "work"\n[[subscriptions]]\ntypes = "*"\nqueue = "{queue}"'
        ),
    }
    for field, entry in entries.items():
        (desk.folder / "tickwork.toml").write_text(f"[[queues]]\n{entry}\n")
        refused = desk.run("topology", "apply", "--file", str(desk.folder / "tickwork.toml"))
        assert refused.exit_code == 2
        assert field in refused.stderr


def test_limits_are_put_listed_and_deleted(desk: Desk) -> None:
    desk.store(put)
    assert desk.answer("limits", "list") == "there are no limits\n"
    assert desk.answer("limits", "put", "partner", "--rate", "100", "--period-seconds", "60") == (
        "partner is set\n"
    )
    shown = desk.json("limits", "put", "ours", "--concurrency", "5", "--shared")
    assert (shown["concurrency"], shown["rate"]) == (5, None)
    assert desk.answer("limits", "list").splitlines()[1].split() == ["partner", "100.0", "60.0"]
    assert [limit["name"] for limit in desk.json("limits", "list", "--shared")] == ["ours"]
    refused = desk.run("limits", "put", "partner", "--period-seconds", "60")
    assert "--rate: is missing" in refused.stderr
    assert desk.answer("limits", "delete", "partner") == "partner is deleted\n"
    assert desk.run("limits", "delete", "partner").exit_code == 1
    assert desk.json("limits", "delete", "ours", "--shared")["deleted"]
