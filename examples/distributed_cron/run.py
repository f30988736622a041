"""`python -m examples.distributed_cron.run` runs the example and prints what the checkers found."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import asyncpg

from examples.distributed_cron.app import QUEUE
from examples.distributed_cron.cluster import Cluster
from examples.distributed_cron.faults import FROZEN, KILLED, SHARDS, inject_faults
from examples.distributed_cron.fleet import Fleet
from examples.distributed_cron.lateness import format_table, measure_lateness
from examples.distributed_cron.schedules import create_schedules
from examples.distributed_cron.server import NoDatabase, database
from tickwork import Tickwork
from tickwork.testing.checkers import find_violations
from tickwork.testing.recorded_cluster import read_database_history
from tickwork.testing.recorder import record

CREATED_PER_SECOND = 5_000
"""Schedules created per second, at least; the first slots are due after all of them exist."""


def main() -> int:
    """Exit status: 0 if the checkers found nothing, 1 if they did, 2 without a database."""
    parser = argparse.ArgumentParser(prog="python -m examples.distributed_cron.run")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--every-seconds", type=int, default=180)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--freezes", type=int, default=2)
    parser.add_argument("--lease-seconds", type=float, default=15.0)
    parser.add_argument("--ahead-seconds", type=float, default=30.0)
    arguments = parser.parse_args()
    try:
        with database() as url, tempfile.TemporaryDirectory() as folder:
            migrate(url)
            return asyncio.run(run(url, Path(folder), arguments))
    except NoDatabase as error:
        print(error, file=sys.stderr)
        return 2


def migrate(url: str) -> None:
    """Create Tickwork's tables."""
    command = [sys.executable, "-m", "tickwork", "migrate", "--database", url]
    subprocess.run(command, check=True)


async def run(url: str, folder: Path, arguments: argparse.Namespace) -> int:
    """Create the schedules, run the nodes, inject faults and check the history."""
    app = Tickwork(url, min_interval_seconds=1)
    app.queue(QUEUE)
    connection = await asyncpg.connect(url)
    cluster = Cluster(app, connection)
    fleet = Fleet(
        url, folder, lease_seconds=arguments.lease_seconds, ahead_seconds=arguments.ahead_seconds
    )
    try:
        await record(url)
        for _ in range(arguments.nodes):
            fleet.start()
        await cluster.wait_for_leaders(arguments.nodes, SHARDS)
        _report(f"{arguments.nodes} nodes lead {SHARDS} shards")
        creation = timedelta(seconds=arguments.schedules / CREATED_PER_SECOND)
        first = await cluster.now() + creation + timedelta(seconds=arguments.ahead_seconds)
        count = await create_schedules(app, arguments.schedules, arguments.every_seconds, first)
        _report(f"{count:,} schedules, each every {arguments.every_seconds} seconds")
        await asyncio.sleep(max((first - await cluster.now()).total_seconds(), 0.0))
        _report("the first slots are due")
        kinds = _alternate(arguments.kills, arguments.freezes)
        faults = await inject_faults(cluster, fleet, kinds, _report)
        until = await cluster.now()
        await cluster.wait_for_slots(until)
        _report("every due slot is finished")
        history = await read_database_history(url, until=until, plan_files=fleet.plan_files)
    finally:
        fleet.close()
        await connection.close()
        await app.close()
    print(format_table(measure_lateness(history.firings, faults)))
    violations = find_violations(history)
    due = sum(len(schedule.slots) for schedule in history.schedules)
    print(
        f"{due:,} slots were due, {len(history.stored):,} messages, "
        f"{len(history.handed_over):,} handovers of shards"
    )
    print("\n".join(["the checkers found:", *violations] if violations else [NOTHING_WRONG]))
    return 1 if violations else 0


NOTHING_WRONG = "the checkers found nothing wrong"


def _alternate(kills: int, freezes: int) -> list[str]:
    """Return the kinds of faults, kills and freezes in turns."""
    kinds: list[str] = []
    while len(kinds) < kills + freezes:
        if kinds.count(KILLED) < kills:
            kinds.append(KILLED)
        if kinds.count(FROZEN) < freezes:
            kinds.append(FROZEN)
    return kinds


def _report(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
