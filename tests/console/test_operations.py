"""The page of operations does what its buttons say, and a closed browser stops nothing."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from tests.console.conftest import Normal, Tabs
from tests.console.served import Served, kill, make
from tickwork.core.model import SYSTEM
from tickwork.ops.context import Context
from tickwork.ops.operations.verbs import carry_on
from tickwork.wiring import Settings, open_store

OPERATIONS = "/v1/operations"


def bury(http: Any, queue: str, number: int) -> None:
    make(http, "PUT", f"/v1/queues/{queue}", {"max_retries": 0})
    for _ in range(number):
        make(http, "POST", f"/v1/queues/{queue}/messages", {"body": 1, "type": "a"})
    kill(http, queue, number)


def open_letters(server: Served, queue: str) -> int:
    """Open dead letters in the file itself."""
    with closing(sqlite3.connect(server.database.removeprefix("sqlite:///"), timeout=10)) as file:
        (number,) = file.execute(
            "SELECT count(*) FROM tickwork_dead_letters AS d "
            "JOIN tickwork_queues AS q ON q.id = d.queue_id "
            "WHERE q.name = ? AND d.resolution IS NULL",
            (queue,),
        ).fetchone()
    return int(number)


def carry_out(server: Served, operation: str) -> None:
    """Carries an operation on as a node does, until it is finished."""

    async def carry() -> None:
        store = await open_store(Settings(database=server.database))
        try:
            for _ in range(100):
                await asyncio.sleep(await carry_on(Context(store, SYSTEM)))
                if make(server.http, "GET", f"{OPERATIONS}/{operation}")["finished_at"]:
                    return
            raise AssertionError("it is not finished")
        finally:
            await store.close()

    with ThreadPoolExecutor(1) as apart:  # The browser's event loop runs in this thread.
        apart.submit(asyncio.run, carry()).result()


def test_a_replay_in_the_background_goes_on_when_the_browser_is_closed(
    tabs: Tabs, normal: Normal
) -> None:
    server = normal.server
    bury(server.http, "many", 3)
    tab = tabs.sign_in(server)
    page = tab.page
    tab.open("/console/dead/many")
    page.get_by_role("button", name="Replay what fits these filters", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("In the background").check()
    dialog.get_by_role("button", name="Replay 3 dead letters").click()
    page.wait_for_url(re.compile("/console/operations/oper_"))
    page.get_by_text("0 of 3").first.wait_for()
    operation = page.url.split("/")[-1].split("?")[0]
    tab.check()
    bury(server.http, "many", 1)  # It dies later, and is left alone.
    tab.page.context.close()
    assert open_letters(server, "many") == 4
    carry_out(server, operation)
    assert open_letters(server, "many") == 1
    again = tabs.sign_in(server)
    again.open("/console/operations")
    again.page.get_by_role("link", name="Operations", exact=True).wait_for()
    rows = again.page.get_by_role("region", name="Operations").get_by_role("row")
    row = rows.filter(has=again.page.locator(f'a[href*="{operation}"]'))
    assert "3 of 3" in row.inner_text()
    row.locator(f'a[href*="{operation}"]').click()
    again.page.get_by_text("It is done.").wait_for()
    again.check()
    make(server.http, "POST", "/v1/queues/many/dead/discard", {})


def test_a_discard_in_the_background_is_stopped_by_its_button(tabs: Tabs, normal: Normal) -> None:
    server = normal.server
    bury(server.http, "stopped", 2)
    tab = tabs.sign_in(server)
    page = tab.page
    tab.open("/console/dead/stopped")
    groups = page.get_by_role("region", name="Groups")
    groups.get_by_role("button", name="Discard 2").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("In the background").check()
    dialog.get_by_role("button", name="Discard 2 dead letters").click()
    page.wait_for_url(re.compile("/console/operations/oper_"))
    operation = page.url.split("/")[-1].split("?")[0]
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    page.get_by_text("Stopped after 0 of 2.").wait_for()
    page.get_by_text("Somebody stopped it.").wait_for()
    stopped = make(server.http, "GET", f"{OPERATIONS}/{operation}")
    assert (stopped["state"], stopped["stopped_by"]) == ("stopped", stopped["started_by"])
    carry_out(server, operation)
    assert open_letters(server, "stopped") == 2
    tab.check()
    make(server.http, "POST", "/v1/queues/stopped/dead/discard", {})
