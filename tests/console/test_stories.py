"""What people do with the console, in a real browser: an operator repairs, a newcomer makes a first
schedule, a reader changes nothing, tenants do not meet, sessions end, tabs share one stream."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Normal, Tab, Tabs
from tests.console.served import LARGE, grow_old, kill, make
from tickwork.core.api_key import parse_token
from tickwork.ops import authenticate


def press(tab: Tab, name: str) -> None:
    tab.page.get_by_role("button", name=name, exact=True).first.click()


def test_an_operator_sees_what_is_late_and_what_died_and_repairs_it(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    make(http, "PUT", "/v1/queues/mails", {"max_retries": 0})
    for _ in range(2):
        body = {"to": "nobody", "order": LARGE}
        make(http, "POST", "/v1/queues/mails/messages", {"body": body, "type": "welcome"})
    grow_old(operator.server.database, "mails", 300)
    tab.open("/")
    row = page.get_by_role("region", name="Queues that need a look").get_by_role("row").filter(
        has=page.get_by_role("link", name="mails")
    )  # fmt: skip
    row.filter(has_text="5 min").wait_for()
    row.get_by_role("link", name="mails").click()
    page.get_by_role("region", name="Messages").get_by_role("link").first.click()
    page.get_by_role("heading", name="Why is it here?").wait_for()
    page.locator(".box strong").first.wait_for()
    kill(http, "mails", 2)
    tab.open("/")
    page.get_by_role("region", name="Queues that need a look").get_by_role(
        "link", name="2 dead letters"
    ).click()
    page.get_by_role("region", name="Groups").wait_for()
    page.get_by_role("region", name="Dead letters").get_by_role("link").first.click()
    press(tab, "Edit the body")
    editor = page.locator("textarea[name=body]")
    text = editor.input_value()
    assert f'"order": {LARGE}' in text
    editor.fill(text.replace("nobody", "ada"))
    press(tab, "Save the body")
    page.get_by_text('"to": "ada"').wait_for()
    press(tab, "Replay")
    page.get_by_text("It was fixed").wait_for()
    (ready,) = make(http, "GET", "/v1/queues/mails/messages")["items"]
    assert ready["body"] == {"to": "ada", "order": LARGE}
    page.get_by_role("link", name="mails").first.click()
    press(tab, "Discard 1")
    dialog = page.get_by_role("dialog")
    assert "1 dead letter of mails" in dialog.inner_text()
    dialog.get_by_role("button", name="Discard 1 dead letter").click()
    page.get_by_text("1 dead letter discarded.").wait_for()
    page.get_by_text("This queue has no unresolved dead letter.").wait_for()
    tab.check()


def test_a_newcomer_makes_a_first_schedule_and_changes_it(operator: Tab) -> None:
    tab, http = operator, operator.server.http
    make(http, "PUT", "/v1/queues/reports", {})
    page = tab.open("/console/schedules")
    press(tab, "New schedule")
    page.get_by_label("Name").fill("first")
    page.get_by_label("Target: a queue, or a URL").fill("reports")
    page.get_by_label("Cron expression").fill("61 * * * *")
    page.get_by_role("alert").wait_for()
    tab.wrong.clear()  # The browser reports the refused preview.
    page.get_by_label("Cron expression").fill("30 2 * * *")
    page.get_by_label("Time zone").fill("America/New_York")
    page.get_by_role("region", name="Next fires").get_by_text("America/New_York").first.wait_for()
    page.get_by_label("Payload").fill(f'{{"n": {LARGE}}}')
    press(tab, "Create the schedule")
    page.get_by_role("heading", name="first").wait_for()
    fires = page.get_by_role("region", name="Next fires").locator("tbody tr")
    fires.nth(9).wait_for()
    assert fires.count() == 10
    (made,) = make(http, "GET", "/v1/schedules?name=first")["items"]
    assert (made["payload"], made["timezone"]) == ({"n": LARGE}, "America/New_York")
    page.get_by_role("region", name="Next fires").get_by_role("button").first.click()
    page.wait_for_url(re.compile("at="))
    page.get_by_role("region", name="Why").locator("strong").wait_for()
    press(tab, "Change the timing")
    page.get_by_label("Cron expression").fill("30 2 * * MON-FRI")
    page.get_by_role("heading", name=re.compile(r"^\d+ slots of the next \d+ change$")).wait_for()
    press(tab, "Save the timing")
    page.get_by_role("button", name="Change the timing").wait_for()
    changed = make(http, "GET", f"/v1/schedules/{made['id']}")
    assert changed["cron_expr"] == "30 2 * * MON-FRI"
    press(tab, "Pause")
    page.get_by_role("button", name="Resume").wait_for()
    tab.check()


def test_an_operator_widens_the_windows_from_the_forecast_and_narrows_them(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    tab.open("/console/forecast")
    press(tab, "Widen all windows")
    dialog = page.get_by_role("dialog")
    assert "all tenants" in dialog.inner_text()
    assert make(http, "GET", "/v1/cluster")["widened_seconds"] == 0
    dialog.get_by_label("Seconds").fill("90")
    dialog.get_by_role("button", name="Widen the windows of all tenants").click()
    page.get_by_text("up to 90 seconds late").wait_for()
    assert make(http, "GET", "/v1/cluster")["widened_seconds"] == 90
    tab.open("/console/nodes")
    press(tab, "Narrow the windows")
    page.get_by_text("Fire windows are widened").wait_for(state="detached")
    assert make(http, "GET", "/v1/cluster")["widened_seconds"] == 0
    page.get_by_role("button", name="Widen the fire windows").wait_for()
    tab.check()


def test_an_operator_sees_what_will_be_late_and_what_decides_it(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    make(http, "PUT", "/v1/queues/tomorrow", {})
    make(http, "POST", "/v1/queues/tomorrow/pause")
    target = {"type": "queue", "queue": "tomorrow"}
    made = make(http, "POST", "/v1/schedules", {"interval_seconds": 60, "target": target})
    tab.open("/console/capacity?hours=6")
    page.get_by_text("The workers will fall behind.").wait_for()
    (late,) = make(http, "GET", "/v1/capacity?hours=6")["shortfalls"]
    assert (late["name"], late["limited_by"]) == ("tomorrow", "paused")
    row = page.get_by_role("region", name="What falls behind").get_by_role("row").nth(1)
    expect(row).to_contain_text("queue tomorrow")
    expect(row).to_contain_text("for ever")
    lanes = page.get_by_role("region", name="Lanes")
    expect(lanes.get_by_role("row").nth(1)).to_contain_text("late")
    lanes.get_by_role("link", name="tomorrow").click()
    press(tab, "Resume")
    page.get_by_text("Resumed.").wait_for()
    tab.open("/console/capacity?hours=6")
    page.get_by_text("For some it is not known whether the workers keep up.").wait_for()
    make(http, "DELETE", f"/v1/schedules/{made['id']}")
    tab.check()


ALLOWED = {"Days", "Month", "Ask", "← slot before", "slot after →", "First page", "Next page"}
"""Buttons that only change what is shown."""


def test_a_reader_has_no_button_that_changes_anything(tabs: Tabs, normal: Normal) -> None:
    tab = tabs.sign_in(normal.server, normal.server.key_of("read"))
    for path in [*normal.pages.values(), "/", "/console/schedules?new=yes", "/console/queues",
                 "/console/endpoints", "/console/forecast", "/console/settings"]:  # fmt: skip
        if "edit=" in path:
            continue
        page = tab.open(path)
        shown = page.locator("main button:not(.plain)").all_inner_texts()
        assert {*map(str.strip, shown)} <= ALLOWED | {"List", "Open", "← before", "after →"}, path
    refused = tab.page.evaluate(
        """async () => {
            const who = await (await fetch('/v1/session')).json()
            const headers = {'X-CSRF-Token': who.csrf_token}
            const answer = await fetch('/v1/queues/orders/purge', {method: 'POST', headers})
            return answer.status
        }"""
    )
    assert refused == 403
    assert tab.page.get_by_role("link", name="Nodes").count() == 0


def test_an_operator_sees_how_messages_fared_and_what_was_used(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    make(http, "PUT", "/v1/queues/fared", {})
    for _ in range(3):
        make(http, "POST", "/v1/queues/fared/messages", {"body": 1, "type": "letter"})
    pulled = make(http, "POST", "/v1/queues/fared/messages/pull", {})["messages"]
    acks = [{"lease_id": message["lease_id"]} for message in pulled]
    make(http, "POST", "/v1/queues/fared/messages/ack", {"acks": acks})
    tab.open("/console/queues/fared")
    page.get_by_role("region", name="Each type").get_by_role("row").filter(
        has_text="letter"
    ).get_by_role("cell", name="3", exact=True).wait_for()
    page.get_by_role("region", name="Each hour").get_by_role("row").nth(1).wait_for()
    page.get_by_role("combobox", name="By").select_option("day")
    page.get_by_role("region", name="Each day").get_by_role("row").nth(1).wait_for()
    page.get_by_label("Until").fill("2020-01-01T00:00:00Z")
    page.get_by_label("Until").press("Enter")
    page.get_by_text("No message ended in this time.").wait_for()
    tab.open("/console/usage")
    page.get_by_role("region", name="In all").get_by_text("default").wait_for()
    page.get_by_role("combobox", name="Tenants").select_option("all tenants")
    page.get_by_role("region", name="Each day").get_by_text("default").first.wait_for()
    tab.check()


def test_two_tenants_never_meet(tabs: Tabs, operator: Tab) -> None:
    server = operator.server
    make(server.http, "POST", "/v1/tenants", {"id": "berta"})
    server.http.headers["Tickwork-Tenant"] = "berta"
    make(server.http, "PUT", "/v1/queues/canary-berta", {})
    del server.http.headers["Tickwork-Tenant"]
    own = tabs.sign_in(server, server.key_of("read", tenant="berta"))
    other = tabs.sign_in(server, server.key_of("read"))
    assert "canary-berta" in own.open("/console/queues").content()
    for path in ("/console/queues", "/", "/console/audit", "/console/settings"):
        assert "canary-berta" not in other.open(path).content()
        assert "orders" not in own.open(path).locator("main").inner_text()
    refused = other.open("/console/queues?tenant=berta")
    assert (
        "nly a key with the scope admin may name another tenant"
        in refused.locator("body").inner_text()
    )
    operator.page.goto(f"{server.url}/console/queues")  # Which reads the tenants again.
    operator.page.get_by_label("tenant").select_option("berta")
    operator.page.get_by_role("link", name="canary-berta").wait_for()
    assert "tenant=berta" in operator.page.url
    operator.page.get_by_role("link", name="Audit").click()
    operator.page.wait_for_url(re.compile("/audit.*tenant=berta"))


def test_a_session_ends_on_the_page_that_it_was_on(
    tabs: Tabs, normal: Normal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticate, "CACHE_SECONDS", 0.0)
    server = normal.server
    token = server.key_of("read")
    tab = tabs.sign_in(server, token)
    tab.open("/console/audit")
    parsed = parse_token(token)
    assert parsed is not None
    make(server.http, "DELETE", f"/v1/tenants/default/keys/{parsed.key_id}")
    tab.page.get_by_role("heading", name="Sign in").wait_for()
    tab.page.get_by_text("revoked").first.wait_for()
    tab.page.get_by_label("API key").fill(server.key)
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.get_by_role("heading", name="Audit").wait_for()
    press(tab, "Sign out")
    tab.page.get_by_text("You are signed out.").wait_for()
    tab.page.reload()
    tab.page.get_by_role("heading", name="Sign in").wait_for()


def test_two_tabs_share_one_stream_and_show_what_happens(tabs: Tabs, normal: Normal) -> None:
    server = normal.server
    first = tabs.sign_in(server)
    asked: list[str] = []
    context = tabs.contexts[-1]
    context.on("request", lambda sent: asked.append(sent.url))
    first.page.reload()
    second = tabs.tab(context, server)
    for tab in (first, second):
        tab.open("/console/queues")
    first.page.get_by_role("button", name="Live").wait_for()
    streams = [url for url in asked if url.endswith("/v1/stream")]
    assert len(streams) == 1
    make(server.http, "PUT", "/v1/queues/brand-new", {})
    for tab in (first, second):
        tab.page.get_by_role("link", name="brand-new").wait_for()
    press(first, "Live")
    first.page.get_by_role("button", name="Paused").wait_for()
    before = len(asked)
    make(server.http, "PUT", "/v1/queues/unseen", {})
    second.page.get_by_role("link", name="unseen").wait_for()
    assert len(asked) > before
    assert first.page.get_by_role("link", name="unseen").count() == 0


def test_the_keyboard_reaches_everything(operator: Tab) -> None:
    tab = operator
    page = tab.open("/console/queues?name=orders")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "orders"
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("heading", name="Schedules").wait_for()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Tab")
    page.locator("h1").focus()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("next and previous row").wait_for()
    page.keyboard.press("Escape")
    tab.check()


def test_one_box_finds_things_of_all_kinds_from_any_page(tabs: Tabs, normal: Normal) -> None:
    tab = tabs.sign_in(normal.server)
    page = tab.open("/console/audit")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.get_by_role("option", name="orders queue").wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    assert page.url.endswith("/console/queues/orders")
    for name in ("run", "delivery", "dead letter", "batch", "endpoint", "schedule", "message"):
        path = normal.pages[name]
        page.keyboard.press("/")
        page.keyboard.type(path.rpartition("/")[2])
        page.locator(".found [role=option]").first.wait_for()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{path}")
        tab.settle()
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    page.get_by_text("Nothing has this id").wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_text("Nothing has this id")).to_have_count(0)
    tab.check()


def test_what_became_of_a_message_is_found_and_shown(operator: Tab) -> None:
    tab, http = operator, operator.server.http
    make(http, "PUT", "/v1/queues/letters", {"max_retries": 0})
    for key in ("first", "second"):
        make(http, "POST", "/v1/queues/letters/messages", {"body": {}, "key": key})
    kill(http, "letters", 1)
    page = tab.open("/console/messages?queue=letters")
    rows = page.get_by_role("region", name="Ended messages").locator("tbody tr")
    expect(rows).to_have_count(1)
    page.get_by_label("Outcome").select_option("done")
    page.get_by_text("No ended message fits these filters.").wait_for()
    page.get_by_label("Outcome").select_option("dead")
    rows.get_by_role("link").first.click()
    page.get_by_text("The message died in queue letters").wait_for()
    facts = page.locator("dl")
    expect(facts).to_contain_text("first")
    expect(facts.locator(".state")).to_have_text(re.compile("dead"))
    # The message itself is gone, which the browser notes.
    assert all("404 (Not Found)" in fault for fault in tab.wrong)


def test_times_are_shown_as_somebody_wants_them_and_stay_so(tabs: Tabs, normal: Normal) -> None:
    tab = tabs.sign_in(normal.server)
    page = tab.open("/console/audit")
    shown = page.locator("tbody time").first
    at = str(shown.get_attribute("datetime"))
    assert re.fullmatch(r"now|\d+ (ms|s|min|h) ago", shown.inner_text())
    local = zoned(at, "Europe/Berlin")
    assert (shown.get_attribute("title") or "").startswith(
        f"{local} Europe/Berlin = {zoned(at, 'UTC')} UTC"
    )
    page.get_by_label("Times").select_option("local")
    expect(shown).to_have_text(local)
    page.get_by_label("Times").select_option("UTC")
    press(tab, "Compact")
    page.reload()
    expect(shown).to_have_text(f"{zoned(at, 'UTC')} UTC")
    expect(page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
    tab.check()


def zoned(at: str, zone: str) -> str:
    """A time in a zone, as the console writes it."""
    moment = datetime.fromisoformat(at).astimezone(ZoneInfo(zone))
    return f"{moment:%Y-%m-%d %H:%M:%S}"
