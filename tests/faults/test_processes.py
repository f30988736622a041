"""`tickwork run --processes`: a parent whose children are drained, killed and replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import msgspec
import pytest

from tests.faults.open_store import opened
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, Counts
from tickwork.ops.context import Context
from tickwork.ops.send import compose, send
from tickwork.store.contract import Store

on_postgres = pytest.mark.parametrize("home", ["postgres"], indirect=True)

APP = """
    import asyncio
    import os
    from pathlib import Path

    from tickwork import Tickwork

    app = Tickwork()
    app.queue("work")
    app.queue("out")
    VERSION = 1

    @app.on("work", max_concurrency=1)
    async def handle(message):
        if message.body == "wait":
            print("began", os.getpid(), flush=True)
            await asyncio.sleep(3600)
        message.send("out", {"body": message.body, "pid": os.getpid(), "version": VERSION})
"""

Write = Callable[[str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the module `shop` in the test's own folder."""

    def write(text: str) -> None:
        (tmp_path / "shop.py").write_text(dedent(text))

    return write


class Crew:
    """A parent and its children, by their log."""

    def __init__(self, children: Children, folder: Path, url: str, *words: str) -> None:
        environ = {"TICKWORK_DATABASE": url, "PYTHONDONTWRITEBYTECODE": "1"}
        self.parent = children.spawn(
            *("tickwork", "run", "shop:app", "--log-format", "json", *words),
            env=environ,
            folder=folder,
        )

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.parent.stderr().split("\n")[:-1]]

    def pids(self) -> list[int]:
        """Of all that ever were ready, in their order."""
        return [line["pid"] for line in self.lines if line["event"] == "a process is ready"]

    async def ready(self, count: int) -> list[int]:
        """Waits until so many were ready, from the start."""
        await eventually(
            lambda: len(self.pids()) >= count or self.parent.returncode is not None,
            what=f"{count} children",
        )
        assert len(self.pids()) >= count, self.parent.stderr()
        return self.pids()

    async def logged(self, event: str) -> dict[str, Any]:
        """The first line of this event."""

        def found() -> list[dict[str, Any]]:
            return [line for line in self.lines if line["event"].startswith(event)]

        await eventually(found, what=event)
        return found()[0]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def outputs(store: Store) -> list[Any]:
    found = await store.messages.peek(DEFAULT, "out", 1_000)
    return [msgspec.json.decode(message.body) for message in found]


async def send_all(store: Store, *bodies: object) -> None:
    for body in bodies:
        await send(Context(store, DEFAULT), "work", compose(body))


@on_postgres
async def test_all_children_handle_messages_and_a_signal_drains_them(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    pids = await crew.ready(2)
    async with opened(home.url) as store:

        async def both_have_handled() -> bool:
            await send_all(store, *range(20))
            return {output["pid"] for output in await outputs(store)} == {*pids}

        await eventually(both_have_handled)
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()
    assert not any(map(is_alive, pids))


@on_postgres
async def test_a_second_signal_ends_the_drain_of_all_children(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    await crew.ready(2)
    async with opened(home.url) as store:
        await send_all(store, "wait", "wait")
        await crew.parent.line("began")
        await eventually(lambda: crew.parent.stdout().count("began") == 2)
        crew.parent.signal(signal.SIGTERM)
        await crew.logged("stopping: running handlers finish")
        crew.parent.signal(signal.SIGTERM)
        await crew.parent.succeeded()
        # They are back at once, not when a lease has expired.
        assert (await store.queues.counts(DEFAULT, "work")).ready == 2


@on_postgres
async def test_a_child_that_is_killed_is_restarted_and_its_claim_comes_back(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    await crew.ready(2)
    async with opened(home.url) as store:
        await send_all(store, "wait")
        victim = int((await crew.parent.line("began")).split()[1])
        os.kill(victim, signal.SIGKILL)
        ended = await crew.logged("a process ended")
        assert (ended["pid"], ended["signal"]) == (victim, "SIGKILL")
        assert victim not in (await crew.ready(3))[2:]
        # The lease of the dead one expires, and another child begins with the same message.
        await eventually(lambda: crew.parent.stdout().count("began") == 2)
    crew.parent.signal(signal.SIGTERM)
    crew.parent.signal(signal.SIGTERM)
    assert await crew.parent.wait() == 0


@on_postgres
async def test_children_whose_parent_is_killed_drain(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    pids = await crew.ready(2)
    crew.parent.kill9()
    await eventually(lambda: not any(map(is_alive, pids)), what="the children to end")
    assert any(line["event"].startswith("the parent process is gone") for line in crew.lines)


class Load:
    """Clients of the API that make requests without end; each one must be answered."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.answers = 0
        self.errors: list[str] = []
        self.is_over = False

    async def run(self, *, keeps: bool) -> None:
        """One client, which keeps its connection or opens one for each request."""
        limits = httpx.Limits() if keeps else httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(
            base_url=self._url, trust_env=False, timeout=60.0, limits=limits
        ) as client:
            while not self.is_over:
                try:
                    answer = await client.get("/healthz")
                    assert answer.status_code == 200
                    self.answers += 1
                except httpx.HTTPError as error:
                    self.errors.append(repr(error))


@on_postgres
async def test_a_reload_replaces_all_children_and_no_request_is_lost(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    port = free_port()
    words = ("--processes", "2", "--roles", "api,worker", "--port", str(port))
    crew = Crew(children, tmp_path, home.url, *words)
    old = await crew.ready(2)
    load = Load(f"http://127.0.0.1:{port}")
    clients = [asyncio.create_task(load.run(keeps=number < 4)) for number in range(8)]
    await eventually(lambda: load.answers > 50)
    write(APP.replace("VERSION = 1", "VERSION = 2"))
    os.kill(crew.parent.pid, signal.SIGHUP)
    await crew.logged("reloaded: all processes run the new code")
    answers = load.answers
    await eventually(lambda: load.answers > answers + 50)
    load.is_over = True
    await asyncio.gather(*clients)
    assert load.errors == []
    new = crew.pids()[2:]
    assert len(new) == 2
    assert not {*old} & {*new}
    assert not any(map(is_alive, old))
    async with opened(home.url) as store:
        await send_all(store, *range(20))

        async def all_are_handled() -> bool:
            return len(await outputs(store)) == 20

        await eventually(all_are_handled)
        assert {(output["version"], output["pid"] in new) for output in await outputs(store)} == {
            (2, True)
        }
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()


@on_postgres
async def test_a_reload_of_code_that_does_not_start_leaves_the_old_processes(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    old = await crew.ready(2)
    write("1 / 0")
    os.kill(crew.parent.pid, signal.SIGHUP)
    await crew.logged("the new code does not start")
    assert all(map(is_alive, old))
    async with opened(home.url) as store:
        await send_all(store, "still here")

        async def is_handled() -> bool:
            return bool(await outputs(store))

        await eventually(is_handled)
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()


def value(text: str, start: str) -> float:
    """The value of the only sample that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return float(line.split()[-1])


@on_postgres
async def test_one_scrape_has_the_metrics_of_all_children_also_of_ended_ones(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    port, metrics_port = free_port(), free_port()
    words = ("--processes", "2", "--roles", "api,worker", "--port", str(port))
    crew = Crew(children, tmp_path, home.url, *words, "--metrics-port", str(metrics_port))
    pids = await crew.ready(2)
    succeeded = 'tickwork_messages_total{outcome="succeeded",queue="work"}'
    async with (
        opened(home.url) as store,
        httpx.AsyncClient(trust_env=False, timeout=60.0) as client,
    ):

        async def both_have_handled() -> bool:
            await send_all(store, *range(20))
            return {output["pid"] for output in await outputs(store)} == {*pids}

        await eventually(both_have_handled)

        async def none_is_left() -> bool:
            return await store.queues.counts(DEFAULT, "work") == Counts()

        await eventually(none_is_left)
        count = len(await outputs(store))

        async def scrape(at: int) -> str:
            return (await client.get(f"http://127.0.0.1:{at}/metrics")).text

        for at in (port, metrics_port):
            text = await scrape(at)
            assert value(text, succeeded) == count, text
            assert value(text, 'tickwork_permits_allowed{queue="work"}') == 2
            assert value(text, 'tickwork_handler_seconds_count{queue="work"}') == count
            for number in (1, 2):
                assert value(text, f'process_resident_memory_bytes{{process="{number}"}}') > 0
        os.kill(pids[0], signal.SIGKILL)
        await crew.ready(3)
        for at in (port, metrics_port):
            assert value(await scrape(at), succeeded) == count
        os.kill(pids[1], signal.SIGTERM)
        await crew.ready(4)
        assert value(await scrape(metrics_port), succeeded) == count
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()


@on_postgres
async def test_each_line_of_a_child_has_its_number(
    home: Home, children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, home.url, "--processes", "2")
    await crew.ready(2)
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()
    stopped = [line for line in crew.lines if line["event"].startswith("stopping: running")]
    assert sorted(line["process"] for line in stopped) == [1, 2]


async def test_an_app_on_sqlite_runs_in_one_process_and_says_so(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(APP)
    crew = Crew(children, tmp_path, f"sqlite:///{tmp_path}/own.db", "--processes", "3")
    await crew.logged("SQLite has one writer, so this app runs in one process")
    assert len(await crew.ready(1)) == 1
    crew.parent.signal(signal.SIGTERM)
    await crew.parent.succeeded()
    assert len(crew.pids()) == 1


async def test_an_app_that_cannot_start_says_so_once_with_its_exit_code(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write("1 / 0")
    words = ("run", "shop:app", "--processes", "2", "--log-format", "console")
    ended = children.run("tickwork", *words, env={}, folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.count("importing shop failed: ZeroDivisionError") == 1


async def test_a_parent_gives_up_if_its_children_die_at_once_again_and_again(
    children: Children, tmp_path: Path, write: Write
) -> None:
    write(f"{APP}\n    os.kill(os.getpid(), 9)\n")
    crew = Crew(children, tmp_path, f"sqlite:///{tmp_path}/own.db", "--processes", "2")
    assert await crew.parent.wait() == 1
    await crew.logged("a process died at once again and again")
    ended = [line["signal"] for line in crew.lines if line["event"] == "a process ended"]
    assert ended == ["SIGKILL"] * 5
