"""Ids are accepted by their last digits, and confirmation is asked after the thing was found."""

from __future__ import annotations

from uuid import UUID

import pytest
from click.testing import CliRunner

from tests.cli.kit import Desk, kill
from tickwork.cli import app
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, NewMessage, QueueSettings
from tickwork.ops.batches import create_batch
from tickwork.ops.context import Context
from tickwork.store.contract import Store

ONE, OTHER = (UUID(f"0199a7c2-0000-7000-8000-{name}00000000ff") for name in ("0a", "0b"))


async def put(store: Store) -> None:
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    for message_id in (ONE, OTHER):
        await store.messages.send(DEFAULT, "emails", NewMessage(id=message_id, body=b"{}"))


def test_an_id_may_be_given_by_its_last_digits(desk: Desk) -> None:
    desk.store(put)
    for text in ("0a00000000ff", "…0a00000000FF", "8000-0a00000000ff", str(ONE)):
        assert desk.json("messages", "show", text)["message"]["id"] == public_id(
            Prefix.MESSAGE, ONE
        )


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            "0000ff",
            2,
            f"ID: '0000ff' fits several: msg_{ONE.hex}, msg_{OTHER.hex}; give more digits",
        ),
        ("1234ff", 1, "there is no message whose id ends with 1234ff"),
        ("ff", 2, "ID: 'ff' is not an id"),
        ("welcome", 2, "ID: 'welcome' is not an id"),
    ],
)
def test_digits_that_fit_none_or_several_are_refused(
    desk: Desk, text: str, code: int, says: str
) -> None:
    desk.store(put)
    refused = desk.run("messages", "show", text)
    assert (refused.exit_code, refused.stderr) == (code, f"tickwork: {says}\n")


def test_batches_dead_letters_and_schedules_have_short_ids_too(desk: Desk) -> None:
    async def work(store: Store) -> tuple[UUID, UUID]:
        await put(store)
        await kill(store, "emails", reason="permanent", error="no")
        batch = await create_batch(Context(store, DEFAULT), "emails", [1])
        letters = (await store.dead_letters.list(DEFAULT, "emails", Selection())).letters
        return batch.id, letters[0].id

    batch, letter = desk.store(work)
    assert desk.json("batches", "show", batch.hex[-8:])["id"] == f"bat_{batch.hex}"
    assert desk.json("dead", "show", letter.hex[-8:])["id"] == f"dead_{letter.hex}"
    assert desk.json("dead", "replay", "emails", "--id", letter.hex[-8:])["replayed"] == 1
    made = desk.json("schedules", "create", "@daily", "--queue", "emails")
    short = made["id"][-8:]
    assert desk.json("schedules", "show", short)["id"] == made["id"]
    assert desk.json("schedules", "update", short, "--name", "deadbeef")["id"] == made["id"]
    assert desk.json("schedules", "show", "deadbeef")["id"] == made["id"]


@pytest.mark.parametrize("words", [["messages", "show"], ["dead", "replay", "emails", "--id"]])
def test_a_server_is_not_asked_for_the_last_digits_of_an_id(words: list[str]) -> None:
    at = ["--server", "http://127.0.0.1:1", "--api-key", "tw_x"]
    refused = CliRunner().invoke(app, [*words, "4fca32a0", *at])
    name = "--id" if "--id" in words else "ID"
    says = f"tickwork: {name}: '4fca32a0' is not a whole id, which a server needs\n"
    assert (refused.exit_code, refused.stderr) == (2, says)


@pytest.mark.parametrize(
    "words",
    [
        ["queues", "purge", "nowhere"],
        ["schedules", "delete", "nowhere"],
        ["batches", "cancel", str(ONE)],
    ],
)
def test_nothing_is_asked_about_a_thing_that_does_not_exist(desk: Desk, words: list[str]) -> None:
    desk.answer("migrate")
    refused = desk.run(*words, given="y\n")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("tickwork: there is no ")


def test_the_question_names_the_number_of_messages(desk: Desk) -> None:
    desk.store(put)
    asked = desk.run("queues", "purge", "emails", given="n\n")
    assert asked.stderr.startswith("Permanently delete 2 unclaimed messages of emails? [y/N] ")
