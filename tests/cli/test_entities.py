"""`tickwork entities`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.cli.kit import Desk
from tickwork import Entity, Tickwork, exposed
from tickwork.cli.output import local_time
from tickwork.core.model import DEFAULT
from tickwork.errors import NotFound
from tickwork.ops.context import Context
from tickwork.ops.entities import new_call, send_call
from tickwork.store.contract import Store


class Brand(Entity):
    @exposed
    async def describe(self, word: str, times: int = 1) -> dict[str, str]:
        if times < 1:
            raise ValueError("too few")
        return {self.key: " ".join([word] * times)}

    async def rename(self, name: str) -> None:
        await self.storage.put("name", name)

    @exposed
    async def lose(self) -> None:
        raise NotFound("queue", "nowhere")


@pytest.fixture
def office(desk: Desk) -> Desk:
    app = Tickwork(desk.url)
    app.entities.register(Brand)

    async def fill() -> None:
        for key in ("abc", "llc", "x/y"):
            await app.entity(Brand, key).rename(key.upper())
        await app.close()

    asyncio.run(fill())
    return desk


def test_entities_are_listed_shown_changed_and_deleted(office: Desk) -> None:
    assert office.json("entities", "list") == [{"type": "Brand", "entities": 3}]
    assert [entity["key"] for entity in office.json("entities", "list", "Brand")] == [
        "abc",
        "llc",
        "x/y",
    ]
    assert "llc" in office.answer("entities", "list", "Brand", "--prefix", "l")
    shown = office.answer("entities", "show", "Brand", "llc")
    assert 'name  "LLC"' in shown
    assert "alarm: none" in shown
    office.answer("entities", "put", "Brand", "x/y", "a/b", "[1]")
    assert office.json("entities", "show", "Brand", "x/y")["storage"]["a/b"] == [1]
    office.answer("entities", "put", "Brand", "llc", "count", "[1]")
    assert office.json("entities", "show", "Brand", "llc")["storage"] == {
        "count": [1],
        "name": "LLC",
    }
    office.answer("entities", "delete-value", "Brand", "llc", "count")
    at = "2027-01-01T00:00:00Z"
    parsed = datetime(2027, 1, 1, tzinfo=UTC)
    assert office.json("entities", "alarm", "Brand", "llc", "--at", at)["alarm_at"] == at
    for verb in ("alarm", "show"):
        assert f"alarm: {local_time(parsed)}\n" in office.answer("entities", verb, "Brand", "llc")
    assert "none" in office.answer("entities", "alarm", "Brand", "llc", "--delete")
    kept = office.run("entities", "delete", "Brand", "llc", given="n\n")
    assert kept.exit_code == 1
    assert kept.stderr.startswith("Permanently delete Brand llc with all that it stores? [y/N]")
    office.answer("entities", "delete", "Brand", "llc", "--yes")
    assert [entity["key"] for entity in office.json("entities", "list", "Brand")] == ["abc", "x/y"]


def test_what_an_entity_waits_for_is_explained(office: Desk) -> None:
    assert office.answer("entities", "why", "Brand", "llc").startswith("Brand llc is free: no ala")
    assert office.json("entities", "why", "Brand", "llc") == []

    async def send(store: Store) -> None:
        await send_call(Context(store, DEFAULT), new_call("Brand", "llc", "rename", ["A"], {}))

    office.store(send)
    office.store(send)
    first, second = office.json("entities", "why", "Brand", "llc")
    assert (first["code"], second["code"]) == ("ready", "blocked")
    assert first["id"] in second["answer"]
    assert "which is due and waits for a worker" in office.answer("entities", "why", "Brand", "llc")


def test_a_storage_that_is_cut_says_so(office: Desk) -> None:
    for name in ("a", "b", "c"):
        office.answer("entities", "put", "Brand", "llc", name, "1")
    shown = office.answer("entities", "show", "Brand", "llc", "--limit", "2")
    assert "and more keys than these 2: --limit shows more" in shown
    cut = office.json("entities", "show", "Brand", "llc", "--limit", "2")
    assert (cut["storage"], cut["has_more"]) == ({"a": 1, "b": 1}, True)
    assert "more keys" not in office.answer("entities", "show", "Brand", "llc")


@pytest.fixture
def staffed(office: Desk) -> Iterator[Desk]:
    """The office with a worker in a thread."""
    app = Tickwork(office.url)
    app.entities.register(Brand)
    stop = asyncio.Event()

    async def work() -> None:
        async with app.running():
            await stop.wait()

    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=lambda: runner.run(work()))
        thread.start()
        try:
            yield office
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()


def test_an_exposed_method_is_called_and_its_result_printed(staffed: Desk) -> None:
    call = ("entities", "call", "Brand", "llc", "describe")
    assert staffed.answer(*call, "--args", '["tax"]') == '{"llc":"tax"}\n'
    by_name = ("--args", '{"word": "tax", "times": 2}', "--idempotency-key", "a")
    assert staffed.json(*call, *by_name) == {"result": {"llc": "tax tax"}}
    for words, says in (
        (call[2:4], "METHOD is missing"),
        ((*call[2:], "--args", "7"), "--args: must be a JSON list or object"),
        ((*call[2:], "--args", "{"), "--args: must be JSON, such as '[5]'"),
        ((*call[2:], "--args", '["tax", 0]'), "Brand 'llc' failed in describe"),
        (("Brand", "llc", "rename"), "there is no method of Brand rename"),
        (("Brand", "llc", "descibe"), "Brand descibe; do you mean describe?"),
        (("Brand", "llc", "lose"), "Brand 'llc' failed in lose: there is no queue nowhere"),
        (("Brnd", "llc", "describe"), "there is no entity Brnd; did you mean Brand?"),
    ):
        refused = staffed.run("entities", "call", *words)
        assert refused.exit_code in (1, 2), words
        assert says in refused.stderr


def test_bad_input_names_the_argument(office: Desk) -> None:
    for words, says in (
        (["show", "Brand"], "KEY is missing"),
        (["show", "Brand", "nobody"], "there is no Brand 'nobody'"),
        (["list", "Brnd"], "there is no entity Brnd; did you mean Brand?"),
        (["put", "Brand", "abc", "x", "{"], "VALUE: must be JSON"),
        (["put", "Brand", "nobody", "x", "1"], "there is no Brand 'nobody'"),
        (["delete-value", "Brand", "abc", "x"], "there is no key in the storage of Brand 'abc' x"),
        (["alarm", "Brand", "abc", "--at", "soon"], "--at: "),
        (["alarm", "Brand", "abc", "--delete"], "there is no alarm of Brand 'abc'"),
        (["delete", "Brand", "nobody"], "there is no Brand 'nobody'"),
    ):
        refused = office.run("entities", *words)
        assert refused.exit_code in (1, 2), words
        assert says in refused.stderr
