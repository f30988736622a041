"""Is all well? In a real browser: the overview says so only if everything was read, and what
concerns every page is on every page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import DESKTOP, Tab, Tabs
from tests.console.served import Served, kill, make, served
from tests.console.test_pages import check_fits_a_phone, serious_findings
from tickwork.core.model import SYSTEM
from tickwork.store.ids import new_id
from tickwork.wiring import Settings, open_store

LEASE_SECONDS = 300


def make_alive(database: str) -> None:
    """Gives the database a process with every role, which leads all shards."""

    async def join() -> None:
        store = await open_store(Settings(database=database))
        try:
            node = new_id()
            roles = ["scheduler", "worker"]
            await store.nodes.join(
                SYSTEM, node, name="node", roles=roles, ttl_seconds=LEASE_SECONDS
            )
            await store.shards.hold(SYSTEM, node)
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as apart:  # The browser's event loop runs in this thread.
        apart.submit(asyncio.run, join()).result()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path}/console.db") as started:
        make_alive(started.database)
        yield started


def problems(page: Page) -> list[str]:
    return page.get_by_role("region", name="Problems").locator("li strong").all_inner_texts()


def test_all_is_well_only_if_everything_was_read_and_nothing_is_wrong(
    tabs: Tabs, server: Served
) -> None:
    http = server.http
    tab = tabs.sign_in(server, viewport=DESKTOP)
    page = tab.page
    page.get_by_text("All is well.").wait_for()
    made = make(
        http,
        "POST",
        "/v1/endpoints",
        {"name": "shop", "url": "https://example.com/hooks", "types": []},
    )
    make(http, "POST", f"/v1/endpoints/{made['id']}/disable", {})
    link = page.get_by_role("link", name=re.compile("^Endpoint shop is disabled"))
    link.wait_for()
    assert page.get_by_text("All is well.").count() == 0
    make(http, "PUT", "/v1/queues/slow", {"max_retries": 0})
    make(http, "POST", "/v1/queues/slow/messages", {"body": 1})
    kill(http, "slow", 1)
    make(http, "POST", "/v1/queues/slow/pause")
    page.get_by_role("link", name="Queue slow is paused.").wait_for()
    assert [text.split(" is ")[0].split(" has ")[0] for text in problems(page)] == [
        "Endpoint shop", "Queue slow", "Queue slow",
    ]  # fmt: skip
    assert serious_findings(page) == []
    check_fits_a_phone(page, "problems")
    page.get_by_role("link", name="Queue slow has 1 dead letter.").click()
    page.get_by_role("heading", name="Dead letters of slow").wait_for()
    page.go_back()
    link.click()
    page.get_by_role("heading", name="shop").wait_for()
    tab.check()


def test_without_an_answer_it_is_not_known_whether_all_is_well(tabs: Tabs, server: Served) -> None:
    tab = tabs.sign_in(server)
    page = tab.page
    page.get_by_text("All is well.").wait_for()
    page.route(re.compile(r"/v1/health$"), lambda route: route.fulfill(status=503, body="{}"))
    page.get_by_text("It is not known whether all is well.").wait_for()
    assert page.get_by_text("✓ All is well.").count() == 0
    page.unroute_all()
    page.get_by_text("✓ All is well.").wait_for()


def test_what_stands_still_is_said_on_every_page(tabs: Tabs, server: Served) -> None:
    http = server.http
    make(http, "POST", "/v1/tenants", {"id": "berta"})
    tab = tabs.sign_in(server, viewport=DESKTOP)
    page = tab.open("/console/queues")
    banners = page.locator(".banners .box")
    assert banners.count() == 0
    make(http, "POST", "/v1/cluster/pause")
    make(http, "POST", "/v1/cluster/widen", {"seconds": 90})
    for path in ("/console/queues", "/console/schedules?new=yes", "/console/nodes", "/"):
        tab.open(path)
        expect(banners).to_have_text(
            [re.compile("Everything is paused.*Since"), re.compile("up to 90 seconds late")]
        )
    assert serious_findings(page) == []
    check_fits_a_phone(page, "banners")
    banners.get_by_role("button", name="Resume everything").click()
    banners.get_by_role("button", name="Narrow the windows").click()
    expect(banners).to_have_count(0)
    cluster = make(http, "GET", "/v1/cluster")
    assert (cluster["paused_at"], cluster["widened_seconds"]) == (None, 0)
    make(http, "POST", "/v1/tenants/berta/suspend")
    tab.open("/console/queues?tenant=berta")
    expect(banners).to_have_text(re.compile("Tenant berta is suspended"))
    reader = tabs.sign_in(server, server.key_of("read"))
    make(http, "POST", "/v1/cluster/pause")
    expect(reader.page.locator(".banners .box")).to_have_text(re.compile("Everything is paused"))
    assert reader.page.locator(".banners button").count() == 0
    tab.check()


def is_silent(tab: Tab) -> None:
    alert = tab.page.locator(".banners").get_by_role("alert")
    expect(alert).to_have_text(re.compile(r"^No answer from the server since \d\d:\d\d:\d\d\."))


def test_a_server_that_is_gone_is_said_on_every_page_until_it_answers(
    tabs: Tabs, server: Served
) -> None:
    tab = tabs.sign_in(server)
    tab.open("/console/audit")
    context = tabs.contexts[-1]
    context.set_offline(True)
    is_silent(tab)
    tab.page.evaluate("document.activeElement?.blur()")
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("o")
    is_silent(tab)
    context.set_offline(False)
    expect(tab.page.locator(".banners .box")).to_have_count(0)
    tab.page.get_by_text("✓ All is well.").wait_for()
