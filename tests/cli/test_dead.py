"""`tickwork dead`: lists, edits, replays and discards dead letters."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from tests.cli.kit import Desk, kill
from tickwork.core.message.body import encode_body
from tickwork.core.model import DEFAULT, ContentType, NewMessage, QueueSettings
from tickwork.ops.context import Context
from tickwork.ops.entities import ensure_entity_type, new_call, send_call
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

MISSING = "dead_00000000000070008000000000000000"


async def bury(store: Store) -> None:
    """Three dead letters: two with the same error, and one with a text body."""
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    for number in range(2):
        body = encode_body({"to": f"user{number}"})
        message = NewMessage(id=new_id(), body=body, type="welcome")
        await store.messages.send(DEFAULT, "emails", message)
        await kill(store, "emails", reason="permanent", error=f"no mailbox {number}")
    text = NewMessage(id=new_id(), body=b"hello", content_type=ContentType.TEXT)
    await store.messages.send(DEFAULT, "emails", text)
    await kill(store, "emails", reason="invalid_payload", error="not a letter\nline two")


@pytest.fixture
def buried(desk: Desk) -> Desk:
    desk.store(bury)
    return desk


def first_id(desk: Desk) -> str:
    dead_letter_id: str = desk.json("dead", "list", "emails")[0]["id"]
    return dead_letter_id


def test_dead_letters_are_listed_oldest_first(buried: Desk) -> None:
    heading, *rows = buried.answer("dead", "list", "emails").splitlines()
    assert heading.split() == ["id", "queue", "failed_at", "reason", "attempts", "type", "error"]
    assert [row.split("  ")[-1].strip() for row in rows] == [
        "no mailbox 0",
        "no mailbox 1",
        "not a letter",
    ]
    listed = buried.json("dead", "list", "emails")
    assert [letter["body"] for letter in listed] == [{"to": "user0"}, {"to": "user1"}, "hello"]
    after = buried.json("dead", "list", "emails", "--after", listed[0]["id"], "--limit", "1")
    assert [letter["id"] for letter in after] == [listed[1]["id"]]
    chosen = buried.json("dead", "list", "emails", "--reason", "invalid_payload")
    assert [letter["id"] for letter in chosen] == [listed[2]["id"]]


def test_without_a_queue_the_dead_letters_of_all_queues_are_listed_newest_first(
    buried: Desk,
) -> None:
    async def bury_call(store: Store) -> None:
        await ensure_entity_type(store, "Account")
        await send_call(Context(store, DEFAULT), new_call("Account", "ada", "deposit", [5], {}))
        await kill(store, "tickwork.entities.Account", reason="max_retries", error="no bank")

    buried.store(bury_call)
    rows = buried.answer("dead", "list").splitlines()[1:]
    assert [row.split()[1] for row in rows] == ["tickwork.entities.Account", *["emails"] * 3]
    listed = buried.json("dead", "list")
    oldest_first = buried.json("dead", "list", "emails")
    assert listed[1:] == oldest_first[::-1]
    chosen = buried.json("dead", "list", "--reason", "permanent", "--limit", "1")
    assert chosen == [oldest_first[1]]
    after = buried.json("dead", "list", "--after", listed[2]["id"])
    assert after == [oldest_first[0]]


def test_letters_without_a_type_are_selected_apart(buried: Desk) -> None:
    (listed,) = buried.json("dead", "list", "emails", "--no-type")
    assert listed["type"] is None
    before = ("--failed-before", "2020-01-01T00:00:00Z")
    assert buried.json("dead", "list", "emails", "--no-type", *before) == []
    assert buried.json("dead", "discard", "emails", "--no-type", *before, "--yes") == {
        "discarded": 0
    }
    asked = buried.run("dead", "discard", "emails", "--no-type", given="y\n")
    assert "Permanently discard 1 dead letter of emails? [y/N]" in asked.stderr
    left = buried.json("dead", "list", "emails")
    assert [letter["type"] for letter in left] == ["welcome", "welcome"]


TRACEBACK = """\
Traceback (most recent call last):
  File "handlers.py", line 7, in welcome
    send(to)
ConnectionError: no route to 10.0.0.7

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "handlers.py", line 9, in welcome
    raise Refused(to)
handlers.Refused: \x1b[2Jada said no
for the 3rd time
"""


async def bury_traceback(store: Store) -> None:
    await store.queues.put(DEFAULT, "emails", QueueSettings())
    message = NewMessage(id=new_id(), body=b"{}", type="bell\x07\x9b")
    await store.messages.send(DEFAULT, "emails", message)
    await kill(store, "emails", reason="max_retries", error=TRACEBACK)


def test_the_list_shows_the_error_line_of_a_traceback(desk: Desk) -> None:
    desk.store(bury_traceback)
    _, row = desk.answer("dead", "list", "emails").splitlines()
    assert row.endswith("handlers.Refused: \\x1b[2Jada said no")
    assert desk.json("dead", "list", "emails")[0]["error"] == TRACEBACK


def test_text_of_senders_and_handlers_cannot_control_the_terminal(desk: Desk) -> None:
    desk.store(bury_traceback)
    answers = [
        desk.answer("dead", "list", "emails"),
        desk.answer("dead", "groups", "emails"),
        desk.answer("dead", "show", first_id(desk)),
    ]
    for answer in answers:
        assert "bell\\x07\\x9b" in answer
        assert not set(answer) & {"\x1b", "\x07", "\x9b"}


def test_dead_letters_are_grouped_by_error(buried: Desk) -> None:
    groups = buried.json("dead", "groups", "emails")
    assert [(group["letters"], group["fingerprint"]) for group in groups] == [
        (2, "no mailbox <n>"),
        (1, "not a letter"),
    ]
    heading, first, _ = buried.answer("dead", "groups", "emails").splitlines()
    assert heading.split()[:2] == ["dead_letters", "reason"]
    assert heading.split()[2:] == ["type", "last_failed_at", "fingerprint", "example"]
    assert "  no mailbox <n>  no mailbox " in first


def test_a_dead_letter_is_shown_with_all_fields(buried: Desk) -> None:
    lines = buried.answer("dead", "show", first_id(buried)).splitlines()
    assert 'body             {"to":"user0"}' in lines
    assert "reason           permanent" in lines
    assert lines[1] == "queue            emails"
    shown = buried.json("dead", "show", first_id(buried))
    assert (shown["queue"], shown["idempotency_key"]) == ("emails", None)
    text_id = buried.json("dead", "list", "emails")[2]["id"]
    text = buried.answer("dead", "show", text_id)
    assert "error            not a letter\n                 line two\n" in text


def test_an_edited_dead_letter_is_replayed_with_its_new_body(buried: Desk) -> None:
    letter = first_id(buried)
    assert "has a new body" in buried.answer("dead", "edit", letter, "--body", '{"to": "other"}')
    assert buried.answer("dead", "replay", "emails", "--id", letter) == "1 replayed\n"
    (message,) = buried.store(lambda store: store.messages.peek(DEFAULT, "emails", 10))
    assert message.body == b'{"to":"other"}'
    assert buried.json("dead", "show", letter)["resolution"] == "fixed"
    assert buried.run("dead", "edit", letter, "--body", "{}").exit_code == 1


def test_a_body_is_read_from_a_file_or_stdin(buried: Desk, tmp_path: Path) -> None:
    letter = first_id(buried)
    file = tmp_path / "body.json"
    file.write_text('{"from": "a file"}')
    assert buried.json("dead", "edit", letter, "--body", f"@{file}")["body"] == {"from": "a file"}
    result = buried.run("dead", "edit", letter, "--body", "@-", given="[1]")
    assert result.exit_code == 0
    assert buried.json("dead", "show", letter)["body"] == [1]


def test_bytes_are_shown_and_read_as_base64(buried: Desk, tmp_path: Path) -> None:
    letter = first_id(buried)

    def body() -> bytes:
        return buried.store(
            lambda store: store.dead_letters.get(DEFAULT, UUID(letter.removeprefix("dead_")))
        ).body

    buried.answer("dead", "edit", letter, "--body", "AAH/", "--content-type", "bytes")
    assert body() == b"\x00\x01\xff"
    assert "body             AAH/" in buried.answer("dead", "show", letter).splitlines()
    assert buried.json("dead", "show", letter)["body"] == "AAH/"
    refused = buried.run("dead", "edit", letter, "--body", "zzz")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == (
        "tickwork: --body: bytes must be base64; to use a file unchanged, pass @FILE\n"
    )
    (tmp_path / "body.bin").write_bytes(b"zzz\xff")
    buried.answer("dead", "edit", letter, "--body", f"@{tmp_path}/body.bin")
    assert body() == b"zzz\xff"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--body", "{"], "--body: is not valid JSON"),
        (["--body", "@/nowhere/at/all"], "--body: /nowhere/at/all cannot be read"),
        (["--body", "x", "--content-type", "xml"], "--content-type: must be one of json"),
        ([], "--body is missing"),
    ],
)
def test_an_invalid_body_is_refused(buried: Desk, words: list[str], says: str) -> None:
    refused = buried.run("dead", "edit", first_id(buried), *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"tickwork: {says}")
    assert len(refused.stderr.splitlines()) == 1


def test_dead_letters_are_replayed_at_a_rate(buried: Desk) -> None:
    words = ("--type", "welcome", "--rate-per-second", "0.01", "--limit", "5")
    assert buried.json("dead", "replay", "emails", *words) == {
        "replayed": 2,
        "canaries": 0,
        "canaries_failed": 0,
        "stopped": None,
    }
    counts = buried.store(lambda store: store.queues.counts(DEFAULT, "emails"))
    assert (counts.ready, counts.delayed, counts.dead) == (1, 1, 1)


def test_canaries_that_time_out_stop_the_replay(buried: Desk) -> None:
    words = ("dead", "replay", "emails", "--canary", "1", "--canary-timeout-seconds", "0.01")
    stopped = buried.run(*words)
    assert (stopped.exit_code, stopped.stdout) == (1, "1 replayed\n")
    assert "the canaries were not handled in time" in stopped.stderr


def test_discard_asks_for_confirmation(buried: Desk) -> None:
    refused = buried.run("dead", "discard", "emails", given="n\n")
    assert refused.exit_code == 1
    assert "Permanently discard 3 dead letters of emails? [y/N]" in refused.stderr
    fewer = buried.run("dead", "discard", "emails", "--reason", "invalid_payload", given="n\n")
    assert "Permanently discard 1 dead letter of emails" in fewer.stderr
    assert buried.json("dead", "discard", "emails", "--yes", "--limit", "2") == {"discarded": 2}
    assert buried.answer("dead", "discard", "emails", "--yes") == "1 discarded\n"
    assert buried.answer("dead", "discard", "emails") == "0 discarded\n"
    assert buried.answer("dead", "list", "emails") == "there are no dead letters\n"
    assert buried.answer("dead", "groups", "emails") == "there are no dead letters\n"


@pytest.mark.parametrize("command", ["replay", "discard"])
def test_ids_that_are_not_open_are_reported_and_nothing_is_done(buried: Desk, command: str) -> None:
    letter = first_id(buried)
    refused = buried.run("dead", command, "emails", "--id", letter, "--id", MISSING)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"tickwork: there is no open dead letter {MISSING} in queue emails; nothing was done\n"
    )
    assert len(buried.json("dead", "list", "emails")) == 3
    buried.answer("dead", command, "emails", "--id", letter, *["--yes"] * (command == "discard"))
    again = buried.run("dead", command, "emails", "--id", letter)
    assert again.exit_code == 1
    assert letter[-12:] in again.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["groups"], 2, "QUEUE is missing"),
        (["list", "nowhere"], 1, "there is no queue nowhere"),
        (["list", "emails", "--limit", "many"], 2, "--limit: must be a whole number, not 'many'"),
        (["list", "emails", "--limit", "0"], 2, "--limit: must be from 1 to 1000"),
        (["list", "emails", "--after", "x"], 2, "--after: 'x' is not an id"),
        (["groups", "emails", "--limit", "0"], 2, "--limit: must be from 1 to 10000"),
        (["show"], 2, "ID is missing"),
        (["show", "x"], 2, "ID: 'x' is not an id"),
        (["show", MISSING], 1, f"there is no dead letter {MISSING}"),
        (
            ["replay", "emails", "--rate-per-second", "fast"],
            2,
            "--rate-per-second: must be a number, not 'fast'",
        ),
        (
            ["replay", "emails", "--rate-per-second", "0"],
            2,
            "--rate-per-second: must be from 0.001",
        ),
        (
            ["replay", "emails", "--canary", "101"],
            2,
            "--canary: must be a whole number from 0 to 100",
        ),
        (
            ["replay", "emails", "--canary-timeout-seconds", "0"],
            2,
            "--canary-timeout-seconds: must be above 0",
        ),
        (["replay", "emails", "--id", "x"], 2, "--id: 'x' is not an id"),
    ],
)
def test_bad_usage_is_one_line(buried: Desk, words: list[str], code: int, says: str) -> None:
    refused = buried.run("dead", *words)
    assert (refused.exit_code, refused.stdout) == (code, "")
    assert refused.stderr.startswith(f"tickwork: {says}")
    assert len(refused.stderr.splitlines()) == 1
