"""A server with a database that has something of each kind, for tests in a browser."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import httpx
import uvicorn

from tests.kit.api import bearer, new_key, outside_of
from tickwork import clock
from tickwork.api import create_api
from tickwork.api.server_state import stop_streams
from tickwork.core import when
from tickwork.ops.workflows import ensure_workflow
from tickwork.wiring import Settings, open_store

HOSTILE = (
    '<img src=x onerror="document.title=1"><script>document.title=2</script> מלך مرحبا 🧨 &"q"'
)
"""A name; it may not contain control characters. Bodies may."""

HOSTILE_BODY = f"{HOSTILE} \u202e evil \u0001 \u2028 👩\u200d👩\u200d👧"
LARGE = 2**63
"""An integer that JavaScript's numbers cannot hold."""


class Served(NamedTuple):
    """A server, with a key of all scopes and a client that uses it."""

    url: str
    key: str
    http: httpx.Client
    database: str

    def key_of(self, *scopes: str, tenant: str = "default") -> str:
        made = self.http.post(
            f"/v1/tenants/{tenant}/keys", json={"name": "test", "scopes": [*scopes]}
        )
        token: str = made.json()["token"]
        return token


def prepared(settings: Settings) -> str:
    """Makes a database with a workflow, and returns a key with all scopes."""

    async def prepare() -> str:
        store = await open_store(settings)
        try:
            await ensure_workflow(store, "content")
            return await new_key(store)
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as apart:  # A browser's event loop may run in this thread.
        return apart.submit(asyncio.run, prepare()).result()


@contextmanager
def served(database: str, **outside: Any) -> Iterator[Served]:
    """Serves an API on an empty database, in a thread, on a port of the system's choice. `outside`
    are settings about what it reaches."""
    settings = Settings(database=database)
    key = prepared(settings)
    api = create_api(
        now=clock.now,
        limits=when.Limits(),
        open_store=lambda: open_store(settings),
        is_on_loopback=True,
        outside=outside_of(settings.database, **outside),
    )
    server = uvicorn.Server(uvicorn.Config(api, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with httpx.Client(base_url=url, headers=bearer(key), timeout=60) as http:
        yield Served(url, key, http, database)
    stop_streams(api)
    server.should_exit = True
    thread.join(10)


def make(http: httpx.Client, method: str, path: str, body: Any = None) -> Any:
    """Makes a request that has to succeed."""
    answer = http.request(method, path, json=body)
    assert answer.status_code < 300, (path, answer.text)
    return answer.json() if answer.content else None


def kill(http: httpx.Client, queue: str, number: int) -> None:
    """Makes dead letters of messages that wait in a queue without retries."""
    pulled = make(http, "POST", f"/v1/queues/{queue}/messages/pull", {"batch_size": number})
    leases = [{"lease_id": message["lease_id"]} for message in pulled["messages"]]
    make(http, "POST", f"/v1/queues/{queue}/messages/ack", {"retries": leases})


def grow_old(database: str, queue: str, seconds: int) -> None:
    """Makes the messages of a queue in a SQLite file wait for longer."""
    with closing(sqlite3.connect(database.removeprefix("sqlite:///"), timeout=10)) as file, file:
        file.execute(
            "UPDATE tickwork_messages SET visible_at = visible_at - ?1, sent_at = sent_at - ?1 "
            "WHERE queue_id = (SELECT id FROM tickwork_queues WHERE name = ?2)",
            (seconds * 1_000_000, queue),
        )


def fill(http: httpx.Client, word: str = "") -> dict[str, str]:
    """Something of each kind, with hostile names; returns the pages that show one thing."""
    name = f"{word}{HOSTILE}"[:110]
    make(http, "PUT", "/v1/queues/orders", {"max_retries": 0})
    body = {"to": word + HOSTILE_BODY, "number": LARGE, "small": 1.5, "list": [LARGE + 1, -LARGE]}
    for _ in range(3):
        make(http, "POST", "/v1/queues/orders/messages", {"body": body, "type": name[:60]})
    kill(http, "orders", 3)
    sent = make(
        http, "POST", "/v1/queues/orders/messages",
        {"body": body, "type": name[:60], "key": name, "delay_seconds": 3_600,
         "correlation_id": "story"},
    )  # fmt: skip
    target = {"type": "queue", "queue": "orders"}
    made = make(
        http, "POST", "/v1/schedules",
        {"name": name, "cron_expr": "30 2 * * *", "timezone": "America/New_York", "target": target,
         "payload": body, "exclude": ["2027-12-25"]},
    )  # fmt: skip
    make(http, "POST", f"/v1/schedules/{made['id']}/trigger")
    items = [{"body": name, "delay_seconds": 600}, {"body": 2, "delay_seconds": 600}]
    batch = make(http, "POST", "/v1/batches", {"queue": "orders", "items": items})
    make(http, "PUT", "/v1/calendars/holidays", {"days": ["2027-12-25"]})
    make(http, "POST", "/v1/subscriptions", {"types": "order.*", "queue": "orders"})
    make(http, "PUT", "/v1/limits/shared", {"rate": 5})
    endpoint = make(
        http, "POST", "/v1/endpoints",
        {"name": f"{word}shop", "url": "https://example.com/hooks", "types": ["order.*"],
         "description": name},
    )  # fmt: skip
    make(http, "POST", "/v1/events", {"type": "order.paid", "data": body})
    (delivery,) = make(http, "GET", "/v1/deliveries")["items"]
    run = make(http, "POST", "/v1/workflows/content/runs", {"id": f"{word}run", "params": body})
    letters = make(http, "GET", "/v1/queues/orders/dead")["items"]
    return {
        "schedule": f"/console/schedules/{made['id']}",
        "edit": f"/console/schedules/{made['id']}?edit=yes",
        "month": f"/console/schedules/{made['id']}?view=month",
        "queue": "/console/queues/orders",
        "message": f"/console/messages/{sent['id']}",
        "trace": "/console/trace/story",
        "dead letters of a queue": "/console/dead/orders",
        "dead letter": f"/console/letters/{letters[0]['id']}",
        "batch": f"/console/batches/{batch['id']}",
        "type": "/console/types/order.*",
        "endpoint": f"/console/endpoints/{endpoint['id']}",
        "delivery": f"/console/deliveries/{delivery['id']}",
        "runs": "/console/workflows/content",
        "run": f"/console/workflows/content/{run['id']}",
    }
