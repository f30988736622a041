"""Takes the pictures of the docs: `python -m tests.console.pictures docs/pictures`, or
`make pictures`. Every page in light and dark: the overview of the demo of `make run`, and the
others of the shop of `shop.py`, after it has worked for a moment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import socket
from typing import Any, Literal

import httpx
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.console.served import make
from tests.kit.api import bearer, new_key_of
from tests.kit.waiting import eventually_blocking
from tickwork.wiring import Settings

SIZE: ViewportSize = {"width": 1280, "height": 800}
BYTES_MAX = 40_000
QUALITIES = (70, 55, 40, 25, 12, 6)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

PAGES = (
    "overview", "sign-in", "schedules", "new-schedule", "schedule", "month", "edit", "queues",
    "queue", "messages", "message", "trace", "dead-queues", "dead-letters", "dead-letter",
    "batches", "batch", "endpoints", "endpoint", "deliveries", "delivery", "workflows", "runs",
    "run", "entities", "entity", "forecast", "nodes", "audit", "settings", "tenant",
)  # fmt: skip
"""Names of the pictures; each is taken in light and dark."""


def main(folder: Path) -> None:
    """Writes `<page>-light.webp` and `<page>-dark.webp`."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.*"):
        path.unlink()
    with sync_playwright() as playwright:
        program = os.environ.get("TESTS_BROWSER") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with running("examples.demo.app:app") as http:
            take(browser, http, folder, fill_demo(http))
        with receiver() as hooks, running("tests.console.shop:app") as http:
            take(browser, http, folder, fill_shop(http, hooks))
        browser.close()
    missing = {*PAGES} - {path.name.rsplit("-", 1)[0] for path in folder.iterdir()}
    assert not missing, missing


@contextmanager
def running(app: str) -> Iterator[httpx.Client]:
    """A node with all roles on a new file, and a client with a key of all scopes."""
    with tempfile.TemporaryDirectory() as work, socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        settings = Settings(database=f"sqlite:///{work}/app.db")
        with ThreadPoolExecutor(1) as apart:  # The browser's event loop runs in this thread.
            key = apart.submit(new_key_of, settings).result()
        command = [sys.executable, "-m", "tickwork", "run", app, "--port", port]
        environ = {
            "TICKWORK_DATABASE": settings.database,
            "TICKWORK_ALLOW_TARGETS": "127.0.0.0/8",
            "TICKWORK_SECRET_KEY": b64encode(bytes(32)).decode(),
        }
        server = subprocess.Popen(
            [*command, "--roles", "api,scheduler,worker"],
            env=os.environ | environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        url = f"http://127.0.0.1:{port}"
        try:
            with httpx.Client(base_url=url, headers=bearer(key), timeout=30) as http:
                eventually_blocking(lambda: _is_ready(http), timeout_seconds=60, what=app)
                yield http
        finally:
            server.terminate()
            server.wait(20)


@contextmanager
def receiver() -> Iterator[str]:
    """A receiver of webhooks that refuses every fifth request."""

    class Hooks(BaseHTTPRequestHandler):
        asked = 0

        def do_POST(self) -> None:
            Hooks.asked += 1
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(503 if Hooks.asked % 5 == 0 else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hooks)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hooks"
    server.shutdown()


def fill_demo(http: httpx.Client) -> dict[str, str]:
    (tick,) = make(http, "GET", "/v1/schedules")["items"]
    make(http, "POST", f"/v1/schedules/{tick['id']}/trigger")
    for name in ("Ada", "Grace", "Barbara"):
        make(http, "POST", "/v1/queues/greetings/messages", {"body": {"name": name}})
    eventually_blocking(lambda: _has_worked(http), timeout_seconds=60, what="the greetings")
    return {"overview": "/"}


def fill_shop(http: httpx.Client, hooks: str) -> dict[str, str]:
    endpoint = make(
        http, "POST", "/v1/endpoints", {"name": "warehouse", "url": hooks, "types": ["order.*"]}
    )
    for number in range(60):
        order = {"order": 9_007_199_254_740_993 + number, "items": number % 5 + 1}
        make(http, "POST", "/v1/queues/orders/messages", {"body": order, "type": "order.placed"})
        where = "example.invalid" if number % 6 == 0 else "example.com"
        body = {"to": f"user{number}@{where}", "order": order["order"]}
        make(http, "POST", "/v1/queues/emails/messages", {"body": body, "type": "welcome"})
        if number % 5 == 0:
            make(http, "POST", "/v1/events", {"type": "order.paid", "data": order})
    traced = {"body": {"order": 17}, "type": "order.placed", "correlation_id": "order-17"}
    make(http, "POST", "/v1/queues/orders/messages", traced)
    later = {"body": {"order": 17, "total": "129.00"}, "delay_seconds": 900, "type": "invoice.due"}
    message = make(http, "POST", "/v1/queues/invoices/messages", later)
    items: list[dict[str, Any]] = [
        {"body": {"to": f"user{index}@example.com"}} for index in range(40)
    ]
    items.append({"body": {"to": "x@example.invalid"}})
    items.append({"body": {"to": "y@example.com"}, "delay_seconds": 600})
    batch = make(http, "POST", "/v1/batches", {"queue": "emails", "items": items})
    for order_number in (16, 17, 18):
        params = {"id": f"order-{order_number}", "params": {"order": order_number}}
        make(http, "POST", "/v1/workflows/fulfil/runs", params)
    for name in ("ada", "grace", "barbara"):
        make(http, "POST", f"/v1/entities/Cart/{name}/add", {"args": ["lamp", len(name)]})
    make(http, "PUT", "/v1/calendars/holidays", {"days": ["2027-01-01", "2027-05-01"]})
    make(http, "POST", "/v1/subscriptions", {"types": "order.*", "queue": "invoices"})
    make(http, "PUT", "/v1/limits/mail-provider", {"rate": 50})
    make(http, "POST", "/v1/tenants", {"id": "acme"})
    found = {
        schedule["name"]: schedule["id"] for schedule in make(http, "GET", "/v1/schedules")["items"]
    }
    for name in ("nightly-report", "morning-mail"):
        make(http, "POST", f"/v1/schedules/{found[name]}/trigger")
    eventually_blocking(lambda: _has_worked(http), timeout_seconds=60, what="the work of the shop")
    (letter, *_) = make(http, "GET", "/v1/queues/emails/dead?limit=1")["items"]
    (delivery, *_) = make(http, "GET", "/v1/deliveries?limit=1")["items"]
    report = f"/console/schedules/{found['nightly-report']}"
    return {
        "sign-in": "/console/queues",
        "schedules": "/console/schedules",
        "new-schedule": "/console/schedules?new=yes",
        "schedule": report,
        "month": f"{report}?view=month",
        "edit": f"{report}?edit=yes",
        "queues": "/console/queues",
        "queue": "/console/queues/orders",
        "messages": "/console/messages",
        "message": f"/console/messages/{message['id']}",
        "trace": "/console/trace/order-17",
        "dead-queues": "/console/dead",
        "dead-letters": "/console/dead/emails",
        "dead-letter": f"/console/letters/{letter['id']}",
        "batches": "/console/batches",
        "batch": f"/console/batches/{batch['id']}",
        "endpoints": "/console/endpoints",
        "endpoint": f"/console/endpoints/{endpoint['id']}",
        "deliveries": "/console/deliveries",
        "delivery": f"/console/deliveries/{delivery['id']}",
        "workflows": "/console/workflows",
        "runs": "/console/workflows/fulfil",
        "run": "/console/workflows/fulfil/order-17",
        "entities": "/console/entities/Cart",
        "entity": "/console/entities/Cart/ada",
        "forecast": "/console/forecast",
        "nodes": "/console/nodes",
        "audit": "/console/audit",
        "settings": "/console/settings",
        "tenant": "/console/settings/default",
    }


def _is_ready(http: httpx.Client) -> bool:
    try:
        return bool(http.get("/readyz").json()["missing"] == [])
    except httpx.TransportError:
        return False


def _has_worked(http: httpx.Client) -> bool:
    queues = make(http, "GET", "/v1/stats")["queues"]
    return all(queue["counts"]["ready"] + queue["counts"]["claimed"] == 0 for queue in queues)


def take(browser: Browser, http: httpx.Client, folder: Path, pages: dict[str, str]) -> None:
    """Visits the pages in light and dark."""
    url, key = str(http.base_url).rstrip("/"), http.headers["Authorization"].split()[1]
    page = browser.new_page(viewport=SIZE, timezone_id="Europe/Berlin")
    if "sign-in" in pages:
        _take(page, f"{url}{pages.pop('sign-in')}", folder, "sign-in")
    page.context.request.post(f"{url}/v1/session", data={"key": key})
    for name, path in pages.items():
        _take(page, f"{url}{path}", folder, name)
    page.context.close()


def _take(page: Page, address: str, folder: Path, name: str) -> None:
    page.goto(address)
    page.wait_for_selector("h1")
    page.wait_for_selector(".loading", state="detached")
    page.wait_for_timeout(700)  # Charts and previews come a moment later.
    if name == "month":
        page.locator(".month").scroll_into_view_if_needed()
    if name == "edit":
        page.get_by_label("Time of day").fill("03:15")
        page.get_by_role("heading", name="change").wait_for()
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(50)
        (folder / f"{name}-{scheme}.webp").write_bytes(_small_picture(page))
    page.emulate_media(color_scheme="light")


def _small_picture(page: Page) -> bytes:
    """The page as it is shown, as well as its size allows."""
    session = page.context.new_cdp_session(page)
    taken = b""
    for quality in QUALITIES:
        asked = {"format": "webp", "quality": quality}
        taken = b64decode(session.send("Page.captureScreenshot", asked)["data"])
        if len(taken) <= BYTES_MAX:
            break
    session.detach()
    return taken


if __name__ == "__main__":
    main(Path(sys.argv[1]))
