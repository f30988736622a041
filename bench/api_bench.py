"""Area `api`: one API process on loopback, beside a bare handler of the same framework.

The floor is another process with the same server, which answers with the same bodies and has no
database. Batches and pulls stand beside the store's own calls in this process. Both sides take
turns, and a ratio is that of one turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bench import QUEUE
from bench.beds import Bed, batches, postgres_bed, postgres_server, sqlite_bed
from bench.harness import (
    WALL,
    Result,
    Turn,
    bench,
    interleaved,
    judge,
    ratio_at_least,
    ratio_at_most,
    sized,
    typical,
)
from bench.http_load import load, request_bytes
from bench.scheduler_beds import idle, make
from tests.kit.api import new_key

CONNECTIONS = 64
REQUESTS, REQUESTS_QUICK = 3_000, 500
BATCH, BATCHES, BATCHES_QUICK = 100, 40, 5
ROUNDS = 5
WARM_UP = 200
ROWS, ROWS_QUICK = 1_000_000, 20_000
PAGE, LARGE_PAGE = 100, 1_000
PAGES_TIMED = 20
MESSAGE = b'{"body":{"to":"a@example.com","template":"welcome","n":1}}'
SCHEDULE: dict[str, Any] = {
    "cron_expr": "0 9 * * MON-FRI",
    "timezone": "America/New_York",
    "name": "morning-report",
    "target": {"type": "queue", "queue": QUEUE},
}

MakeBed = Callable[[], AbstractContextManager[Bed]]


class Server:
    """A served API: its URL and a key with all scopes."""

    def __init__(self, bed: Bed, url: str, key: str) -> None:
        self._bed, self.url, self._key = bed, url, key

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        return request_bytes(self.url, method, path, body=body, key=self._key)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends one request and returns the answer."""
        sent = self.request(method, path, b"" if body is None else json.dumps(body).encode())
        (answer,) = self._bed.run(load(self.url, [sent], connections=1, keep=True))
        return json.loads(answer)


@contextmanager
def _process(*words: str) -> Iterator[str]:
    """A server in a process of its own; yields the line that ends with its URL."""
    command = [sys.executable, "-m", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(line for line in process.stdout if "http://" in line).split()[-1]
        finally:
            process.kill()


@contextmanager
def _server(bed: Bed) -> Iterator[Server]:
    key = bed.run(new_key(bed.store))
    command = ("tickwork", "up", "--roles", "api", "--port", "0", "--database", bed.url)
    with _process(*command) as url:
        yield Server(bed, url, key)


def _beds() -> Iterator[tuple[str, MakeBed]]:
    yield "sqlite", sqlite_bed
    with postgres_server() as server:
        yield "postgres", lambda: postgres_bed(server)


def _rate(name: str, turns: list[Turn], count: int, unit: str, goal: float) -> Result:
    turn = typical(turns)
    return judge(
        name,
        count / turn.candidate,
        unit,
        reference=count / turn.floor,
        goal=ratio_at_least(goal),
    )


@bench("api")
def single_requests() -> Iterator[Result]:
    """Reading one schedule and sending one message, 64 at a time."""
    for name, make_bed in _beds():
        with make_bed() as bed, _server(bed) as ours:
            yield from _single_requests(name, bed, ours)


def _single_requests(name: str, bed: Bed, ours: Server) -> Iterator[Result]:
    count = sized(REQUESTS, quick=REQUESTS_QUICK)

    def turns(request: bytes, bare: bytes) -> list[Turn]:
        for url, sent in ((ours.url, request), (floor, bare)):
            bed.run(load(url, [sent] * WARM_UP, connections=CONNECTIONS))
        return interleaved(
            lambda _: bed.run(load(ours.url, [request] * count, connections=CONNECTIONS)),
            lambda _: bed.run(load(floor, [bare] * count, connections=CONNECTIONS)),
            rounds=ROUNDS,
            clock=WALL,
        )

    made = ours.ask("POST", "/v1/schedules", SCHEDULE)
    schedule = f"/v1/schedules/{made['id']}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"
        path.write_text(json.dumps(ours.ask("GET", schedule)))
        with _process("bench.api_floor", str(path)) as floor:
            read = turns(ours.request("GET", schedule), request_bytes(floor, "GET", "/answer"))
            yield _rate(f"api.{name}.get_schedule", read, count, "requests/s", 0.35)
            sent = turns(
                ours.request("POST", f"/v1/queues/{QUEUE}/messages", MESSAGE),
                request_bytes(floor, "POST", "/messages", body=MESSAGE),
            )
            yield _rate(f"api.{name}.post_message", sent, count, "requests/s", 0.30)


@bench("api")
def batches_of_messages() -> Iterator[Result]:
    """100 messages in one request, and 100 pulled and acked, beside the store's own calls."""
    for name, make_bed in _beds():
        with make_bed() as bed, make_bed() as plain, _server(bed) as ours:
            yield from _batches(name, bed, plain, ours)


def _batches(name: str, bed: Bed, plain: Bed, ours: Server) -> Iterator[Result]:
    number = sized(BATCHES, quick=BATCHES_QUICK)
    count = number * BATCH
    body = json.dumps({"messages": [json.loads(MESSAGE)] * BATCH}).encode()
    publish = [ours.request("POST", f"/v1/queues/{QUEUE}/messages/batch", body)] * number
    ready = [batches(count, BATCH) for _ in range(ROUNDS)]
    sent = interleaved(
        lambda _: bed.run(load(ours.url, publish, connections=1)),
        lambda turn: plain.send(ready[turn]),
        rounds=ROUNDS,
        clock=WALL,
    )
    yield _rate(f"api.{name}.publish_100", sent, count, "messages/s", 0.40)
    passed = interleaved(
        lambda _: _pull_and_ack(ours, number),
        lambda _: plain.pass_through(count, BATCH),
        rounds=ROUNDS,
        clock=WALL,
    )
    yield _rate(f"api.{name}.pull_ack_100", passed, count, "messages/s", 0.40)


def _pull_and_ack(server: Server, number: int) -> None:
    for _ in range(number):
        pulled = server.ask("POST", f"/v1/queues/{QUEUE}/messages/pull", {"batch_size": BATCH})
        acks = [{"lease_id": message["lease_id"]} for message in pulled["messages"]]
        assert len(acks) == BATCH
        server.ask("POST", f"/v1/queues/{QUEUE}/messages/ack", {"acks": acks})


@bench("api")
def pages() -> Iterator[Result]:
    """The first and the last page of long lists: schedules, messages, and messages of which none
    matches a filter."""
    count = sized(ROWS, quick=ROWS_QUICK)
    for name, make_bed in _beds():
        with make_bed() as bed, _server(bed) as ours:
            make(bed, idle(count))
            yield _pages(f"api.{name}.last_page", ours, "/v1/schedules?")
        with make_bed() as bed, _server(bed) as ours:
            bed.fill(count)
            listed = f"/v1/queues/{QUEUE}/messages?"
            yield _pages(f"api.{name}.last_page_of_messages", ours, listed)
            filtered = f"{listed}type=none&"
            yield _pages(f"api.{name}.last_page_of_filtered_messages", ours, filtered)


def _pages(name: str, ours: Server, path: str) -> Result:
    """Compares the first page with one behind the last cursor."""
    first, cursor = f"{path}limit={PAGE}", ""
    # Large pages lead to the last cursor sooner.
    while after := ours.ask("GET", f"{path}limit={LARGE_PAGE}{cursor}").get("next_cursor"):
        cursor = f"&cursor={after}"
    turn = typical(
        interleaved(
            lambda _: _read(ours, f"{first}{cursor}"),
            lambda _: _read(ours, first),
            clock=WALL,
            rounds=ROUNDS,
        )
    )
    return judge(
        name,
        turn.candidate / PAGES_TIMED * 1e3,
        "ms",
        reference=turn.floor / PAGES_TIMED * 1e3,
        goal=ratio_at_most(1.5),
    )


def _read(server: Server, path: str) -> None:
    for _ in range(PAGES_TIMED):
        server.ask("GET", path)
