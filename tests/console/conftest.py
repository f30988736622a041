"""A client of the API for tests without a browser; for the others one browser per module and two
servers, one with an empty database and one with something of each kind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.console.served import Served, fill, served
from tests.kit.api import Client, api_client
from tickwork.api.routes import console

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = os.environ.get("TESTS_BROWSER") or next(
    (path for name in BROWSERS if (path := shutil.which(name))), None
)
IN_A_BROWSER = [
    "test_actions.py",
    "test_buttons.py",
    "test_huge.py",
    "test_incidents.py",
    "test_operations.py",
    "test_overview.py",
    "test_pages.py",
    "test_stories.py",
]
collect_ignore = [
    *([] if console.is_built() else ["test_build.py", *IN_A_BROWSER]),
    *([] if PROGRAM else IN_A_BROWSER),
]
"""Where there is no build or no browser, `make test` says what to install, and runs the rest."""

TIMEOUT_MS = 30_000
"""Milliseconds that a page may take on a machine with other work."""

expect.set_options(timeout=TIMEOUT_MS)

DESKTOP: ViewportSize = {"width": 1100, "height": 900}


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with api_client(tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser of a module. Its event loop runs in this thread until it is closed, so a module
    that uses it has no asynchronous tests."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=PROGRAM,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield started
        started.close()


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('empty')}/console.db") as server:
        yield server


@dataclass
class Normal:
    """A server with something of each kind, and the pages that show one thing."""

    server: Served
    pages: dict[str, str]


@pytest.fixture(scope="session")
def normal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Normal]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('normal')}/console.db") as server:
        yield Normal(server, fill(server.http))


GO = """async (to) => {
    const moves = new URL(to, location.href).pathname !== location.pathname
    document.querySelector('dialog[open]')?.close()  // Nothing behind it gets the focus.
    document.activeElement?.blur()
    const shown = new Promise((done) =>
        document.getElementById('main').addEventListener('focus', done, { once: true }))
    history.pushState(null, '', to)
    dispatchEvent(new PopStateEvent('popstate'))
    if (moves) await shown
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame)
}"""
"""Goes to a page as a link does: a new page gets the focus when it is shown."""


@dataclass
class Tab:
    """A tab that is signed in, and what went wrong in it."""

    page: Page
    server: Served
    wrong: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Goes to a page without loading the console again, and waits until it shows its data."""
        self.page.evaluate(GO, path)
        self.settle()
        self.page.wait_for_selector("h1")
        return self.page

    def settle(self) -> None:
        """Waits until nothing is loading."""
        self.page.wait_for_selector(".loading", state="detached")

    def check(self) -> None:
        """Nothing failed: no script, no request, no rule of the page's policy."""
        assert self.wrong == []


class Tabs:
    """Opens tabs, each in a browser profile of its own unless it is told otherwise."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.contexts: list[BrowserContext] = []

    def sign_in(self, server: Served, key: str | None = None, **options: Any) -> Tab:
        """A tab with a session; the form for signing in is not used."""
        context = self._browser.new_context(locale="en-US", timezone_id="Europe/Berlin", **options)
        context.set_default_timeout(TIMEOUT_MS)
        self.contexts.append(context)
        made = context.request.post(f"{server.url}/v1/session", data={"key": key or server.key})
        assert made.status == 201, made.text()
        return self.tab(context, server)

    def tab(self, context: BrowserContext, server: Served) -> Tab:
        page = context.new_page()
        tab = Tab(page, server)
        page.on("pageerror", lambda error: tab.wrong.append(str(error)))

        def note(said: ConsoleMessage) -> None:
            if said.type == "error":
                tab.wrong.append(said.text)

        page.on("console", note)
        page.goto(server.url)
        page.wait_for_selector("header.top")
        return tab

    def close(self) -> None:
        for context in self.contexts:
            context.close()


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Tabs]:
    opened = Tabs(browser)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def operator(browser: Browser, normal: Normal) -> Iterator[Tab]:
    """The tab of an operator of the normal system, for the tests of a module in turn."""
    opened = Tabs(browser)
    yield opened.sign_in(normal.server, viewport=DESKTOP)
    opened.close()
