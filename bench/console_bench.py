"""Area `console`: its pages in a real browser, with a huge system; and its list of dead letters
beside the web pages of others with as many failed jobs.

A request's time is what the browser saw, and rendering begins with the last answer. Each page is
visited some times, and the best counts. Others are measured where `make bench-peers` installed
them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from playwright.sync_api import Browser, BrowserContext, ViewportSize, sync_playwright

from bench import peers
from bench.beds import postgres_bed, postgres_server
from bench.console_bed import is_built, prepared
from bench.harness import Result, bench, judge, sized, value_under
from bench.peers import PeerFailed, check, environment, node_program
from tests.console.huge import QUEUE, Sizes, enlarge
from tests.console.measure import Load, fastest, load
from tests.console.served import fill
from tests.console.test_pages import LISTS, ROWS_MAX
from tests.kit.api import bearer
from tests.kit.postgres import PostgresServer

ROUNDS = 3
SIZE: ViewportSize = {"width": 1280, "height": 800}
START_SECONDS_MAX = 60.0
QUICK = Sizes(20_000, 2_000, 1_000, 120, 500, 1_000)
REQUEST_MS_MAX, RENDER_MS_MAX = 200.0, 100.0


class NoBrowser(Exception):
    """There is no Chromium on this machine, or the console is not built."""


def _sizes() -> Sizes:
    return Sizes(*(sized(full, quick=quick) for full, quick in zip(Sizes(), QUICK, strict=True)))


@contextmanager
def _browser() -> Iterator[Browser]:
    program = os.environ.get("TESTS_BROWSER") or shutil.which("chromium")
    if program is None or not is_built():
        raise NoBrowser
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def _databases() -> Iterator[dict[str, str]]:
    with TemporaryDirectory() as folder, postgres_server() as server, postgres_bed(server) as bed:
        yield {"sqlite": f"sqlite:///{folder}/console.db", "postgres": bed.url}


@contextmanager
def _served(database: str) -> Iterator[httpx.Client]:
    """An API process on a database, and a client with a key of all scopes."""
    key, port = prepared(database), _free_port()
    command = [sys.executable, "-m", "tickwork", "up", "--roles", "api", "--port", str(port)]
    secret = {"TICKWORK_SECRET_KEY": b64encode(bytes(32)).decode()}
    with (
        _process([*command, "--database", database], port, **secret) as url,
        httpx.Client(base_url=url, headers=bearer(key), timeout=60) as http,
    ):
        yield http


@contextmanager
def _process(command: list[str], port: int, **environ: str) -> Iterator[str]:
    """A server in a process of its own, once it answers."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env=os.environ | environ) as process:
        url, until = f"http://127.0.0.1:{port}", time.monotonic() + START_SECONDS_MAX
        try:
            while not _answers(url):
                if process.poll() is not None or time.monotonic() > until:
                    raise PeerFailed(f"failed: {Path(command[0]).name} does not answer")
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code < 500
    except httpx.TransportError:
        return False


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def _signed_in(browser: Browser, http: httpx.Client) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=SIZE)
    key = http.headers["Authorization"].split()[1]
    context.request.post(f"{str(http.base_url).rstrip('/')}/v1/session", data={"key": key})
    yield context
    context.close()


@bench("console")
def pages() -> Iterator[Result]:
    """Every page of a huge system: its slowest request, its rendering, its rows."""
    try:
        with _databases() as databases, _browser() as browser:
            for name, database in databases.items():
                with _served(database) as http:
                    shown = {**LISTS, **fill(http), **enlarge(http, database, _sizes())}
                    yield from _pages(name, browser, http, shown)
    except NoBrowser:
        yield _missing("console.pages")


def _pages(
    name: str, browser: Browser, http: httpx.Client, shown: dict[str, str]
) -> Iterator[Result]:
    with _signed_in(browser, http) as context:
        page = context.new_page()
        page.goto(str(http.base_url))
        page.wait_for_selector("header.top")
        page.keyboard.press("p")  # Nothing is read again by itself.
        seen = {
            title: fastest(page, path, elsewhere="/console/messages", rounds=ROUNDS)
            for title, path in shown.items()
        }
    for title, visit in seen.items():
        print(f"    {title}: {visit.slowest} {visit.slowest_ms:.0f} ms, {visit}", file=sys.stderr)
    where, slowest = max(seen.items(), key=lambda pair: pair[1].slowest_ms)
    rendered = max(visit.render_ms for visit in seen.values())
    rows = max(visit.rows for visit in seen.values())
    unit = f"ms, {where}: {slowest.slowest}"
    goal = value_under(REQUEST_MS_MAX)
    yield judge(f"console.{name}.slowest_request", slowest.slowest_ms, unit, goal=goal)
    yield judge(f"console.{name}.slowest_render", rendered, "ms", goal=value_under(RENDER_MS_MAX))
    yield judge(f"console.{name}.most_rows", rows, "rows", goal=value_under(ROWS_MAX + 1))


def _missing(name: str, why: str = "no Chromium, or no build of the console") -> Result:
    return Result(name=name, value=0.0, unit=why, reference=None, ratio=None, goal=None, ok=True)


@bench("console")
def first_load() -> Iterator[Result]:
    """The list of dead letters with an empty cache, beside the lists of PgQueuer and pg-boss."""
    try:
        with postgres_server() as server, postgres_bed(server) as bed, _browser() as browser:
            with _served(bed.url) as http:
                fill(http)
                enlarge(http, bed.url, _sizes())
                ours = _typical(_our_loads(browser, http))
            yield judge("console.first_load", ours.kilobytes, "kB")
            for name, serve in (("pgqueuer_web", _pgqueuer), ("pgboss", _pgboss)):
                try:
                    check(name)
                    with _new_database(server) as url, serve(url) as (address, rows):
                        theirs = _typical(_loads(browser, address, rows))
                except PeerFailed as error:
                    yield _missing(f"console.peer.{name}", str(error))
                    continue
                yield from _beside(name, ours, theirs)
    except NoBrowser:
        yield _missing("console.first_load")


def _beside(name: str, ours: Load, theirs: Load) -> Iterator[Result]:
    for field, unit, goal in (
        ("seconds", "s", None), ("requests", "requests", None), ("kilobytes", "kB", None),
    ):  # fmt: skip
        yield judge(
            f"console.peer.{name}.{field}",
            getattr(ours, field),
            unit,
            reference=getattr(theirs, field),
            goal=goal,
        )


def _our_loads(browser: Browser, http: httpx.Client) -> Iterator[Load]:
    address = f"{str(http.base_url).rstrip('/')}/console/dead/{QUEUE}"
    for _ in range(ROUNDS):
        with _signed_in(browser, http) as context:
            page = context.new_page()
            yield load(page, address, '[aria-label="Dead letters"] tbody tr')


def _loads(browser: Browser, address: str, rows: str) -> Iterator[Load]:
    for _ in range(ROUNDS):
        context = browser.new_context(viewport=SIZE)
        yield load(context.new_page(), address, rows)
        context.close()


def _typical(loads: Iterator[Load]) -> Load:
    return sorted(loads, key=lambda timed_load: timed_load.seconds)[ROUNDS // 2]


@contextmanager
def _new_database(server: PostgresServer) -> Iterator[str]:
    with ThreadPoolExecutor(1) as thread:  # The browser's event loop runs in this thread.
        url = thread.submit(asyncio.run, server.create_database()).result()
        yield url
        thread.submit(asyncio.run, server.drop_database(url)).result()


@contextmanager
def _pgqueuer(url: str) -> Iterator[tuple[str, str]]:
    port, python = _free_port(), environment("pgqueuer_web") / "bin" / "python"
    script = Path(peers.__file__).with_name("console_pgqueuer_web.py")
    command = [str(python), str(script), url, str(_sizes().dead_letters), str(port)]
    with _process(command, port) as address:
        yield f"{address}/failures", "tbody tr"


@contextmanager
def _pgboss(url: str) -> Iterator[tuple[str, str]]:
    port, home, node = _free_port(), environment("pgboss"), node_program()
    script = Path(peers.__file__).with_name("console_pgboss.mjs")
    fill_command = [node, str(script), str(home), url, str(_sizes().dead_letters)]
    filled = subprocess.run(fill_command, capture_output=True, text=True, check=False)
    if filled.returncode != 0:
        raise PeerFailed(f"failed: {(filled.stderr.strip().splitlines() or [''])[-1]}")
    program = home / "node_modules" / ".bin" / "pg-boss-dashboard"
    environ = {"DATABASE_URL": url, "PORT": str(port), "HOST": "127.0.0.1"}
    with _process([node, str(program.resolve())], port, **environ) as address:
        yield f"{address}/jobs?state=failed", "tbody tr"
