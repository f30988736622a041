"""Area `delivery`: webhooks through a whole worker, to a server in another process.

A worker claims, signs, sends and settles. Its throughput stands beside a bare loop of the same HTTP
client that posts the same signed bodies, as many at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

import msgspec

from bench.beds import Bed, postgres_bed, postgres_server, sqlite_bed
from bench.delivery_process import PAYLOAD, Seen
from bench.harness import Result, bench, judge, ratio_at_least, ratio_at_most, sized, value_under
from bench.peers import seconds_of, was_tried
from tickwork.channel.secrets import new_key
from tickwork.core.delivery.target import DELIVERIES_QUEUE, Envelope, WebhookTarget
from tickwork.core.model import DEFAULT, NewMessage
from tickwork.facade.app import Tickwork
from tickwork.ops.schedules.outside import ensure_deliveries
from tickwork.store.ids import new_id

DELIVERIES = 10_000
DELIVERIES_QUICK = 1_000
AT_ONCE = 100
ROUNDS = 3
"""Worker and loop take turns so often; the turn with the middle ratio counts."""

IN_FLIGHT = {1_000: 200, 10_000: 600}
"""MiB that a worker may have with so many requests that wait for their answers."""

IN_FLIGHT_QUICK = {100: 200}
PER_HOST = 10
"""Requests to one host; there are as many hosts as that takes."""

HOSTS, HOSTS_QUICK = 1_000, 100
PEER_DELIVERIES = 2_000
PEER_SETTINGS = (20, 50, 100)
"""Jobs at a time of the peer: all are tried, and the best counts."""

HEARTBEAT_GAP_SECONDS_MAX = 7.5
"""A node beats every 5 seconds. More than this is late."""

SECONDS_MAX = 600.0
SECRET_KEY = new_key()

MakeBed = Callable[[], AbstractContextManager[Bed]]


@bench("delivery")
def throughput() -> Iterator[Result]:
    """10,000 webhooks of schedules to one fast server, 100 at once."""
    yield from _throughput("", lambda bed, url, count: _fill(bed, [url] * count))


@bench("delivery")
def to_endpoint() -> Iterator[Result]:
    """10,000 events to an endpoint on that server: its health is asked, each attempt recorded."""
    yield from _throughput("endpoint_", _publish, "--endpoint")


def _throughput(row: str, fill: Callable[[Bed, str, int], None], *words: str) -> Iterator[Result]:
    count = sized(DELIVERIES, quick=DELIVERIES_QUICK)
    for name, make_bed in _beds():
        turns: list[tuple[Seen, Seen]] = []
        for _ in range(ROUNDS):
            with _server() as (port, _said):
                url = f"http://127.0.0.1:{port}/"
                beside = _run("bare", "--to", url, messages=count, at_once=AT_ONCE)
                with make_bed() as bed:
                    fill(bed, url, count)
                    turns.append((_worker(bed, count, AT_ONCE, *words), beside))
        ours, beside = sorted(turns, key=lambda turn: turn[0].seconds / turn[1].seconds)[
            ROUNDS // 2
        ]
        yield judge(
            f"delivery.{name}.{row}per_second",
            count / ours.seconds,
            "webhooks/s",
            reference=count / beside.seconds,
            goal=None if row else ratio_at_least(0.5),
        )
        yield judge(
            f"delivery.{name}.{row}cpu",
            ours.cpu_seconds / count * 1e6,
            "us/webhook",
            reference=beside.cpu_seconds / count * 1e6,
        )


@bench("delivery")
def in_flight() -> Iterator[Result]:
    """Many slow hosts: none answers until all requests are there, and then for ten seconds."""
    for name, make_bed in _beds():
        for count, mebibytes in (IN_FLIGHT_QUICK if sized(0, quick=1) else IN_FLIGHT).items():
            with _server("--hold", str(count)) as (port, said), make_bed() as bed:
                _fill(bed, [f"http://{_host(at // PER_HOST)}:{port}/" for at in range(count)])
                seen = _worker(bed, count, count)
                assert json.loads(said())["in_flight_max"] == count
            yield judge(
                f"delivery.{name}.memory_{count}",
                seen.rss_bytes_max / 2**20,
                "MiB",
                reference=mebibytes,
                goal=ratio_at_most(1.0),
            )
            yield judge(
                f"delivery.{name}.heartbeat_gap_{count}",
                seen.heartbeat_gap_seconds,
                "s",
                goal=value_under(HEARTBEAT_GAP_SECONDS_MAX),
            )


@bench("delivery")
def one_hangs() -> Iterator[Result]:
    """1,000 hosts, of which one never answers: the rate of the others beside that without it."""
    hosts = sized(HOSTS, quick=HOSTS_QUICK)
    for name, make_bed in _beds():
        turns: list[tuple[float, float]] = []
        others = (hosts - 1) * PER_HOST
        for _ in range(ROUNDS):
            both = tuple(
                _seconds_of_others(make_bed, hosts, others, hanging)
                for hanging in (("--hang", _host(0)), ())
            )
            turns.append((both[0], both[1]))
        with_it, without = sorted(turns, key=lambda turn: turn[0] / turn[1])[ROUNDS // 2]
        yield judge(
            f"delivery.{name}.one_hangs",
            others / with_it,
            "webhooks/s",
            reference=others / without,
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
            _fill(bed, [url] * count)
            ours = _worker(bed, count, AT_ONCE)
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
        count / ours.seconds,
        "webhooks/s",
        reference=count / min(theirs),
    )


def _seconds_of_others(
    make_bed: MakeBed, hosts: int, others: int, hanging: tuple[str, ...]
) -> float:
    """Seconds until so many deliveries are done; those to the host that hangs are not."""
    with _server(*hanging) as (port, _said), make_bed() as bed:
        urls = [f"http://{_host(at)}:{port}/" for _ in range(PER_HOST) for at in range(hosts)]
        _fill(bed, urls)
        return _worker(bed, others, hosts).seconds


def _beds() -> Iterator[tuple[str, MakeBed]]:
    yield "sqlite", sqlite_bed
    with postgres_server() as server:
        yield "postgres", lambda: postgres_bed(server)


def _host(number: int) -> str:
    return f"127.0.{number // 250}.{number % 250 + 1}"


def _fill(bed: Bed, urls: list[str]) -> None:
    """One delivery to each URL."""
    bed.run(ensure_deliveries(bed.store))
    messages = (
        NewMessage(id=new_id(), body=msgspec.json.encode(Envelope(WebhookTarget(url), PAYLOAD)))
        for url in urls
    )
    bed.run(bed.store.messages.send_bulk(DEFAULT, DELIVERIES_QUEUE, messages))


def _publish(bed: Bed, url: str, count: int) -> None:
    """So many events for an endpoint."""

    async def publish() -> None:
        app = Tickwork(bed.url)
        await app.endpoints.create("receiver", url=url, types=["order.*"])
        for _ in range(0, count, AT_ONCE):
            together = (app.events.publish("order.paid", PAYLOAD) for _ in range(AT_ONCE))
            await asyncio.gather(*together)
        await app.close()

    with patch.dict(os.environ, _environment(AT_ONCE)):
        asyncio.run(publish())


def _worker(bed: Bed, messages: int, at_once: int, *words: str) -> Seen:
    return _run("worker", bed.url, *words, messages=messages, at_once=at_once)


def _run(work: str, *words: str, messages: int, at_once: int) -> Seen:
    command = ("-m", "bench.delivery_process", work, *words)
    numbers = ("--messages", str(messages), "--at-once", str(at_once))
    done = subprocess.run(
        [sys.executable, *command, *numbers],
        env={**os.environ, **_environment(at_once)},
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2_000:]
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Seen)


def _environment(at_once: int) -> Mapping[str, str]:
    return {
        "TICKWORK_ALLOW_TARGETS": "127.0.0.0/8",
        "TICKWORK_DELIVERY_CONCURRENCY": str(at_once),
        "TICKWORK_DELIVERY_TENANT_CONCURRENCY": str(at_once),
        "TICKWORK_HOST_CONCURRENCY": "10000",
        "TICKWORK_HOST_RATE_PER_SECOND": "1000000",
        "TICKWORK_SECRET_KEY": SECRET_KEY,
        "TICKWORK_LOG_LEVEL": "warning",
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
