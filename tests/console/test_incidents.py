"""A week on call, in a real browser: ten incidents with real processes. The overview names each
first; three clicks lead to its cause; what it offers repairs it; all is well again."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import DESKTOP, Tab, Tabs
from tests.console.running_shop import Shop, running_shop
from tests.console.served import grow_old
from tickwork import clock

CLICKS_MAX = 3


class Operator:
    """Somebody on call at the console, who counts clicks to a cause."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page: Page = tab.page
        self._clicks = 0

    def sees_first(self, what: str) -> None:
        """The overview names this before anything else."""
        self.tab.open("/")
        self._clicks = 0
        problems = self.page.get_by_role("region", name="Problems").locator("li strong")
        expect(problems.first).to_have_text(re.compile(what))

    def clicks(self, name: str) -> None:
        """Follows a link, or the button of a row, on the way to the cause."""
        self._clicks += 1
        assert self._clicks <= CLICKS_MAX
        self.page.locator("main").get_by_role("link", name=re.compile(name)).first.click()
        self.tab.settle()

    def reads(self, cause: str) -> None:
        expect(self.page.locator("main")).to_contain_text(re.compile(cause))

    def presses(self, button: str, *, sure: str | None = None) -> None:
        """Presses a button of the page, and says in its dialog that it is meant."""
        self.page.get_by_role("button", name=button, exact=True).first.click()
        if sure is not None:
            self.page.get_by_role("dialog").get_by_role("button", name=sure, exact=True).click()
            self.page.get_by_role("dialog").wait_for(state="hidden")

    def sees_that_all_is_well(self) -> None:
        self.tab.open("/")
        self.page.get_by_text("✓ All is well.").wait_for()
        self.tab.check()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with running_shop(tmp_path_factory.mktemp("shop")) as running:
        running.start()
        yield running


@pytest.fixture
def on_call(shop: Shop, tabs: Tabs) -> Iterator[Operator]:
    """All is well before an incident, and after it."""
    operator = Operator(tabs.sign_in(shop.server, viewport=DESKTOP))
    operator.sees_that_all_is_well()
    yield operator
    operator.sees_that_all_is_well()


def change_rows(shop: Shop, statement: str) -> None:
    """Changes rows of the file, as if time had passed."""
    path = shop.server.database.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, timeout=10)) as file, file:
        assert file.execute(statement).rowcount > 0


def test_a_late_schedule(shop: Shop, on_call: Operator) -> None:
    frozen = shop.start()
    shop.stop(all_but=frozen)
    shop.freeze(frozen)
    passed = "due_at - unixepoch() * 1000000 + 90000000"
    moved = ", ".join(
        f"{name} = {name} - ({passed})" for name in ("next_slot", "due_at", "look_at")
    )
    change_rows(shop, f"UPDATE tickwork_schedules SET {moved} WHERE name = 'new-year'")
    on_call.sees_first("new-year is late by over a minute")
    on_call.clicks("new-year is late")
    on_call.reads("Why")
    frozen.cont()


def test_a_stuck_queue(shop: Shop, on_call: Operator) -> None:
    shop.ask("POST", "/v1/queues/orders/pause")
    shop.ask("POST", "/v1/queues/orders/messages", {"body": {}})
    on_call.sees_first("Queue orders is paused")
    on_call.clicks("Queue orders is paused")
    on_call.reads("oldest waits")
    on_call.tab.open("/")
    on_call.presses("Resume the queue")
    shop.eventually(lambda: not waiting(shop, "orders"), "the order")


def test_a_queue_that_nobody_consumes(shop: Shop, on_call: Operator) -> None:
    shop.ask("PUT", "/v1/queues/returns", {})
    shop.ask("POST", "/v1/queues/returns/messages", {"body": {}})
    grow_old(shop.server.database, "returns", 300)
    on_call.sees_first("1 message of queue returns waits, and nobody takes them")
    on_call.clicks("queue returns waits")
    on_call.clicks("^…")
    on_call.reads("Why is it here")
    on_call.tab.open("/console/queues/returns")
    on_call.presses("Purge", sure="Delete 1 message")


def waiting(shop: Shop, queue: str) -> list[Any]:
    items: list[Any] = shop.ask("GET", f"/v1/queues/{queue}/messages")["items"]
    return items


def test_a_dead_endpoint(shop: Shop, on_call: Operator) -> None:
    made = shop.ask(
        "POST", "/v1/endpoints", {"name": "stock", "url": shop.receiver.url, "types": ["order.*"]}
    )
    shop.receiver.status = 410
    shop.ask("POST", "/v1/events", {"type": "order.paid", "data": {"order": 17}})
    path = f"/v1/endpoints/{made['id']}"
    shop.eventually(lambda: shop.ask("GET", path)["disabled_at"], "the end of the endpoint")
    on_call.sees_first("Endpoint stock is disabled")
    on_call.clicks("Endpoint stock is disabled")
    on_call.reads("410")
    shop.receiver.status = 204
    on_call.tab.open("/")
    on_call.presses("Enable the endpoint")
    shop.eventually(lambda: shop.receiver.taken, "the delivery")
    assert b'"order":17' in shop.receiver.taken[0].replace(b" ", b"")


def test_diverged_runs(shop: Shop, on_call: Operator) -> None:
    shop.ask("POST", "/v1/workflows/trip/runs", {"id": "ada", "params": None})
    run = "/v1/workflows/trip/runs/ada"
    shop.eventually(lambda: "paid" in str(shop.ask("GET", run)["waits_for"]), "its wait")
    shop.deploy("new")
    shop.ask("POST", f"{run}/events", {"type": "paid", "data": None})
    shop.eventually(lambda: shop.ask("GET", run)["status"] == "diverged", "the divergence")
    on_call.sees_first("1 run of workflow trip diverged from the code")
    on_call.clicks("diverged from the code")
    on_call.clicks("^ada$")
    on_call.reads("visa")
    on_call.presses("Accept", sure="Accept 1 run")
    shop.eventually(lambda: shop.ask("GET", run)["status"] == "completed", "its end")


def test_a_poison_message(shop: Shop, on_call: Operator) -> None:
    shop.ask("POST", "/v1/queues/orders/messages", {"body": {"is_poison": True}})
    dead = "/v1/queues/orders/dead"
    shop.eventually(lambda: shop.ask("GET", dead)["items"], "its death")
    on_call.sees_first("Queue orders has 1 dead letter")
    on_call.clicks("Queue orders has 1 dead letter")
    on_call.reads("no such article")
    on_call.presses("Discard 1", sure="Discard 1 dead letter")
    on_call.page.get_by_text("1 dead letter discarded.").wait_for()


def test_a_one_shot_that_died(shop: Shop, on_call: Operator) -> None:
    printer_off = shop.folder / "printer-off"
    printer_off.touch()
    soon = (clock.now() + timedelta(seconds=1)).isoformat()
    target = {"type": "queue", "queue": "slots"}
    fields = {"name": "invoice", "once_at": soon, "target": target}
    path = f"/v1/schedules/{shop.ask('POST', '/v1/schedules', fields)['id']}"
    shop.eventually(lambda: shop.ask("GET", path)["last_status"] == "dead", "its death")
    on_call.sees_first("Schedule invoice failed at its last slot, and has no other")
    on_call.clicks("Schedule invoice failed")
    on_call.reads("the printer is off")
    printer_off.unlink()
    on_call.tab.open("/")
    on_call.presses("Run it again")
    shop.eventually(lambda: shop.ask("GET", path)["last_status"] == "succeeded", "its run")
    on_call.tab.open("/console/dead/slots")
    on_call.presses("Discard 1", sure="Discard 1 dead letter")


def test_a_paused_cluster(shop: Shop, on_call: Operator) -> None:
    shop.ask("POST", "/v1/cluster/pause")
    on_call.sees_first("Everything is paused")
    on_call.presses("Resume everything")


def test_a_missing_worker(shop: Shop, on_call: Operator) -> None:
    shop.stop()
    on_call.sees_first("No process has the role scheduler")
    on_call.clicks("No process has the role scheduler")
    on_call.reads("No process runs on this database")
    shop.start(code="new")


def test_a_quota_that_is_used_up(shop: Shop, on_call: Operator) -> None:
    shop.ask("PATCH", "/v1/tenants/default", {"schedules_max": 1})
    on_call.sees_first("Tenant default has .* schedules? that it may have")
    on_call.clicks("Tenant default has")
    on_call.presses("Change quotas")
    dialog = on_call.page.get_by_role("dialog")
    dialog.get_by_label("schedules max", exact=True).fill("100")
    dialog.get_by_role("button", name="Save the quotas").click()
    dialog.wait_for(state="hidden")
    assert shop.ask("GET", "/v1/tenants/default")["schedules_max"] == 100
    shop.ask("PATCH", "/v1/tenants/default", {"schedules_max": None})


def test_a_full_backlog(shop: Shop, on_call: Operator) -> None:
    shop.ask("PUT", "/v1/queues/files", {"backlog_bytes_max": 128_000})
    path = "/v1/queues/files/messages"
    for size in (50_000, 10_000, 1_000, 100):
        for _ in count():
            answer = shop.server.http.post(path, json={"body": "x" * (size - 2)})
            if answer.status_code != 201:
                break
    on_call.sees_first("Queue files has .* of the 128,000 bytes that may wait")
    on_call.clicks("Queue files has")
    on_call.presses("Change settings")
    dialog = on_call.page.get_by_role("dialog")
    dialog.get_by_label("backlog bytes max", exact=True).fill("1000000")
    dialog.get_by_role("button", name="Save the settings").click()
    dialog.wait_for(state="hidden")
    assert shop.server.http.post(path, json={"body": "x" * 500}).status_code == 201


def test_a_stale_process(shop: Shop, on_call: Operator) -> None:
    frozen = shop.start(code="new")
    shop.stop(all_but=frozen)
    shop.freeze(frozen)
    change_rows(shop, "UPDATE tickwork_nodes SET expires_at = expires_at - 60000000")
    on_call.sees_first("does not answer, and nobody has taken over what it does")
    on_call.clicks("does not answer")
    on_call.reads("lease until")
    shop.kill(frozen)
    shop.start(code="new")
