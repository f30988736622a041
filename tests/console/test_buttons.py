"""Every button of the console is pressed once, in a real browser, and the database then has what
the button said; the last test finds a button that no test names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.conftest import DESKTOP, Tab, Tabs
from tests.console.running_shop import Shop, running_shop
from tests.console.served import kill
from tests.kit.api import bearer
from tickwork import clock

SOURCES = Path(__file__).parents[2] / "console" / "src"
WRITTEN = re.compile(
    r">\s*(?P<plain>\w[^<>{}]*?)\s*(?:\{[^{}]*\}\s*)?</(?:Act|Ask|Widen)>"
    r"|\bact[:=]\s*['\"](?P<act>[^'\"]+)['\"]"
    r"|\bact: `(?P<begin>[^`$]+)\$"
)
"""The text of a button; of one with a number, what comes before it."""


class Hand:
    """Somebody who presses buttons, and looks into the database behind them."""

    def __init__(self, tab: Tab, shop: Shop) -> None:
        self.tab = tab
        self.page: Page = tab.page
        self.dialog = tab.page.get_by_role("dialog")
        self.shop = shop

    def press(self, button: str, *, within: Locator | None = None) -> None:
        (within or self.page).get_by_role("button", name=button, exact=True).first.click()

    def sure(self, button: str, says: str = "", **fields: str) -> None:
        """Fills the fields of the dialog, and presses the button that names the deed."""
        expect(self.dialog).to_contain_text(says)
        for name, value in fields.items():
            self.dialog.locator(f"[name={name}]").fill(value)
        self.press(button, within=self.dialog)

    def done(self, says: str) -> None:
        """The page says that it was done, and no dialog is left."""
        expect(self.page.locator(".said")).to_contain_text(says)
        expect(self.dialog).to_have_count(0)

    def row(self, text: str) -> Locator:
        return self.page.locator("tbody tr", has_text=text).first


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with running_shop(tmp_path_factory.mktemp("shop")) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def opened(browser: Browser, shop: Shop) -> Iterator[Tab]:
    tabs = Tabs(browser)
    yield tabs.sign_in(shop.server, viewport=DESKTOP)
    tabs.close()


@pytest.fixture
def hand(opened: Tab, shop: Shop) -> Iterator[Hand]:
    yield Hand(opened, shop)
    opened.check()


def test_the_buttons_of_a_queue_and_its_messages(hand: Hand, shop: Shop) -> None:
    path = "/v1/queues/parcels"
    shop.ask("PUT", path, {})
    hand.tab.open("/console/queues/parcels")
    hand.press("Pause")
    hand.done("Paused")
    assert shop.ask("GET", path)["paused"] is True
    hand.press("Resume")
    hand.done("Resumed.")
    assert shop.ask("GET", path)["paused"] is False
    for number in (1, 2, 3):
        hand.press("Send a message")
        hand.sure("Send 1 message", body=f'{{"number": {number}}}', type="parcel")
        hand.done("Sent.")
    messages = shop.ask("GET", f"{path}/messages")["items"]
    sent = [(message["body"], message["type"]) for message in messages]
    assert sent == [({"number": number}, "parcel") for number in (1, 2, 3)]
    hand.tab.open(f"/console/messages/{messages[0]['id']}")
    hand.press("Delete")
    hand.sure("Delete 1 message", "No handler will get it.")
    hand.done("Deleted.")
    left = shop.ask("GET", f"{path}/messages")["items"]
    assert [message["body"]["number"] for message in left] == [2, 3]
    hand.tab.open("/console/queues/parcels")
    hand.press("Purge")
    hand.sure("Delete 2 messages", "2 messages wait now.")
    hand.done("2 messages deleted.")
    assert shop.ask("GET", f"{path}/messages")["items"] == []


def test_the_buttons_of_a_dead_letter(hand: Hand, shop: Shop) -> None:
    shop.ask("PUT", "/v1/queues/returns", {"max_retries": 0})
    for number in (1, 2):
        shop.ask("POST", "/v1/queues/returns/messages", {"body": number})
    kill(shop.server.http, "returns", 2)
    first, second = shop.ask("GET", "/v1/queues/returns/dead")["items"]
    hand.tab.open(f"/console/letters/{first['id']}")
    hand.press("Replay")
    hand.done("Replayed as msg_")
    replayed = shop.ask("GET", f"/v1/dead/{first['id']}")
    assert replayed["resolution"] == "replayed"
    (message,) = shop.ask("GET", "/v1/queues/returns/messages")["items"]
    assert (message["id"], message["body"]) == (replayed["replayed_as"], first["body"])
    hand.tab.open(f"/console/letters/{second['id']}")
    hand.press("Discard")
    hand.sure("Discard 1 dead letter", "It cannot be replayed any more.")
    hand.done("Discarded.")
    assert shop.ask("GET", f"/v1/dead/{second['id']}")["resolution"] == "discarded"
    assert len(shop.ask("GET", "/v1/queues/returns/messages")["items"]) == 1


def test_the_buttons_of_a_schedule(hand: Hand, shop: Shop) -> None:
    shop.ask("PUT", "/v1/queues/reports", {})
    target = {"type": "queue", "queue": "reports"}
    fields = {"name": "hourly", "cron_expr": "0 * * * *", "target": target}
    made = shop.ask("POST", "/v1/schedules", fields)
    path = f"/v1/schedules/{made['id']}"
    hand.tab.open(f"/console/schedules/{made['id']}")
    hand.press("Pause")
    hand.done("Paused.")
    assert shop.ask("GET", path)["status"] == "paused"
    hand.press("Resume")
    hand.done("Resumed.")
    assert shop.ask("GET", path)["status"] == "active"
    hand.press("Run now")
    hand.done("Triggered: it runs once now.")
    waiting = "/v1/queues/reports/messages"
    shop.eventually(lambda: len(shop.ask("GET", waiting)["items"]) == 1, "its run")
    hand.press("Backfill")
    hand.sure(
        "Backfill", "Slots in this range that did not succeed",
        **{"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T02:30:00Z"},
    )  # fmt: skip
    hand.done("3 slots will run.")
    shop.eventually(lambda: len(shop.ask("GET", waiting)["items"]) == 4, "the slots")
    hand.press("Change the timing")
    hand.page.get_by_label("Cron expression").fill("30 * * * *")
    hand.page.get_by_role("region", name="Slots that move").wait_for()
    hand.press("Save the timing")
    hand.done("Saved.")
    assert shop.ask("GET", path)["cron_expr"] == "30 * * * *"
    hand.press("Delete")
    hand.sure("Delete 1 schedule", "It will not fire again.")
    hand.done("Deleted.")
    assert shop.ask("GET", path)["status"] == "deleted"


def test_a_schedule_that_paused_itself_is_resumed_beside_the_problem(
    hand: Hand, shop: Shop
) -> None:
    printer_off = shop.folder / "printer-off"
    printer_off.touch()
    soon = (clock.now() + timedelta(seconds=1)).isoformat()
    fields: dict[str, Any] = {"name": "careful", "interval_seconds": 60, "start_at": soon}
    fields["on_dead"] = "pause"
    fields["target"] = {"type": "queue", "queue": "slots"}
    path = f"/v1/schedules/{shop.ask('POST', '/v1/schedules', fields)['id']}"
    shop.eventually(lambda: shop.ask("GET", path)["status"] == "paused", "its pause")
    printer_off.unlink()
    hand.tab.open("/")
    problem = hand.page.locator("li", has_text="Schedule careful")
    expect(problem).to_contain_text("paused itself after a slot failed: the printer is off")
    hand.press("Resume the schedule", within=problem)
    hand.done("Resumed.")
    assert shop.ask("GET", path)["status"] == "active"
    shop.ask("DELETE", path)


def status_of(shop: Shop, run: str) -> str:
    status: str = shop.ask("GET", f"/v1/workflows/trip/runs/{run}")["status"]
    return status


def start_run(shop: Shop, run: str, params: Any = None) -> None:
    """Starts a run, which waits for `paid` then."""
    shop.ask("POST", "/v1/workflows/trip/runs", {"id": run, "params": params})
    path = f"/v1/workflows/trip/runs/{run}"
    shop.eventually(lambda: "paid" in str(shop.ask("GET", path)["waits_for"]), "its wait")


def pay(shop: Shop, run: str) -> None:
    shop.ask("POST", f"/v1/workflows/trip/runs/{run}/events", {"type": "paid", "data": None})


def test_the_buttons_of_a_run(hand: Hand, shop: Shop) -> None:
    hand.tab.open("/console/workflows/trip")
    hand.press("Start a run")
    hand.sure("Start 1 run", id="ada", params="null")
    hand.done("Started.")
    shop.eventually(lambda: status_of(shop, "ada") in {"waiting", "running"}, "its start")
    hand.tab.open("/console/workflows/trip/ada")
    hand.press("Pause")
    hand.done("Paused after its step.")
    shop.eventually(lambda: status_of(shop, "ada") == "paused", "its pause")
    hand.press("Resume")
    hand.done("Resumed.")
    shop.eventually(lambda: status_of(shop, "ada") != "paused", "its return")
    hand.press("Send an event")
    hand.sure("Send 1 event", type="paid", data="null")
    hand.done("Sent.")
    shop.eventually(lambda: status_of(shop, "ada") == "completed", "its end")
    start_run(shop, "bob")
    hand.tab.open("/console/workflows/trip/bob")
    hand.press("Cancel")
    hand.sure("Cancel 1 run", "Its compensations run, in reverse order.")
    hand.done("Cancelled.")
    shop.eventually(lambda: status_of(shop, "bob") == "cancelled", "its end")
    steps = shop.ask("GET", "/v1/workflows/trip/runs/bob")["steps"]
    assert "compensate book" in {step["key"] for step in steps}


def test_the_buttons_of_a_failed_run(hand: Hand, shop: Shop) -> None:
    start_run(shop, "eve", "fails")
    pay(shop, "eve")
    shop.eventually(lambda: status_of(shop, "eve") == "failed", "its failure")
    path = "/v1/workflows/trip/runs/eve"
    before = shop.ask("GET", path)["generation"]
    hand.tab.open("/console/workflows/trip/eve")
    hand.press("Restart from here", within=hand.row("fly"))
    hand.sure("Restart 1 run", "Run again: book, fly.")
    hand.done("Restarted.")
    assert shop.ask("GET", path)["generation"] == before + 1
    shop.eventually(lambda: status_of(shop, "eve") == "failed", "its second failure")


def test_the_buttons_of_a_diverged_run(hand: Hand, shop: Shop) -> None:
    for run in ("restarted", "undone", "ended"):
        start_run(shop, run)
    shop.deploy("new")
    for run in ("restarted", "undone", "ended"):
        pay(shop, run)
        shop.eventually(lambda run=run: status_of(shop, run) == "diverged", "the divergence")
    hand.tab.open("/console/workflows/trip/restarted")
    expect(hand.page.get_by_role("alert")).to_contain_text("visa")
    hand.press("Restart")
    hand.sure("Restart 1 run", "Run again: book, paid")
    hand.done("Restarted.")
    path = "/v1/workflows/trip/runs/restarted"
    shop.eventually(
        lambda: "visa" in {step["key"] for step in shop.ask("GET", path)["steps"]}, "the visa"
    )
    hand.tab.open("/console/workflows/trip/undone")
    hand.press("Cancel with compensation")
    hand.sure("Cancel 1 run", "Undoes what this code can undo, in reverse order.")
    hand.done("Cancelled.")
    shop.eventually(lambda: status_of(shop, "undone") == "cancelled", "its end")
    hand.tab.open("/console/workflows/trip/ended")
    hand.press("Terminate")
    hand.sure("Terminate 1 run", "Nothing is undone.")
    hand.done("Terminated.")
    shop.eventually(lambda: status_of(shop, "ended") == "terminated", "its end")
    steps = shop.ask("GET", "/v1/workflows/trip/runs/ended")["steps"]
    assert not any(step["key"].startswith("compensate") for step in steps)


def test_the_buttons_of_an_entity(hand: Hand, shop: Shop) -> None:
    path = "/v1/entities/Cart/ada"
    shop.ask("POST", f"{path}/add", {"args": ["tea"]})
    hand.tab.open("/console/entities/Cart/ada")
    hand.press("Call a method")
    hand.sure("Call", method="add", args='["milk"]')
    expect(hand.dialog).to_contain_text("milk")
    hand.press("Close", within=hand.dialog)
    assert shop.ask("GET", f"{path}/storage")["items"][0]["value"] == ["tea", "milk"]
    hand.press("Change")
    hand.sure("Change 1 value", "Calls of the entity wait", value='["bread"]')
    hand.done("Changed.")
    assert shop.ask("GET", f"{path}/storage")["items"][0]["value"] == ["bread"]
    hand.press("Delete")
    hand.sure("Delete 1 entity", "Its storage and its alarm are deleted.")
    hand.done("Deleted.")
    assert shop.server.http.get(path).status_code == 404


def test_the_button_of_a_batch(hand: Hand, shop: Shop) -> None:
    shop.ask("PUT", "/v1/queues/letters", {})
    items = [{"body": number} for number in (1, 2)]
    made = shop.ask("POST", "/v1/batches", {"queue": "letters", "items": items})
    hand.tab.open(f"/console/batches/{made['id']}")
    hand.press("Cancel")
    hand.sure("Cancel 2 items", "2 items wait now and will not run.")
    hand.done("Cancelled.")
    assert shop.ask("GET", f"/v1/batches/{made['id']}")["pending"] == 0
    assert shop.ask("GET", "/v1/queues/letters/messages")["items"] == []


def test_the_buttons_of_endpoints_and_deliveries(hand: Hand, shop: Shop) -> None:
    hand.tab.open("/console/endpoints")
    hand.press("New endpoint")
    hand.sure("Create the endpoint", name="stock", url=shop.receiver.url, types="order.*, item.new")
    secret = hand.dialog.locator("pre").inner_text()
    hand.press("I have stored it", within=hand.dialog)
    (made,) = shop.ask("GET", "/v1/endpoints")["items"]
    assert (made["name"], made["types"]) == ("stock", ["order.*", "item.new"])
    assert secret.startswith("whsec_")
    path = f"/v1/endpoints/{made['id']}"
    hand.tab.open(f"/console/endpoints/{made['id']}")
    hand.press("Send a test")
    hand.done("The receiver answered 204")
    assert len(shop.receiver.taken) == 1
    hand.press("Disable")
    hand.sure("Disable the endpoint", "Deliveries wait until it is enabled again.", reason="moved")
    hand.done("Disabled.")
    assert shop.ask("GET", path)["disabled_reason"] == "moved"
    hand.press("Enable")
    hand.done("Enabled")
    assert shop.ask("GET", path)["disabled_at"] is None
    shop.ask("PATCH", path, {"retry_seconds": [0.1]})
    shop.receiver.status = 400
    shop.ask("POST", "/v1/events", {"type": "order.paid", "data": {"order": 17}})
    dead = "/v1/deliveries?status=dead"
    shop.eventually(lambda: shop.ask("GET", dead)["items"], "its death")
    shop.receiver.status = 204
    hand.press("Recover")
    hand.sure("Recover", "Those that failed since the time below are sent again")
    hand.done("1 delivery will be sent again")
    shop.eventually(lambda: len(shop.receiver.taken) == 2, "the delivery")
    (delivery,) = shop.ask("GET", "/v1/deliveries")["items"]
    hand.tab.open(f"/console/deliveries/{delivery['id']}")
    hand.press("Send again")
    hand.done("It will be sent again")
    shop.eventually(lambda: len(shop.receiver.taken) == 3, "the second delivery")
    assert shop.receiver.taken[1] == shop.receiver.taken[2]


def refusal(shop: Shop, token: str) -> int:
    """The status of the answer to a request with a key."""
    return httpx.get(f"{shop.server.url}/v1/queues", headers=bearer(token)).status_code


def test_the_buttons_of_tenants_and_keys(hand: Hand, shop: Shop) -> None:
    hand.tab.open("/console/settings")
    hand.press("New tenant")
    hand.sure("Create the tenant", id="acme")
    hand.done("Created.")
    assert shop.ask("GET", "/v1/tenants/acme")["suspended"] is False
    hand.tab.open("/console/settings/acme")
    hand.press("New key")
    hand.sure("Create the key", name="shop window")
    token = hand.dialog.locator("pre").inner_text()
    hand.press("I have stored it", within=hand.dialog)
    assert refusal(shop, token) == 200
    hand.press("Rotate")
    hand.sure("Rotate 1 key", "It gets a new secret. The one before works for another day.")
    rotated = hand.dialog.locator("pre").inner_text()
    hand.press("I have stored it", within=hand.dialog)
    assert rotated != token
    assert [refusal(shop, text) for text in (token, rotated)] == [200, 200]
    hand.press("Suspend")
    hand.sure("Suspend 1 tenant", "Its keys are refused")
    hand.done("Suspended.")
    assert shop.ask("GET", "/v1/tenants/acme")["suspended"] is True
    hand.press("Resume")
    hand.done("Resumed.")
    assert shop.ask("GET", "/v1/tenants/acme")["suspended"] is False
    shop.ask("POST", "/v1/tenants/acme/suspend")
    hand.tab.open("/?tenant=acme")
    hand.press("Resume the tenant")
    hand.done("Resumed.")
    assert shop.ask("GET", "/v1/tenants/acme")["suspended"] is False
    hand.tab.open("/console/settings/acme")
    hand.press("Revoke")
    hand.sure("Revoke 1 key", "are refused within three seconds")
    hand.done("Revoked.")
    shop.eventually(lambda: refusal(shop, rotated) == 401, "the refusal")


def test_the_buttons_of_calendars(hand: Hand, shop: Shop) -> None:
    target = {"type": "queue", "queue": "slots"}
    rule = {"once_at": "2099-12-25T09:00:00Z", "calendar": "holidays", "roll": "next_day"}
    hand.tab.open("/console/settings")
    hand.press("New calendar")
    hand.sure("Create the calendar", name="holidays", days="2099-12-24\n2099-12-31")
    hand.done("Saved. 0 schedules changed their next fire.")
    path = "/v1/calendars/holidays"
    assert shop.ask("GET", path)["days"] == ["2099-12-24", "2099-12-31"]
    made = shop.ask("POST", "/v1/schedules", rule | {"target": target})
    hand.press("New calendar")
    hand.sure("Create the calendar", name="holidays", days="2000-01-01")
    expect(hand.dialog.get_by_role("alert")).to_have_text(re.compile("of this name. Change it"))
    hand.press("Cancel", within=hand.dialog)
    assert len(shop.ask("GET", path)["days"]) == 2
    hand.press("Change the days off", within=hand.row("holidays"))
    hand.sure("Save the days off", "Slots of its schedules", days="2099-12-24, 2099-12-25")
    hand.done("Saved. 1 schedule changed its next fire.")
    assert shop.ask("GET", path)["days"] == ["2099-12-24", "2099-12-25"]
    shop.ask("DELETE", f"/v1/schedules/{made['id']}")
    hand.press("Delete the calendar", within=hand.row("holidays"))
    hand.sure("Delete 1 calendar", "that a schedule uses cannot be deleted")
    hand.done("Deleted.")
    assert shop.ask("GET", "/v1/calendars")["items"] == []


def test_the_buttons_of_subscriptions(hand: Hand, shop: Shop) -> None:
    shop.ask("PUT", "/v1/queues/mails", {})
    hand.tab.open("/console/settings")
    hand.press("New subscription")
    hand.sure("Subscribe the queue", types="parcel.*", queue="mails")
    hand.done("Subscribed.")
    shop.ask("POST", "/v1/events", {"type": "parcel.sent", "data": 1})
    assert len(shop.ask("GET", "/v1/queues/mails/messages")["items"]) == 1
    hand.press("Unsubscribe", within=hand.row("parcel.*"))
    hand.sure("Delete 1 subscription", "What waits in it stays.")
    hand.done("Deleted.")
    shop.ask("POST", "/v1/events", {"type": "parcel.sent", "data": 2})
    assert len(shop.ask("GET", "/v1/queues/mails/messages")["items"]) == 1


def test_the_buttons_of_limits(hand: Hand, shop: Shop) -> None:
    hand.tab.open("/console/settings")
    hand.press("New limit")
    hand.sure("Create the limit", name="partner", rate="5", period_seconds="60")
    hand.done("Saved.")
    path = "/v1/limits/partner"
    limit = {"name": "partner", "rate": 5, "period_seconds": 60, "concurrency": None}
    assert shop.ask("GET", path) == limit
    hand.press("Change the limit", within=hand.row("partner"))
    hand.sure("Save the limit", "all queues and endpoints that name it", rate="", concurrency="3")
    hand.done("Saved.")
    assert shop.ask("GET", path) == limit | {"rate": None, "concurrency": 3}
    hand.press("Delete the limit", within=hand.row("partner"))
    hand.sure("Delete 1 limit", "are not limited by it any more")
    hand.done("Deleted.")
    assert shop.ask("GET", "/v1/limits")["items"] == []


def test_the_buttons_for_all_tenants(hand: Hand, shop: Shop) -> None:
    hand.tab.open("/console/nodes")
    hand.press("Pause everything")
    hand.sure("Pause all tenants", "No message of any tenant is claimed")
    hand.done("Paused.")
    assert shop.ask("GET", "/v1/cluster")["paused_at"] is not None
    hand.press("Resume everything")
    hand.done("Resumed.")
    assert shop.ask("GET", "/v1/cluster")["paused_at"] is None
    hand.press("Widen the fire windows")
    hand.sure("Widen the windows of all tenants", "until the windows are narrowed", seconds="90")
    hand.done("Widened.")
    assert shop.ask("GET", "/v1/cluster")["widened_seconds"] == 90
    hand.press("Narrow the windows")
    hand.done("Narrowed.")
    assert shop.ask("GET", "/v1/cluster")["widened_seconds"] == 0


def labels() -> set[str]:
    """The text of each button that changes something, or asks whether it shall."""
    found = set[str]()
    for path in SOURCES.rglob("*.tsx"):
        for match in WRITTEN.finditer(path.read_text()):
            found.add(next(text for text in match.groups() if text).strip())
    return found


def test_every_button_is_pressed_by_a_test() -> None:
    texts = {
        node.value
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert len(labels()) > 50
    unpressed = {label for label in labels() if not any(text.startswith(label) for text in texts)}
    assert unpressed == set()
