"""`tickwork top` shows what happens now, on both stores."""

from __future__ import annotations

import sys

import pytest
from textual.widgets import DataTable, Static

from tests.cli.kit import Desk, kill
from tests.stores.home import Home
from tickwork import Tickwork, extras
from tickwork.cli.local import as_client
from tickwork.cli.top import Snapshot, look
from tickwork.cli.top_screen import TopScreen
from tickwork.errors import ServiceUnavailable
from tickwork.facade.app import engine_of


async def test_the_screen_shows_queues_failures_and_nodes_and_survives_an_error(
    home: Home,
) -> None:
    app, store = Tickwork("sqlite:///unused.db"), await home.open()
    with engine_of(app).stores.using(store):
        client = as_client(app)
        await client.queues.put("emails")
        await client.queue("emails").send(1)
        await kill(store, "emails", reason="permanent", error="no mailbox\x1b[2J")
        await client.queue("emails").send_batch([1, 2])
        is_broken = False

        async def seen() -> Snapshot:
            if is_broken:
                raise ServiceUnavailable("http://t", "cannot be reached")
            return await look(client)

        async with TopScreen(seen, every_seconds=600).run_test() as pilot:
            await pilot.pause()
            screen = pilot.app
            summary = screen.query_one("#summary", Static)
            queues, failures = (
                screen.query_one(f"#{n}", DataTable) for n in ("queues", "failures")
            )
            assert str(summary.content).startswith("2 ready, 1 dead letters")
            assert queues.get_row_at(0)[0] == "emails"
            assert queues.get_row_at(0)[3] == "2"
            assert failures.get_row_at(0)[1:3] == ["1", "permanent"]
            assert "\x1b" not in str(failures.get_row_at(0))
            await client.queue("emails").send(3)
            await pilot.press("r")
            await pilot.pause()
            assert queues.get_row_at(0)[3] == "3"
            is_broken = True
            await pilot.press("r")
            await pilot.pause()
            assert "cannot be reached" in str(summary.content)
            assert queues.row_count == 1
            await pilot.press("q")
    await store.close()


def test_top_with_json_prints_the_state_once(desk: Desk) -> None:
    desk.answer("queues", "create", "emails")
    shown = desk.json("top")
    assert [queue["queue"] for queue in shown["queues"]] == ["emails"]
    assert (shown["nodes"], shown["late_seconds"]) == ([], 0.0)


def test_a_missing_extra_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.answer("queues", "create", "emails")
    monkeypatch.setitem(sys.modules, "tickwork.cli.top_screen", None)
    monkeypatch.setattr(extras, "_TOP_PACKAGES", frozenset({"textual", "tickwork"}))
    refused = desk.run("top")
    assert refused.exit_code == 1
    assert "tickwork top needs the terminal screen: pip install 'tickwork[top]'" in refused.stderr
