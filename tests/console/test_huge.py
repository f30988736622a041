"""The console with a huge system: every page is as quick as with a small one. In `make soak`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.console.conftest import DESKTOP, Tabs
from tests.console.huge import enlarge
from tests.console.measure import fastest
from tests.console.served import Served, fill, served
from tests.console.test_pages import LISTS, ROWS_MAX
from tests.kit.databases import PostgresHost
from tickwork.store.postgres.engine.migrate import migrate

pytestmark = pytest.mark.soak

REQUEST_MS_MAX = 200.0
RENDER_MS_MAX = 100.0


@contextmanager
def new_postgres(server: PostgresHost) -> Iterator[str]:
    with ThreadPoolExecutor(1) as apart:  # The browser's event loop runs in this thread.
        url = apart.submit(asyncio.run, server.create_database()).result()
        apart.submit(asyncio.run, migrate(url)).result()
        yield url
        apart.submit(asyncio.run, server.drop_database(url)).result()


@pytest.fixture(params=["sqlite", "postgres"])
def huge(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresHost
) -> Iterator[tuple[Served, dict[str, str]]]:
    file = nullcontext(f"sqlite:///{tmp_path}/console.db")
    place = new_postgres(postgres_server) if request.param == "postgres" else file
    with place as url, served(url) as server:
        yield server, {**LISTS, **fill(server.http), **enlarge(server.http, url)}


def test_every_page_of_a_huge_system_is_quick(
    huge: tuple[Served, dict[str, str]], tabs: Tabs
) -> None:
    server, pages = huge
    tab = tabs.sign_in(server, viewport=DESKTOP)
    tab.page.keyboard.press("p")  # Nothing is read again by itself.
    slow: list[str] = []
    for name, path in pages.items():
        seen = fastest(tab.page, path, elsewhere="/console/messages")
        assert tab.page.locator("main [role=alert]").count() == 0, name
        assert seen.rows <= ROWS_MAX, name
        if seen.slowest_ms > REQUEST_MS_MAX or seen.render_ms > RENDER_MS_MAX:
            slow.append(f"{name}: {seen}")
    assert not slow, "\n".join(slow)
    tab.check()
