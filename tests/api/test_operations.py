"""Operations over HTTP: what a caller starts, nodes carry on."""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.acts import every_page, problem, pull
from tests.api.test_dead_letters import DEAD, die
from tests.kit.api import bearer, new_key
from tests.stores.home import Home
from tickwork.core.access import Permission
from tickwork.core.model import SYSTEM
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import carry_on

Http = httpx.AsyncClient
OPERATIONS = "/v1/operations"


async def begin(http: Http, kind: str = "dead_letters.replay", **fields: Any) -> dict[str, Any]:
    selection = {"queue": "q"} | fields.pop("selection", {})
    answer = await http.post(OPERATIONS, json={"kind": kind, "selection": selection, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def carry_out(home: Home, http: Http, operation: dict[str, Any]) -> dict[str, Any]:
    """Carries it on as a node does, until it is finished."""
    store = await home.open()
    for _ in range(100):
        await carry_on(Context(store, SYSTEM))
        known: dict[str, Any] = (await http.get(f"{OPERATIONS}/{operation['id']}")).json()
        if known["finished_at"] is not None:
            await store.close()
            return known
    raise AssertionError("it is not finished")


async def test_nodes_do_what_a_caller_started_and_say_how_far_it_is(http: Http, home: Home) -> None:
    for number in range(3):
        await die(http, type="a" if number else "b")
    made = await begin(http, selection={"type": "a"})
    assert made["id"].startswith("oper_")
    assert (made["state"], made["total"], made["done"]) == ("running", 2, 0)
    assert made["selection"]["queue"] == "q"
    assert made["started_by"].startswith("key ")
    later = await die(http, type="a")
    done = await carry_out(home, http, made)
    assert (done["state"], done["done"], done["failed"]) == ("done", 2, 0)
    assert len(await pull(http)) == 2
    left = await every_page(http, DEAD)
    assert [letter["type"] for letter in left] == ["b", "a"]
    assert left[-1]["id"] == later["id"]


async def test_a_stopped_operation_does_nothing_more(http: Http, home: Home) -> None:
    await die(http)
    made = await begin(http, "dead_letters.discard")
    stopped = (await http.post(f"{OPERATIONS}/{made['id']}/stop")).json()
    assert (stopped["state"], stopped["reason"]) == ("stopped", "stopped")
    assert stopped["stopped_by"] == made["started_by"]
    assert await carry_out(home, http, made) == stopped
    assert len(await every_page(http, DEAD)) == 1
    problem(await http.post(f"{OPERATIONS}/{made['id']}/stop"), 409, "conflict")


async def test_operations_are_listed_newest_first_page_by_page(http: Http) -> None:
    await die(http)
    ids = [(await begin(http))["id"] for _ in range(3)]
    assert [item["id"] for item in await every_page(http, OPERATIONS, limit=2)] == ids[::-1]
    await http.post(f"{OPERATIONS}/{ids[1]}/stop")
    still_open = await every_page(http, OPERATIONS, open_only=True)
    assert [item["id"] for item in still_open] == [ids[2], ids[0]]


async def test_a_repeat_with_its_key_starts_no_second_operation(http: Http) -> None:
    await die(http)
    body = {"kind": "dead_letters.replay", "selection": {"queue": "q"}}
    answers = [
        await http.post(OPERATIONS, json=body, headers={"Idempotency-Key": "k1"}) for _ in range(2)
    ]
    assert answers[0].json() == answers[1].json()
    assert len(await every_page(http, OPERATIONS)) == 1


async def test_what_cannot_be_started_names_its_field(http: Http) -> None:
    await die(http)
    for body, field in (
        ({"selection": {"queue": "q"}}, "kind"),
        ({"kind": "dead_letters.eat", "selection": {"queue": "q"}}, "kind"),
        ({"kind": "dead_letters.replay"}, "selection"),
        ({"kind": "dead_letters.replay", "selection": {}}, "selection.queue"),
        ({"kind": "dead_letters.replay", "selection": {"queue": "q", "typ": "a"}}, "selection.typ"),
        ({"kind": "dead_letters.replay", "selection": {"queue": "q"}, "canary": 101}, "canary"),
    ):
        answer = await http.post(OPERATIONS, json=body)
        assert answer.status_code in (400, 422)
        assert [fault["field"] for fault in answer.json()["errors"]] == [field]


async def test_a_reader_sees_operations_and_cannot_start_or_stop_them(
    http: Http, home: Home
) -> None:
    await die(http)
    made = await begin(http)
    store = await home.open()
    reader = bearer(await new_key(store, scopes=[Permission.READ]))
    await store.close()
    seen = await http.get(f"{OPERATIONS}/{made['id']}", headers=reader)
    assert seen.json()["state"] == "running"
    for path in (OPERATIONS, f"{OPERATIONS}/{made['id']}/stop"):
        problem(await http.post(path, headers=reader, json={}), 403, "needs_manage")
