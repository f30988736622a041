"""`tickwork batches`: lists, shows and cancels batches."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.kit import Desk, kill
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.ops.batches import create_batch
from tickwork.ops.context import Context
from tickwork.store.contract import Store

MISSING = "00000000-0000-7000-8000-000000000000"


async def make(store: Store) -> UUID:
    """Three items, of which one has failed."""
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    batch = await create_batch(Context(store, DEFAULT), "emails", [1])
    await kill(store, "emails", reason="permanent")
    batch = await create_batch(Context(store, DEFAULT), "emails", [1, 2, 3])
    await store.messages.delete(
        DEFAULT, "emails", (await store.messages.peek(DEFAULT, "emails", 1))[0].id
    )
    return batch.id


def test_batches_are_listed_newest_first(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("batches", "list") == "there are no batches\n"
    batch_id = desk.store(make)
    heading, first, second = desk.answer("batches", "list").splitlines()
    assert heading.split()[:5] == ["batch", "queue", "status", "total", "pending"]
    assert first.split()[:8] == [
        f"bat_{batch_id.hex}",
        "emails",
        "running",
        "3",
        "2",
        "0",
        "0",
        "1",
    ]
    assert second.split()[1:3] == ["emails", "completed"]
    assert len(desk.json("batches", "list", "--limit", "1")) == 1


def test_a_batch_and_its_items_are_shown(desk: Desk) -> None:
    batch_id = str(desk.store(make))
    shown = desk.json("batches", "show", batch_id)
    assert (shown["total"], shown["pending"], shown["failed"]) == (3, 2, 1)
    assert shown["queue"] == "emails"
    assert desk.answer("batches", "show", batch_id).splitlines()[1].split()[1] == "emails"
    failed = desk.json("batches", "items", batch_id)
    assert [(item["status"], item["reason"]) for item in failed] == [("failed", "deleted")]
    pending = desk.json("batches", "items", batch_id, "--status", "pending")
    assert len(pending) == 2
    rest = desk.json(
        "batches", "items", batch_id, "--status", "pending", "--after", pending[0]["id"]
    )
    assert rest == pending[1:]
    assert desk.answer("batches", "items", batch_id, "--status", "completed") == (
        "no item is completed\n"
    )


def test_cancel_asks_for_confirmation(desk: Desk) -> None:
    batch_id = str(desk.store(make))
    assert desk.run("batches", "cancel", batch_id, given="n\n").exit_code == 1
    cancelled = desk.json("batches", "cancel", batch_id, "--yes")
    assert (cancelled["status"], cancelled["failed"], cancelled["pending"]) == ("completed", 3, 0)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["show"], 2, "ID is missing"),
        (["show", "x"], 2, "ID: 'x' is not an id"),
        (["show", MISSING], 1, "there is no batch"),
        (["items", MISSING, "--status", "lost"], 2, "--status: must be one of pending, "),
        (["list", "--limit", "0"], 2, "--limit: must be from 1"),
    ],
)
def test_bad_usage_is_one_line(desk: Desk, words: list[str], code: int, says: str) -> None:
    desk.answer("migrate")
    refused = desk.run("batches", *words)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert refused.stderr.startswith(f"tickwork: {says}")
    assert len(refused.stderr.splitlines()) == 1


def test_a_batch_is_created_from_json_lines(desk: Desk, tmp_path: Path) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "emails", QueueSettings()))
    lines = tmp_path / "emails.jsonl"
    lines.write_text('{"to": "ada"}\n\n"bob"\n7\n')
    made = desk.json("batches", "create", "emails", str(lines), "--type", "welcome")
    assert (made["queue"], made["total"], made["pending"]) == ("emails", 3, 3)
    waiting = desk.json("queues", "peek", "emails")
    assert [message["body"] for message in waiting] == [{"to": "ada"}, "bob", 7]
    assert {message["type"] for message in waiting} == {"welcome"}
    printed = desk.run("batches", "create", "emails", "-", given="1\n2\n")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert printed.stdout.splitlines()[1].split()[1:4] == ["emails", "running", "2"]


def test_a_line_that_is_not_json_creates_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.store(lambda store: store.queues.put(DEFAULT, "emails", QueueSettings()))
    lines = tmp_path / "emails.jsonl"
    lines.write_text("1\n" * 3_000 + "{\n")
    for words, told in (
        (["emails", str(lines)], f"FILE: line 3001 of {lines} is not JSON: "),
        (["emails", str(tmp_path / "none")], "cannot be read: No such file or directory"),
        (["emails"], "FILE is missing"),
        (["emials", "-"], "there is no queue emials"),
    ):
        refused = desk.run("batches", "create", *words, given="")
        assert (refused.exit_code in (1, 2), refused.stdout) == (True, "")
        assert told in refused.stderr
    assert desk.answer("batches", "list") == "there are no batches\n"
