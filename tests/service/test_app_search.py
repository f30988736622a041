"""One text finds things of all kinds, on both stores, and nothing of other tenants."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork import Entity, InvalidInput, Message, Permanent, Step, Tickwork
from tickwork.core.answers.search import Findings
from tickwork.core.model import SYSTEM, Scope, Tenant
from tickwork.ops.context import Context
from tickwork.ops.search import FOUND_MAX, search
from tickwork.testing import harness


class Cart(Entity):
    """An entity with a state."""

    async def add(self, item: str) -> None:
        await self.storage.put("item", item)


def shown(found: Findings) -> set[tuple[str, str]]:
    return {(finding.kind, finding.name) for finding in found.items}


async def test_a_text_finds_what_has_it_as_id_name_owner_key_or_correlation(
    database: str | None,
) -> None:
    app = Tickwork()
    app.entities.register(Cart)
    orders = app.queue("ada-orders")
    app.queue("other")

    @app.on("ada-orders")
    async def fail(_: Message[Any]) -> None:
        raise Permanent("never")

    @app.on("other")
    async def take(_: Message[Any]) -> None: ...

    @app.workflow(name="greet-ada")
    async def greet(step: Step) -> None:
        await step.sleep("nap", 3_600)

    async with harness(app, database=database) as h:
        every: Any = {"interval_seconds": 3_600, "target": {"type": "queue", "queue": "other"}}
        for name in ("ada-daily", "Bob-daily"):
            await app.schedules.create(name=name, **every)
        await app.schedules.create(name="mail", owner="ada", **every)
        endpoint = await app.endpoints.create("to-ada", url="https://example.com/x", types="*")
        await app.entity(Cart, "ada").add("lamp")
        run = await app.workflows.start(greet, id="ada")
        dead = await orders.send(1, correlation_id="ada")
        await h.drain()
        batch = await app.batch("other", [{"n": 1}])

        assert shown(await app.search("ada")) == {
            ("run", "ada"),
            ("schedule", "ada-daily"),
            ("schedule", "mail"),
            ("queue", "ada-orders"),
            ("endpoint", "to-ada"),
            ("workflow", "greet-ada"),
            ("entity", "ada"),
            ("trace", "ada"),
        }
        (found,) = (await app.search("ada-orders")).items
        assert (found.kind, found.id) == ("queue", "ada-orders")
        assert ("run", "greet-ada") in {
            (finding.kind, finding.parent) for finding in (await app.search(run.id)).items
        }
        (letter,) = await app.dead_letters.list("ada-orders")
        for id_, kind in (
            (letter.id, "dead_letter"),
            (dead, "dead_letter"),
            (endpoint.id, "endpoint"),
            (batch.id, "batch"),
        ):
            kinds = {finding.kind for finding in (await app.search(str(id_))).items}
            assert kind in kinds, (id_, kinds)
        ending = str(letter.id)[-8:]
        assert shown(await app.search(ending)) == set()
        assert "dead_letter" in {found.kind for found in (await app.search(f"…{ending}")).items}
        assert ("entity type", "Cart") in shown(await app.search("cart"))
        assert shown(await app.search("nothing has this")) == set()
        await h.store.tenants.put(SYSTEM, Tenant(id="acme"))
        for text in ("ada-daily", "to-ada", str(dead), "mail"):
            assert shown(await search(Context(h.store, Scope("acme")), text)) == set(), text


@pytest.mark.one_store("sqlite")
async def test_of_each_kind_some_are_shown_and_a_wrong_text_is_refused(
    database: str | None,
) -> None:
    app = Tickwork()
    for number in range(FOUND_MAX + 1):
        app.queue(f"mails-{number}")
    async with harness(app, database=database):
        found = await app.search("mails")
        assert (len(found.items), found.is_cut) == (FOUND_MAX, True)
        for text in ("", "x" * 1_000, "a\0b"):
            with pytest.raises(InvalidInput, match=r"^q: "):
                await app.search(text)
