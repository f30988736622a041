"""`tickwork operations`: starts, lists, shows and stops operations."""

from __future__ import annotations

from tests.cli.kit import Desk, kill
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.ops.batches import create_batch
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import carry_on
from tickwork.store.contract import Store

EMAILS = '{"queue": "emails"}'


async def bury(store: Store) -> None:
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    await create_batch(Context(store, DEFAULT), "emails", [1, 2, 3])
    await kill(store, "emails", reason="permanent")


async def carry_out(store: Store) -> None:
    await carry_on(Context(store, SYSTEM))


def test_an_operation_is_started_shown_and_carried_on(desk: Desk) -> None:
    desk.store(bury)
    assert desk.answer("operations", "list") == "there are no operations\n"
    made = desk.json("operations", "start", "dead_letters.discard", "--selection", EMAILS)
    assert (made["state"], made["total"]) == ("running", 3)
    _, row = desk.answer("operations", "list").splitlines()
    assert row.split()[:6] == [made["id"], "dead_letters.discard", "running", "0", "of", "3"]
    desk.store(carry_out)
    shown = desk.json("operations", "show", made["id"])
    assert (shown["state"], shown["done"]) == ("done", 3)
    assert shown["started_by"] == made["started_by"]
    assert desk.json("operations", "list", "--open-only") == []
    assert desk.answer("dead", "list", "emails") == "there are no dead letters\n"


def test_an_operation_is_stopped_once(desk: Desk) -> None:
    desk.store(bury)
    started = desk.answer("operations", "start", "dead_letters.replay", "--selection", EMAILS)
    operation = started.split()[0]
    assert started == f"{operation} acts on 3; nodes carry it on\n"
    assert desk.answer("operations", "stop", operation) == (
        f"{operation} is stopped after 0 of 3\n"
    )
    assert desk.json("operations", "show", operation[-8:])["id"] == operation
    refused = desk.run("operations", "stop", operation)
    assert refused.exit_code == 1
    assert refused.stderr == f"tickwork: operation {operation} is finished already: it is stopped\n"
