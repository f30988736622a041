"""Nothing of one tenant or owner, and no secret, is in what others read; and reading changes
nothing."""

from __future__ import annotations

import logging
import re
import sqlite3
from typing import Any

import asyncpg
import httpx
import pytest

from tests.api.acts import make_queue, pull, send
from tests.api.test_auth_matrix import ROUTES
from tests.kit.api import bearer, new_key
from tests.stores.home import Home
from tickwork.core.access import Permission

Http = httpx.AsyncClient
GETS = [
    route for route in ROUTES if route.method == "GET" and route.permission in ("read", "admin")
]
HIDDEN = "canary-secret-8c1f"


async def fill(http: Http, canary: str, **headers: str) -> dict[str, str]:
    """Something of each kind, named after a canary; what path parameters may name."""
    http.headers.update(headers)
    queue = f"queue-{canary}"
    await make_queue(http, queue, max_retries=0)
    new = {"cron_expr": "@daily", "target": {"type": "queue", "queue": queue}, "payload": canary}
    made = await http.post("/v1/schedules", json={**new, "name": canary, "metadata": {"m": canary}})
    await send(http, queue, body=canary, type=canary, key=canary)
    (leased,) = await pull(http, queue)
    await http.post(
        f"/v1/queues/{queue}/messages/ack", json={"retries": [{"lease_id": leased["lease_id"]}]}
    )
    message = await send(http, queue, body=canary, delay_seconds=600)
    (letter,) = (await http.get(f"/v1/queues/{queue}/dead")).json()["items"]
    batch = await http.post(
        "/v1/batches", json={"queue": queue, "items": [{"body": canary, "delay_seconds": 600}]}
    )
    await http.put(f"/v1/limits/{canary}", json={"rate": 1})
    await http.put(f"/v1/calendars/{canary}", json={"days": ["2027-01-01"]})
    await http.post("/v1/subscriptions", json={"types": f"{canary}.*", "queue": queue})
    endpoint = await http.post("/v1/endpoints", json={
        "name": canary, "url": f"https://{canary}.example.com/{HIDDEN}", "types": ["a.*"],
        "secret_headers": {"X-Token": HIDDEN},
    })  # fmt: skip
    await http.post("/v1/events", json={"type": "a.b", "data": canary})
    (delivery,) = (await http.get("/v1/deliveries")).json()["items"]
    operation = await http.post(
        "/v1/operations", json={"kind": "dead_letters.discard", "selection": {"queue": queue}}
    )
    return {
        "operation": operation.json()["id"],
        "queue": queue, "schedule": made.json()["id"], "message_id": message,
        "dead_letter": letter["id"], "dead_letter_id": letter["id"], "batch": batch.json()["id"],
        "limit_name": canary, "calendar": canary, "endpoint": endpoint.json()["id"],
        "delivery": delivery["id"], "tenant": canary, "key": "k", "workflow": canary, "run": canary,
        "entity_type": canary, "name": canary, "correlation_id": canary,
        "message_type": canary,
    }  # fmt: skip


def path_of(path: str, named: dict[str, str]) -> str:
    return re.sub(r"{(\w+):str}", lambda found: named[found[1]], path)


async def test_no_answer_holds_the_canary_of_another_tenant(http: Http, home: Home) -> None:
    for tenant in ("anna", "berta"):
        await http.post("/v1/tenants", json={"id": tenant})
    named = {
        tenant: await fill(http, f"canary-{tenant}", **{"Tickwork-Tenant": tenant})
        for tenant in ("anna", "berta")
    }
    del http.headers["Tickwork-Tenant"]
    store = await home.open()
    scopes = [permission for permission in Permission if permission is not Permission.ADMIN]
    key = bearer(await new_key(store, tenant="anna", scopes=scopes))
    await store.close()
    own = 0
    for route in GETS:
        for values in named.values():
            path = path_of(route.path, values)
            answer = await http.get(path, headers=key)
            text = answer.text
            for asked in values.values():  # An error repeats what was asked for.
                text = text if asked not in path else text.replace(asked, "")
            assert "canary-berta" not in text, (path, answer.text)
            assert "canary-berta" not in str(answer.headers), path
            own += "canary-anna" in answer.text
    assert own > 15, "the canaries are in no answer at all"


async def test_no_answer_holds_the_canary_of_another_owner(http: Http, home: Home) -> None:
    await make_queue(http, "q")
    new = {"cron_expr": "@daily", "target": {"type": "queue", "queue": "q"}}
    last = ""
    for owner in ("anna", "berta"):
        canary = f"canary-{owner}"
        fields = {"owner": owner, "name": canary, "payload": canary, "metadata": {"m": canary}}
        made = await http.post("/v1/schedules", json={**new, **fields})
        last = made.json()["id"]
        await http.post(f"/v1/schedules/{last}/trigger")
    store = await home.open()
    key = bearer(await new_key(store, owner="anna", scopes=["read"]))
    await store.close()
    named = dict.fromkeys(("queue", "tenant", "key"), "x") | {"schedule": last}
    own = 0
    for route in GETS:
        values = named | dict.fromkeys(re.findall(r"{(\w+):str}", route.path), "x") | named
        answer = await http.get(path_of(route.path, values), headers=key)
        assert "canary-berta" not in answer.text, route
        assert route.is_for_owners or answer.status_code == 403, route
        own += "canary-anna" in answer.text
    assert own >= 2


async def test_no_answer_and_no_log_line_holds_a_secret(
    http: Http, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="tickwork"):
        named = await fill(http, "shop")
        created = await http.post(
            "/v1/tenants/default/keys", json={"name": "ci", "scopes": ["read"]}
        )
        signing = (await http.post("/v1/endpoints/shop/rotate")).json()["secret"]
        token = created.json()["token"]
        values = named | {"tenant": "default", "key": created.json()["id"]}
        secrets = [token, token.rpartition("_")[2], signing]
        for route in GETS:
            answer = await http.get(path_of(route.path, values))
            assert not [secret for secret in secrets if secret in answer.text], route
            if not route.path.startswith("/v1/endpoints"):  # Its URL is its owner's to see.
                assert HIDDEN not in answer.text, route
        wrong = {"Authorization": f"Bearer {token[:-4]}0000"}
        assert token[:-4] not in (await http.get("/v1/queues", headers=wrong)).text
    logged = "\n".join(
        record.getMessage() for record in caplog.records if "tickwork" in record.name
    )
    assert not [secret for secret in (*secrets, HIDDEN) if secret in logged]


async def rows(home: Home) -> dict[str, list[Any]]:
    """Every row of the database, except when keys were used."""
    if home.url.startswith("sqlite"):
        file = sqlite3.connect(home.url.removeprefix("sqlite:///"))
        tables = [
            name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
        found = {name: sorted(map(str, file.execute(f"SELECT * FROM {name}"))) for name in tables}
        file.close()
    else:
        connection = await asyncpg.connect(home.url)
        tables = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        found = {
            name: sorted(map(str, await connection.fetch(f"SELECT * FROM {name}")))
            for (name,) in tables
        }
        await connection.close()
    return {name: value for name, value in found.items() if name != "tickwork_api_keys"}


async def test_reading_changes_no_row(http: Http, home: Home) -> None:
    values = await fill(http, "shop") | {"tenant": "default"}
    for path in ("/v1/stats", "/v1/performance"):  # What is noted is added up when it is asked for.
        await http.get(path)
    before = await rows(home)
    assert before["tickwork_messages"]
    for route in GETS:
        assert (await http.get(path_of(route.path, values))).status_code < 500, route
    after = await rows(home)
    assert {name for name in after if after[name] != before[name]} <= {"tickwork_tallies"}
