"""Area `delivery`: what receivers in another process see of an app that a user has written.

Everything is made through the public API: endpoints, events, queues that push, schedules that fire
once with a URL. A throughput stands beside what a limit allows; or beside a bare loop of the same
HTTP client that posts the same bodies, signed before, as many at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import pairwise

import msgspec

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.delivery_user import host_of
from bench.harness import Result, bench, judge, ratio_at_least, ratio_at_most, sized, value_under
from bench.peers import seconds_of, was_tried
from tickwork import Tickwork

DELIVERIES = 4_000
DELIVERIES_QUICK = 1_000
AT_ONCE = 100
"""Requests at once of the bare loop at most: more make it no faster."""

HOST_AT_ONCE = 20
"""Requests at once to a host by default."""

WAYS = ("push", "events", "schedules")
SLOW_MS, FAST_MS = 200, 10
"""How long receivers take."""

LIMITS = ((SLOW_MS, 1), (SLOW_MS, 20), (SLOW_MS, 100), (FAST_MS, 1))
"""How long a receiver takes, and the requests at once that are set on its endpoint and host."""

FAST = (
    ("push", 1, None), ("push", 1, 100), ("events", 1, None), ("events", 100, None),
    ("schedules", 1, None), ("schedules", 1_000, None),
)  # fmt: skip
"""Ways to fast receivers, how many these are, and the requests at once that are set."""

SECONDS = 6.0
"""How long a limit that binds lets deliveries go."""

IN_FLIGHT = {1_000: 200, 10_000: 600}
"""MiB that a worker may have with so many requests that wait for their answers."""

IN_FLIGHT_QUICK = {100: 200}
PER_HOST, PER_HANGING_HOST = 10, 5
"""Requests to one host; there are as many hosts as that takes."""

HOSTS, HOSTS_QUICK = 1_000, 100
PEER_DELIVERIES = 2_000
PEER_SETTINGS = (20, 50, 100)
"""Jobs at a time of the peer: all are tried, and the best counts."""

HEARTBEAT_GAP_SECONDS_MAX = 7.5
"""A node beats every 5 seconds. More than this is late."""

LOOK_SECONDS = 0.1
"""Seconds between two looks at the lease of a node."""

SECONDS_MAX = 600.0
SECRET_KEY = b64encode(bytes(32)).decode()

MakeBed = Callable[[], AbstractContextManager[Bed]]


@bench("delivery")
def limits_that_bind() -> Iterator[Result]:
    """What the limit of a receiver lets go: the default one in each way to send, and others."""
    for name, make_bed in _beds():
        for way in WAYS:
            row = f"delivery.{name}.{way}_slow"
            yield _limited(row, make_bed, way, SLOW_MS)
        for delay_ms, at_once in LIMITS:
            row = f"delivery.{name}.push_{delay_ms}ms_{at_once}"
            yield _limited(row, make_bed, "push", delay_ms, at_once)


@bench("delivery")
def fast_receivers() -> Iterator[Result]:
    """Receivers that take 10 ms: beside a bare loop that posts to them, as many at once as are
    allowed."""
    for name, make_bed in _beds():
        for way, receivers, at_once in FAST:
            row = f"delivery.{name}.{way}_fast_{receivers}" + (f"_{at_once}" if at_once else "")
            yield _beside_loop(row, make_bed, way, receivers, at_once)


def _limited(
    row: str, make_bed: MakeBed, way: str, delay_ms: int, at_once: int | None = None
) -> Result:
    allowed = (at_once or HOST_AT_ONCE) * 1_000 / delay_ms
    with make_bed() as bed:
        answered = _at_receivers(
            bed, way, int(allowed * SECONDS), delay_ms=delay_ms, at_once=at_once
        )
    return judge(
        row, answered.per_second, "deliveries/s", reference=allowed, goal=ratio_at_least(0.8)
    )


def _beside_loop(
    row: str, make_bed: MakeBed, way: str, receivers: int, at_once: int | None
) -> Result:
    count = sized(DELIVERIES, quick=DELIVERIES_QUICK)
    of_loop = min((at_once or HOST_AT_ONCE) * receivers, AT_ONCE)
    with _server("--delay-ms", str(FAST_MS)) as (port, _said):
        to = ("--port", str(port), "--receivers", str(receivers))
        floor_seconds = _seconds_of_loop(*to, messages=count, at_once=of_loop)
    with make_bed() as bed:
        ours = _at_receivers(
            bed, way, count, delay_ms=FAST_MS, receivers=receivers, at_once=at_once
        )
    return judge(
        row,
        ours.per_second,
        "deliveries/s",
        reference=count / floor_seconds,
        goal=ratio_at_least(0.5),
    )


class Answered(msgspec.Struct, kw_only=True):
    """What receivers have answered, and in how many seconds from the first request on."""

    answered: int
    seconds: float
    at_once_max: int

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds


def _at_receivers(
    bed: Bed,
    way: str,
    count: int,
    *,
    delay_ms: int,
    receivers: int = 1,
    at_once: int | None = None,
    hang: str | None = None,
) -> Answered:
    """What receivers see of an app that a user has written. `at_once` is set on the endpoints, and
    as the limit of hosts. What goes to the host that hangs is not counted."""
    environment = {**os.environ, **_keys()}
    limit: tuple[str, ...] = ()
    if at_once is not None:
        limit = ("--concurrency", str(at_once))
        environment["TICKWORK_HOST_CONCURRENCY"] = str(max(at_once, HOST_AT_ONCE))
    expected = count if hang is None else count - count // receivers
    ends = ("--count", str(expected), "--seconds", str(SECONDS_MAX))
    slow = ("--delay-ms", str(delay_ms), *(() if hang is None else ("--hang", hang)))
    user = [sys.executable, "-m", "bench.delivery_user"]
    with _server(*ends, *slow) as (port, said):
        numbers = ("--messages", str(count), "--receivers", str(receivers))
        fill = ("fill", bed.url, "--way", way, "--port", str(port), *numbers, *limit)
        subprocess.run([*user, *fill], env=environment, check=True)
        with subprocess.Popen([*user, "run", bed.url], env=environment) as worker:
            try:
                return msgspec.json.decode(said(), type=Answered)
            finally:
                worker.terminate()


@bench("delivery")
def in_flight() -> Iterator[Result]:
    """Many slow hosts: none answers until all requests are there, and then for ten seconds."""
    for name, make_bed in _beds():
        for count, mebibytes in (IN_FLIGHT_QUICK if sized(0, quick=1) else IN_FLIGHT).items():
            ends = ("--count", str(count), "--seconds", str(SECONDS_MAX))
            with _server("--hold", str(count), *ends) as (port, said), make_bed() as bed:
                _fill(bed, port, count, receivers=count // PER_HOST)
                rss_bytes_max, gap_seconds = _worker(bed, count, said)
            yield judge(
                f"delivery.{name}.memory_{count}",
                rss_bytes_max / 2**20,
                "MiB",
                reference=mebibytes,
                goal=ratio_at_most(1.0),
            )
            yield judge(
                f"delivery.{name}.heartbeat_gap_{count}",
                gap_seconds,
                "s",
                goal=value_under(HEARTBEAT_GAP_SECONDS_MAX),
            )


@bench("delivery")
def one_hangs() -> Iterator[Result]:
    """1,000 hosts, of which one never answers: the rate of the others beside that without it."""
    hosts = sized(HOSTS, quick=HOSTS_QUICK)
    for name, make_bed in _beds():

        def rate(hang: str | None, make_bed: MakeBed = make_bed) -> float:
            with make_bed() as bed:
                return _at_receivers(
                    bed,
                    "schedules",
                    hosts * PER_HANGING_HOST,
                    delay_ms=FAST_MS,
                    receivers=hosts,
                    hang=hang,
                ).per_second

        yield judge(
            f"delivery.{name}.one_hangs",
            rate(host_of(0)),
            "deliveries/s",
            reference=rate(None),
            goal=ratio_at_least(0.95),
        )


@bench("delivery")
def peer() -> Iterator[Result]:
    """Procrastinate with a task that posts by httpx, on the same server."""
    if not was_tried("procrastinate"):
        return
    count = sized(PEER_DELIVERIES, quick=PEER_DELIVERIES // 10)
    with postgres_server() as server, _server() as (port, _said):
        url = f"http://127.0.0.1:{port}/"
        with postgres_bed(server) as bed:
            ours = _at_receivers(bed, "schedules", count, delay_ms=0, at_once=AT_ONCE)
        theirs = []
        for at_a_time in PEER_SETTINGS:
            database = asyncio.run(server.create_database())
            try:
                theirs.append(
                    seconds_of("procrastinate", "deliver", database, count, at_a_time, url)
                )
            finally:
                asyncio.run(server.drop_database(database))
    yield judge(
        "delivery.postgres.beside_procrastinate",
        ours.per_second,
        "webhooks/s",
        reference=count / min(theirs),
    )


def _beds() -> Iterator[tuple[str, MakeBed]]:
    yield "sqlite", sqlite_bed
    with postgres_server() as server:
        yield "postgres", lambda: postgres_bed(server)


def _fill(bed: Bed, port: int, count: int, receivers: int = 1) -> None:
    """Schedules that fire once, with URLs at so many hosts."""
    command = [sys.executable, "-m", "bench.delivery_user", "fill", bed.url, "--way", "schedules"]
    numbers = ("--port", str(port), "--messages", str(count), "--receivers", str(receivers))
    subprocess.run([*command, *numbers], env={**os.environ, **_keys()}, check=True)


def _worker(bed: Bed, at_once: int, said: Callable[[], bytes]) -> tuple[int, float]:
    """Delivers until the server has said how many were in flight and that all are answered. Returns
    the most memory of the worker, and the longest time between two heartbeats."""
    command = [sys.executable, "-m", "bench.delivery_user", "run", bed.url]
    environment = {**os.environ, **_environment(at_once)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as worker:
        try:
            gap_seconds = bed.run(_longest_gap(bed.url, at_once, said))
            worker.terminate()
            printed, _ = worker.communicate(timeout=SECONDS_MAX)
        finally:
            worker.kill()
    return int(printed), gap_seconds


async def _longest_gap(url: str, count: int, said: Callable[[], bytes]) -> float:
    """Seconds between two heartbeats of the worker, as the lease of its node shows them."""

    def wait() -> None:
        assert json.loads(said())["in_flight_max"] == count
        assert json.loads(said())["answered"] == count

    app, ended = Tickwork(url), asyncio.create_task(asyncio.to_thread(wait))
    beats: list[float] = []
    known: set[datetime] = set()
    while not ended.done():
        expiries = {node.expires_at for node in await app.nodes.list()}
        if expiries - known:
            known |= expiries
            beats.append(time.monotonic())
        await asyncio.sleep(LOOK_SECONDS)
    await ended
    await app.close()
    beats.append(time.monotonic())
    return max(after - before for before, after in pairwise(beats))


def _seconds_of_loop(*words: str, messages: int, at_once: int) -> float:
    numbers = ("--messages", str(messages), "--at-once", str(at_once))
    done = subprocess.run(
        [sys.executable, "-m", "bench.delivery_floor", *words, *numbers],
        env={**os.environ, **_environment(at_once)},
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return float(done.stdout)


def _environment(at_once: int) -> Mapping[str, str]:
    return {
        **_keys(),
        "TICKWORK_DELIVERY_CONCURRENCY": str(at_once),
        "TICKWORK_DELIVERY_TENANT_CONCURRENCY": str(at_once),
        "TICKWORK_HOST_CONCURRENCY": "10000",
        "TICKWORK_HOST_RATE_PER_SECOND": "1000000",
    }


def _keys() -> Mapping[str, str]:
    """What every app needs that delivers to this machine; its limits are the default ones."""
    return {
        "TICKWORK_ALLOW_TARGETS": "127.0.0.0/8",
        "TICKWORK_SECRET_KEY": SECRET_KEY,
        "TICKWORK_LOG_LEVEL": "error",
    }


@contextmanager
def _server(*words: str) -> Iterator[tuple[int, Callable[[], bytes]]]:
    """The port of a server, and what it says next."""
    command = [sys.executable, "-m", "bench.delivery_server", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline()), process.stdout.readline
        finally:
            process.kill()
