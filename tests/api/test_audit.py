"""The audit log: changes with who made them, before and after, and no secrets."""

from __future__ import annotations

import httpx

from tests.api.acts import every_page, make_queue, problem, pull, send
from tests.kit.api import bearer, new_key
from tests.stores.home import Home
from tickwork.core.audit import without_secrets

Http = httpx.AsyncClient
CANARY = "canary-7f3a"


async def test_changes_are_recorded_with_before_and_after(http: Http) -> None:
    await make_queue(http, "q")
    await make_queue(http, "q", max_retries=7)
    made = await http.post(
        "/v1/schedules", json={"cron_expr": "@daily", "target": {"type": "queue", "queue": "q"}}
    )
    schedule = made.json()["id"]
    await http.patch(f"/v1/schedules/{schedule}", json={"cron_expr": "@hourly"})
    await http.post(f"/v1/schedules/{schedule}/pause")
    await http.delete(f"/v1/schedules/{schedule}")
    await http.post("/v1/tenants/default/suspend")
    await http.post("/v1/tenants/default/resume")
    await http.post("/v1/queues/q/purge")  # There is nothing to purge: no change.
    await send(http)
    await http.post("/v1/queues/q/purge")
    found = [*reversed(await every_page(http, "/v1/audit", limit=2))]
    assert [entry["action"] for entry in found] == [
        "queue.put", "queue.put", "schedule.create", "schedule.update", "schedule.pause",
        "schedule.delete", "tenant.suspend", "tenant.resume", "queue.purge",
    ]  # fmt: skip
    assert all(entry["actor"].startswith("key ") for entry in found)
    _, put, created, updated, paused, deleted, suspended, *_ = found
    assert (put["before"]["max_retries"], put["after"]["max_retries"]) == (3, 7)
    assert (created["before"], created["after"]["cron_expr"]) == (None, "@daily")
    assert (updated["before"]["cron_expr"], updated["after"]["cron_expr"]) == ("@daily", "@hourly")
    assert (paused["before"]["status"], paused["after"]["status"]) == ("active", "paused")
    assert deleted["after"]["status"] == "deleted"
    assert (suspended["before"]["suspended"], suspended["after"]["suspended"]) == (False, True)


async def test_the_log_has_no_secrets_and_no_refused_changes(http: Http) -> None:
    created = await http.post("/v1/tenants/default/keys", json={"name": "ci", "scopes": ["read"]})
    secret = created.json()["token"].rpartition("_")[2]
    await make_queue(http, "q")
    body = {
        "cron_expr": "@daily",
        "payload": CANARY,
        "target": {"type": "queue", "queue": "q"},
        "metadata": {"note": CANARY},
    }
    assert (await http.post("/v1/schedules", json=body)).status_code == 201
    problem(await http.patch("/v1/tenants/default", json={"weight": 0}), 422, "invalid_input")
    log = await http.get("/v1/audit")
    assert [entry["action"] for entry in log.json()["items"]] == [
        "schedule.create", "queue.put", "key.create",
    ]  # fmt: skip
    assert secret not in log.text
    assert CANARY not in log.text


def test_urls_and_headers_are_hidden() -> None:
    target = {"type": "slack", "url": f"https://user:{CANARY}@hooks.slack.com/{CANARY}"}
    shown = without_secrets({"target": {**target, "headers": {"Authorization": CANARY}}})
    assert shown["target"]["url"] == "https://hooks.slack.com/***"
    assert CANARY not in str(shown)
    assert CANARY not in str(without_secrets({"channels": [target]}))


async def test_a_tenant_sees_only_its_own_changes(http: Http, home: Home) -> None:
    await http.post("/v1/tenants", json={"id": "other"})
    await make_queue(http, "q")
    store = await home.open()
    other = bearer(await new_key(store, tenant="other", scopes=["read"]))
    found = (await http.get("/v1/audit", headers=other)).json()["items"]
    actions = [entry["action"] for entry in found]
    assert "tenant.create" in actions
    assert "queue.put" not in actions
    await store.close()


async def test_every_kind_of_change_is_recorded_without_its_secrets(http: Http) -> None:
    await make_queue(http, "q", max_retries=0)
    secrets = [
        (await http.post("/v1/endpoints", json={
            "name": "shop", "url": f"https://example.com/{CANARY}", "types": ["a.*"],
            "secret_headers": {"X-Token": CANARY},
        })).json()["secret"],
        (await http.post("/v1/endpoints/shop/rotate")).json()["secret"],
    ]  # fmt: skip
    for method, path, body in (
        ("PATCH", "/v1/endpoints/shop", {"secret_headers": {"X-Token": f"{CANARY}2"}}),
        ("POST", "/v1/endpoints/shop/disable", {"reason": "moves"}),
        ("POST", "/v1/endpoints/shop/enable", None),
        ("PUT", "/v1/limits/slow", {"rate": 1}),
        ("DELETE", "/v1/limits/slow", None),
        ("POST", "/v1/subscriptions", {"types": "a.*", "queue": "q"}),
        ("PUT", "/v1/calendars/off", {"days": ["2027-12-25"]}),
        ("DELETE", "/v1/calendars/off", None),
    ):
        answer = await http.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
    await send(http, body={"password": CANARY})
    (leased,) = await pull(http)
    retry = {"retries": [{"lease_id": leased["lease_id"]}]}
    await http.post("/v1/queues/q/messages/ack", json=retry)
    (letter,) = (await http.get("/v1/queues/q/dead")).json()["items"]
    await http.patch(f"/v1/dead/{letter['id']}", json={"body": f"{CANARY}3"})
    await http.post(f"/v1/dead/{letter['id']}/replay")
    await http.delete("/v1/endpoints/shop")
    log = await http.get("/v1/audit")
    actions = [entry["action"] for entry in reversed(log.json()["items"])]
    assert actions == [
        "queue.put", "endpoint.create", "endpoint.rotate", "endpoint.update", "endpoint.disable",
        "endpoint.enable", "limit.put", "limit.delete", "subscription.put", "calendar.put",
        "calendar.delete", "dead_letter.edit", "dead_letters.replay", "endpoint.delete",
    ]  # fmt: skip
    assert not [secret for secret in (CANARY, *secrets) if secret in log.text]
