"""HTTP handlers in threads and processes: each has a budget, and is stopped when it is used up."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.process import Children
from tests.kit.waiting import delay, eventually
from tests.service.programs import http_handlers
from tests.service.programs.http_handlers import Turns, app
from tests.service.test_isolation_processes import is_alive
from tickwork import HttpRequest, InvalidInput, ServiceUnavailable, Tickwork
from tickwork.app.isolation import CPU_SECONDS_MAX, MEMORY_BYTES_MIN
from tickwork.core.model import DEFAULT
from tickwork.service.http_application import Processes
from tickwork.testing import Harness, harness

WATCHED_SECONDS = 0.5
"""Seconds in which a handler that is not stopped would be seen to use its processor."""


@pytest.fixture
async def h(database: str | None) -> AsyncIterator[Harness]:
    async with harness(app, database=database) as opened:
        yield opened


def processes() -> list[Processes]:
    return [*app._engine.http_application._processes.values()]


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        ("burn", 504, "The handler used more than 0.2 seconds of CPU time, and was stopped."),
        ("allocate", 500, None),
        ("crash", 500, None),
        ("exit", 500, None),
        ("fail", 500, None),
        ("unencodable", 500, None),
        ("header", 500, None),
        ("missing", 404, "There is no brand acme."),
    ],
)
@pytest.mark.one_store("sqlite")
async def test_whatever_a_handler_in_a_process_does_only_its_request_fails(
    h: Harness, end: str, status: int, told: str | None
) -> None:
    answer = await h.http.get(f"/process/{end}")
    assert answer.status == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret of the house" not in answer.text
    assert told is None or answer.json()["detail"] == told
    assert (await h.http.get("/process/pid")).json() in processes()[0].pool.pids


@pytest.mark.one_store("sqlite")
async def test_a_handler_that_hangs_in_its_process_is_killed_with_the_504(
    h: Harness, tmp_path: Path
) -> None:
    told = tmp_path / "pid"
    answer = await h.http.get("/hang", query={"told": told})
    assert (answer.status, answer.json()["code"]) == (504, "timed_out")
    pid = int(told.read_text())
    await eventually(lambda: not is_alive(pid))


@pytest.mark.one_store("sqlite")
async def test_no_process_is_left_when_the_application_ends(h: Harness) -> None:
    pid = (await h.http.get("/process/pid")).json()
    assert is_alive(pid)
    await app._engine.service_caller.close()
    assert not is_alive(pid)
    assert processes() == []


async def test_what_a_handler_sends_in_its_process_is_stored_with_its_answer(h: Harness) -> None:
    await h.store.subscriptions.put(DEFAULT, "jobs.*", "heard")
    answer = await h.http.post("/jobs/150")
    story = answer.headers["tickwork-correlation-id"]
    assert (answer.status, answer.json()) == (202, [150, story])
    stored = await h.sent("jobs")
    assert [sent.body for sent in stored] == [*range(150), "a", "b"]
    correlations = [sent.message.correlation_id for sent in stored]
    assert correlations == [story] * 150 + ["its own"] * 2
    assert (await h.http.post("/jobs/1", query={"fails": 1})).status == 500
    assert len(await h.sent("jobs")) == 152
    (event,) = await h.sent("heard")
    assert (event.body, event.message.correlation_id) == ({"count": 150}, story)


async def test_a_plain_function_is_stopped_when_its_504_goes_out() -> None:
    itself = app.service("itself", app)
    Turns.count = 0
    assert (await itself.get("/thread")).status == 504
    assert Turns.count
    await eventually(turns_have_ended)
    count, begin = Turns.count, time.process_time()
    await delay(WATCHED_SECONDS)
    assert Turns.count == count
    assert time.process_time() - begin < WATCHED_SECONDS / 2
    await app.close()


async def turns_have_ended() -> bool:
    count = Turns.count
    await delay(0.02)
    return Turns.count == count


@pytest.mark.parametrize(
    ("options", "field", "told"),
    [
        ({"isolation": "container"}, "isolation", "must be one of task, thread, process"),
        ({"isolation": "process", "cpu_seconds": 0}, "cpu_seconds", f"{CPU_SECONDS_MAX:g}"),
        ({"isolation": "process", "cpu_seconds": "1"}, "cpu_seconds", "must be a number"),
        ({"isolation": "process", "memory_bytes": 1}, "memory_bytes", str(MEMORY_BYTES_MIN)),
        ({"cpu_seconds": 1}, "cpu_seconds", "works only with isolation='process'"),
        ({"memory_bytes": MEMORY_BYTES_MIN}, "memory_bytes", "only with isolation='process'"),
        ({"max_concurrency": 1}, "max_concurrency", "is not a known field"),
        ({"isolation": "task"}, "tests.service.programs.http_handlers.end", "plain function"),
    ],
)
def test_a_wrong_option_is_refused_with_its_field(options: Any, field: str, told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Tickwork().http("GET", "/", key=None, **options)(http_handlers.end)
    ((wrong, message),) = refused.value.errors
    assert wrong == field
    assert told in message


async def test_a_handler_that_no_process_can_import_is_refused_at_the_start() -> None:
    local = Tickwork()

    @local.http("GET", "/", key=None, isolation="process")
    def inside(_: HttpRequest) -> None: ...

    with pytest.raises(ServiceUnavailable, match="is defined inside a function"):
        await local.service("itself", local).get("/")
    await local.close()


async def test_a_server_does_not_start_with_a_handler_that_no_process_can_import(
    children: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    child = children.spawn("tickwork", "run", "shop:app", "--roles", "http", "--http-port", "0")
    assert await child.wait() == 2
    assert "is defined inside a function" in child.stderr()


SHOP = """
from tickwork import Tickwork

app = Tickwork("sqlite:///shop.db")


def declare():
    @app.http("GET", "/", key=None, isolation="process")
    def inside(request):
        pass


declare()
"""
