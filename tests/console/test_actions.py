"""An action of the console does what it says, in a real browser: to these dead letters, from this
step, with this filter."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.console.conftest import Tab, Tabs
from tests.console.served import kill, make, served
from tickwork import Permanent, Tickwork
from tickwork.errors import RunFailed


def press(tab: Tab, name: str) -> None:
    tab.page.get_by_role("button", name=name, exact=True).first.click()


def bury(http: Any, queue: str, *types: str | None) -> None:
    """Makes a dead letter of each of these types, oldest first."""
    make(http, "PUT", f"/v1/queues/{queue}", {"max_retries": 0})
    for kind in types:
        make(http, "POST", f"/v1/queues/{queue}/messages", {"body": 1, "type": kind})
        kill(http, queue, 1)


def types_of(http: Any, queue: str) -> list[str | None]:
    return [letter["type"] for letter in make(http, "GET", f"/v1/queues/{queue}/dead")["items"]]


def group(page: Page, kind: str) -> Any:
    rows = page.get_by_role("region", name="Groups").get_by_role("row")
    return rows.filter(has=page.locator("td[data-name=type]", has_text=re.compile(f"^{kind}$")))


def test_a_group_without_a_type_acts_on_its_own_letters_alone(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    bury(http, "untyped", "a", "a", None, "b", None)
    tab.open("/console/dead/untyped")
    group(page, "–").get_by_role("button", name="max_retries").click()
    page.wait_for_url(re.compile("no_type=yes"))
    tab.settle()
    rows = page.get_by_role("region", name="Dead letters", exact=True).locator("tbody tr")
    rows.nth(2).wait_for(state="detached")
    assert rows.count() == 2
    group(page, "–").get_by_role("button", name="Discard 2").click()
    dialog = page.get_by_role("dialog")
    assert "without a type" in dialog.inner_text()
    dialog.get_by_role("button", name="Discard 2 dead letters").click()
    page.get_by_text("2 dead letters discarded.").wait_for()
    assert types_of(http, "untyped") == ["a", "a", "b"]
    group(page, "b").get_by_role("button", name="Replay 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Replay 1 dead letter").click()
    page.get_by_text("1 message replayed.").wait_for()
    assert types_of(http, "untyped") == ["a", "a"]
    make(http, "POST", "/v1/queues/untyped/dead/discard", {})  # Others look at this system, too.
    tab.check()


def test_a_replay_of_what_fits_the_filters_names_the_number_and_takes_these_alone(
    operator: Tab,
) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    bury(http, "filtered", "a", "b", "a", "a")
    third = make(http, "GET", "/v1/queues/filtered/dead")["items"][2]
    tab.open(f"/console/dead/filtered?type=a&failed_before={third['failed_at']}")
    press(tab, "Replay what fits these filters")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Replay 2 dead letters of filtered?").wait_for()
    assert third["failed_at"] in dialog.inner_text()
    dialog.get_by_role("button", name="Replay 2 dead letters").click()
    page.get_by_text("2 messages replayed.").wait_for()
    assert types_of(http, "filtered") == ["b", "a"]
    tab.open("/console/dead/filtered")
    press(tab, "Replay what fits these filters")
    dialog.get_by_text("Replay 2 dead letters of filtered?").wait_for()
    make(http, "POST", "/v1/queues/filtered/purge")
    bury(http, "filtered", "later")
    dialog.get_by_label("At most, oldest first").evaluate("field => { field.max = '' }")
    dialog.get_by_label("At most, oldest first").fill("100")
    dialog.get_by_role("button", name="Replay 2 dead letters").click()
    dialog.wait_for(state="hidden")
    assert types_of(http, "filtered") == ["later"]
    tab.open("/console/dead/filtered?type=other")
    press(tab, "Replay what fits these filters")
    page.get_by_text("No dead letter fits any more.").wait_for()
    make(http, "POST", "/v1/queues/filtered/dead/discard", {})
    tab.check()


def test_what_is_typed_into_a_filter_stays_while_the_page_is_read_again(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    tab.open("/console/queues/orders")
    field = page.get_by_label("Correlation id")
    field.focus()
    page.keyboard.type("st")
    make(http, "POST", "/v1/queues/orders/messages", {"body": 1, "key": "while typing"})
    page.get_by_role("region", name="Messages").get_by_text("while typing").first.wait_for()
    page.keyboard.type("ory")
    assert field.input_value() == "story"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("correlation_id=story"))
    page.get_by_text("while typing").first.wait_for(state="detached")
    page.go_back()
    page.get_by_text("while typing").first.wait_for()
    assert field.input_value() == ""
    tab.open("/console/forecast")
    window = page.get_by_label("Try a fire window, in seconds")
    window.fill("60")
    with page.expect_response(re.compile("/v1/forecast")):
        make(http, "POST", "/v1/queues/orders/messages", {"body": 1})
        page.keyboard.press("Enter")
    page.wait_for_url(re.compile("window=60"))
    tab.check()


def fail_a_run(database: str) -> None:
    """A run that failed after two steps, of which one was undone."""
    app = Tickwork(database, name="trips")

    async def act() -> str:
        return "done"

    async def fail() -> None:
        raise Permanent("no seats")

    @app.workflow()
    async def trip(step: Any, _: Any) -> None:
        await step.do("hotel", act, compensate=lambda *_: act())
        await step.do("car", act)
        await step.do("flight", fail)

    async def run() -> None:
        async with app.running():
            handle = await app.workflows.start("trip", id="failed-trip")
            with pytest.raises(RunFailed):
                await handle.result()
        await app.close()

    with ThreadPoolExecutor(1) as apart:  # The browser's event loop runs in this thread.
        apart.submit(asyncio.run, run()).result()


def test_a_compensation_is_no_place_to_restart_from(tabs: Tabs, tmp_path: Path) -> None:
    with served(f"sqlite:///{tmp_path}/console.db") as server:
        fail_a_run(server.database)
        tab = tabs.sign_in(server)
        page = tab.open("/console/workflows/trip/failed-trip")
        rows = page.get_by_role("region", name="Steps").first.locator("tbody tr")
        can_restart = {
            row.locator("bdi").first.inner_text(): row.get_by_role(
                "button", name="Restart from here"
            ).count()
            for row in rows.all()
        }
        assert can_restart == {"hotel": 1, "car": 1, "flight": 1, "compensate hotel": 0}
        rows.nth(2).get_by_role("button", name="Restart from here").click()
        said = page.get_by_role("dialog").inner_text()
        assert "Run again: hotel, flight. Effects happen again: none." in said
        assert "Results are kept: car." in said
        tab.check()


def test_a_new_queue_changes_none_that_exists(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    before = make(http, "PUT", "/v1/queues/careful", {"max_retries": 7})
    tab.open("/console/queues")
    press(tab, "New queue")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("careful")
    dialog.get_by_role("button", name="Create the queue").click()
    dialog.get_by_role("alert").get_by_text("queue careful exists already").wait_for()
    assert make(http, "GET", "/v1/queues/careful?counts=false") == before
    dialog.get_by_label("Name").fill("careless")
    dialog.get_by_role("button", name="Create the queue").click()
    dialog.wait_for(state="hidden")
    assert make(http, "GET", "/v1/queues/careless?counts=false")["max_retries"] == 3
    tab.wrong.remove(next(text for text in tab.wrong if "412" in text))
    tab.check()


def test_every_quota_of_the_api_can_be_set(operator: Tab) -> None:
    tab, page, http = operator, operator.page, operator.server.http
    tenant = make(http, "POST", "/v1/tenants", {"id": "quotas"})
    about = {"id", "suspended", "created_at", "weight", "owner_targets"}
    tab.open("/console/settings/quotas")
    press(tab, "Change quotas")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("emails per day").fill("500")
    fields = {field.get_attribute("name") for field in dialog.locator("input").all()}
    assert fields == tenant.keys() - about
    dialog.get_by_role("button", name="Save the quotas").click()
    page.get_by_text("Saved.").wait_for()
    assert make(http, "GET", "/v1/tenants/quotas")["emails_per_day"] == 500
    tab.open("/console/settings")
    page.get_by_text("emails per day: 500").wait_for()
    tab.check()
