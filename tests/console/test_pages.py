"""Every page, in a real browser: with an empty system and with a normal one, in light and dark, for
assistive technology, on a phone, and with hostile text."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, ViewportSize

from tests.console.conftest import DESKTOP, Normal, Tab, Tabs
from tests.console.served import HOSTILE, LARGE, Served, make
from tests.kit.soak import SOAK

AXE = Path(__file__).resolve().parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
ROWS_MAX = 200
SHORT_PAGES_MAX = 10
LISTS = {
    "overview": "/",
    "schedules": "/console/schedules",
    "new schedule": "/console/schedules?new=yes",
    "queues": "/console/queues",
    "messages": "/console/messages",
    "dead letters": "/console/dead",
    "batches": "/console/batches",
    "types": "/console/types",
    "endpoints": "/console/endpoints",
    "deliveries": "/console/deliveries",
    "workflows": "/console/workflows",
    "entities": "/console/entities",
    "forecast": "/console/forecast",
    "capacity": "/console/capacity",
    "usage": "/console/usage",
    "nodes": "/console/nodes",
    "audit": "/console/audit",
    "settings": "/console/settings",
    "tenant": "/console/settings/default",
}

CHECKED = {
    "overview", "new schedule", "schedule", "month", "queue", "dead letters of a queue",
    "dead letter", "run", "settings", "forecast",
}  # fmt: skip
"""Pages whose accessibility is checked in each run: between them they have every component. `make
soak` checks all."""


EMPTY = {
    "schedules", "queues", "dead letters", "batches", "types", "endpoints", "deliveries",
    "entities",
}  # fmt: skip
"""Lists that have nothing in an empty system, and say so."""

PHONE: ViewportSize = {"width": 380, "height": 700}


def serious_findings(page: Page, **options: object) -> list[str]:
    """What axe says about a page, as `rule: element`."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text())
    asked = {"resultTypes": ["violations"], **options}
    found = page.evaluate("(asked) => axe.run(document, asked)", asked)
    return [
        f"{violation['id']}: {node['html'][:160]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def check_sound(tab: Tab, name: str) -> None:
    """The page shows no error, no more rows than a browser likes, and nothing went wrong."""
    page = tab.page
    assert page.locator("main [role=alert]").count() == 0, (name, page.locator("main").inner_text())
    assert page.locator("tbody tr").count() <= ROWS_MAX, name
    tab.check()


def check_accessible(page: Page, name: str) -> None:
    """No serious finding in light, and enough contrast in dark."""
    assert serious_findings(page) == [], name
    page.emulate_media(color_scheme="dark")
    contrast = {"type": "rule", "values": ["color-contrast"]}
    assert serious_findings(page, runOnly=contrast) == [], (name, "dark")
    page.emulate_media(color_scheme="light")


def check_fits_a_phone(page: Page, name: str) -> None:
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], name
    page.set_viewport_size(DESKTOP)


def test_every_page_of_an_empty_system_says_what_is_missing(tabs: Tabs, empty: Served) -> None:
    tab = tabs.sign_in(empty, viewport=DESKTOP)
    for name, path in LISTS.items():
        page = tab.open(path)
        check_sound(tab, name)
        check_fits_a_phone(page, name)
        if name in EMPTY:
            (said,) = page.locator("main .empty").all_inner_texts()
            assert said.startswith(("There is no", "No ")), (name, said)
        if SOAK in os.environ:
            check_accessible(page, name)


@pytest.mark.randomised  # In `make soak` the accessibility of all pages is checked.
def test_every_page_is_sound_and_accessible_in_light_and_dark_and_on_a_phone(
    operator: Tab, normal: Normal
) -> None:
    for name, path in {**LISTS, **normal.pages}.items():
        page = operator.open(path)
        check_sound(operator, name)
        check_fits_a_phone(page, name)
        if name in CHECKED or SOAK in os.environ:
            check_accessible(page, name)


def test_hostile_text_is_shown_as_text_and_numbers_are_exact(operator: Tab, normal: Normal) -> None:
    for name in ("message", "dead letter", "schedule", "run"):
        page = operator.open(normal.pages[name])
        shown = page.locator("main pre").all_inner_texts()
        assert any(f'"number": {LARGE},' in text for text in shown), name
        assert any(f"{LARGE + 1},\n" in text and f"-{LARGE}" in text for text in shown), name
        assert any("<script>" in text for text in shown), name
        assert page.locator("main img, main script").count() == 0
        assert page.title() not in ("1", "2")
    page = operator.open("/console/schedules")
    assert HOSTILE[:20] in page.locator("tbody").inner_text()
    assert page.locator("tbody bdi").count() > 0
    operator.check()


def test_a_list_whose_filter_fits_few_rows_reads_on_and_then_offers_to_search_on(
    tabs: Tabs, empty: Served
) -> None:
    make(empty.http, "PUT", "/v1/queues/long", {})
    sent = make(empty.http, "POST", "/v1/queues/long/messages", {"body": 1, "type": "rare"})
    tab = tabs.sign_in(empty)
    answers: list[dict[str, Any]] = [
        {"items": [], "next_cursor": str(number)} for number in range(30)
    ]
    real = make(empty.http, "GET", "/v1/queues/long/messages")["items"]
    answers[15] = {"items": real, "next_cursor": None}
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        cursor = parse_qs(urlsplit(route.request.url).query).get("cursor", ["-1"])[0]
        route.fulfill(json=answers[int(cursor) + 1])

    tab.page.keyboard.press("p")  # Nothing is read again by itself.
    tab.page.route(re.compile(r"/v1/queues/long/messages\?"), answer)
    page = tab.open("/console/queues/long?type=rare")
    page.get_by_text("Nothing fits so far").wait_for()
    assert len(asked) == SHORT_PAGES_MAX
    page.get_by_role("button", name="Search on").click()
    page.get_by_role("link", name=sent["id"][-8:]).wait_for()
    assert len(asked) == 16
