"""`--app`: a command refuses bodies that do not fit the types that the app declares."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import Desk, kill
from tests.cli.test_app_option import run
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Scope, Tenant
from tickwork.ops.context import Context
from tickwork.ops.send import compose, send
from tickwork.store.contract import Store

SHOP = """
import msgspec
from tickwork import Message, Tickwork

app = Tickwork("sqlite:///shop.db")


class Order(msgspec.Struct):
    id: str
    cents: int


class Mail(msgspec.Struct):
    to: str


app.queue("orders", payload=Order, max_retries=7)


@app.on("mails", type="welcome")
async def welcome(message: Message[Mail]) -> None: ...


app.queue("mails")
"""

RIGHT, WRONG = '{"id": "o1", "cents": 5}', '{"id": "o1", "cents": "five"}'
FAULT = "does not fit Order: Expected `int`, got `str` - at `$.cents`"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Desk]:
    """The database of an app in this folder, with its queues and one dead letter."""
    path, desk = [*sys.path], Desk(tmp_path, f"sqlite:///{tmp_path}/shop.db")

    async def put(store: Store) -> None:
        await store.tenants.put(SYSTEM, Tenant(id="acme"))
        for scope in (DEFAULT, Scope("acme")):
            await store.queues.put(scope, "orders", QueueSettings(max_retries=1))
        await store.queues.put(DEFAULT, "mails", QueueSettings())
        await send(Context(store, DEFAULT), "orders", compose({"id": "o0", "cents": 0}))
        await kill(store, "orders", reason="permanent")

    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "right.jsonl").write_text(f"{RIGHT}\n\n{RIGHT}\n")
    (tmp_path / "wrong.jsonl").write_text(f"{RIGHT}\n\n{WRONG}\n")
    desk.store(put)
    with contextlib.chdir(tmp_path):
        yield desk
    sys.path[:] = path
    sys.modules.pop("shop", None)


def ready(desk: Desk) -> int:
    counts: dict[str, int] = desk.json("queues", "stats", "orders")["counts"]
    return counts["ready"]


CASES = {
    "send": (["queues", "send", "orders", RIGHT], ["queues", "send", "orders", WRONG], "BODY"),
    "edit": (["dead", "edit", "ID", "--body", RIGHT], ["dead", "edit", "ID", "--body", WRONG],
             "--body"),
    "create": (
        ["schedules", "create", "@daily", "--queue", "orders", "--payload", RIGHT],
        ["schedules", "create", "@daily", "--queue", "orders", "--payload", WRONG],
        "--payload",
    ),
    "update": (
        ["schedules", "update", "nightly", "--queue", "orders", "--payload", RIGHT],
        ["schedules", "update", "nightly", "--queue", "orders", "--payload", WRONG],
        "--payload",
    ),
    "batch": (
        ["batches", "create", "orders", "right.jsonl"],
        ["batches", "create", "orders", "wrong.jsonl"],
        "FILE: line 3 of wrong.jsonl",
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", CASES)
def test_a_body_that_does_not_fit_the_type_of_its_queue_is_refused(shop: Desk, verb: str) -> None:
    shop.answer(
        "schedules", "create", "@daily", "--name", "nightly", "--queue", "orders",
        "--payload", RIGHT,
    )  # fmt: skip
    (letter,) = shop.json("dead", "list", "orders")
    right, wrong, place = CASES[verb]
    before = ready(shop)
    refused = run(*(word.replace("ID", letter["id"]) for word in wrong), "--app", "shop:app")
    assert (refused.exit_code, refused.stdout) == (2, "")
    separator = " " if verb == "batch" else ": "
    assert refused.stderr == f"tickwork: {place}{separator}{FAULT}\n"
    assert ready(shop) == before
    assert len(shop.json("batches", "list")) == 0
    taken = run(*(word.replace("ID", letter["id"]) for word in right), "--app", "shop:app")
    assert (taken.exit_code, taken.stderr) == (0, "")


def test_the_handler_of_a_message_type_decides_its_body(shop: Desk) -> None:
    words = ["queues", "send", "mails", "{}", "--app", "shop:app"]
    refused = run(*words, "--type", "welcome")
    assert refused.stderr.startswith("tickwork: BODY: does not fit Mail:")
    assert run(*words, "--type", "other").exit_code == 0
    assert shop.json("queues", "stats", "mails")["counts"]["ready"] == 1


def test_types_are_those_of_the_tenant_of_the_app(shop: Desk) -> None:
    assert run("queues", "send", "orders", WRONG, "--app", "shop:app").exit_code == 2
    other = run("queues", "send", "orders", WRONG, "--app", "shop:app", "--tenant", "acme")
    assert other.exit_code == 0
    assert shop.run("queues", "send", "orders", WRONG).exit_code == 0, "nobody knows its type"


def test_a_command_does_not_declare_what_the_app_declares(shop: Desk) -> None:
    assert run("queues", "send", "orders", RIGHT, "--app", "shop:app").exit_code == 0

    async def settings(store: Store) -> QueueSettings:
        return (await store.queues.get(DEFAULT, "orders")).settings

    assert shop.store(settings).max_retries == 1
