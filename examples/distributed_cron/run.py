"""`python -m examples.distributed_cron.run`: the whole of it, and what the checkers say."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import asyncpg

from examples.distributed_cron import schedules
from examples.distributed_cron.app import QUEUE
from examples.distributed_cron.faults import FROZEN, KILLED, all_led, campaign
from examples.distributed_cron.fleet import Fleet
from examples.distributed_cron.lateness import lateness, table
from examples.distributed_cron.server import NoDatabase, database
from tickwork import wiring
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.core.schedule.model import SHARDS
from tickwork.store.contract import Store
from tickwork.testing.checkers import find_violations
from tickwork.testing.recording import read_history, read_plans, record

DRAIN_SECONDS_MAX = 600.0
POLL_SECONDS = 0.25
MADE_PER_SECOND = 5_000
IS_LEFT = "SELECT EXISTS (SELECT FROM tickwork_messages WHERE slot <= $1)"


def main() -> int:
    """Exit status: 0 if nothing is wrong, 1 if something is, 2 if there is no database."""
    parser = argparse.ArgumentParser(prog="python -m examples.distributed_cron.run")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--every-seconds", type=int, default=180)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--freezes", type=int, default=2)
    parser.add_argument("--lease-seconds", type=float, default=15.0)
    parser.add_argument("--ahead-seconds", type=float, default=30.0)
    given = parser.parse_args()
    try:
        with database() as url, tempfile.TemporaryDirectory() as folder:
            return asyncio.run(run(url, Path(folder), given))
    except NoDatabase as error:
        print(error, file=sys.stderr)
        return 2


async def run(url: str, folder: Path, given: argparse.Namespace) -> int:
    """Makes the schedules, lets the fleet work and suffer, and judges."""
    settings = wiring.Settings(database=url)
    await wiring.migrate(settings)
    store = await wiring.open_store(settings)
    fleet = Fleet(url, folder, lease_seconds=given.lease_seconds, ahead_seconds=given.ahead_seconds)
    try:
        await store.queues.put(DEFAULT, QUEUE, QueueSettings())
        await record(url)
        for _ in range(given.nodes):
            fleet.start()
        await all_led(store, given.nodes)
        _tell(f"{given.nodes} nodes lead {SHARDS} shards")
        # They are all there before a leader has to look at the first one.
        making = timedelta(seconds=given.schedules / MADE_PER_SECOND)
        first = await store.now() + making + timedelta(seconds=given.ahead_seconds)
        made = await schedules.make(store, given.schedules, given.every_seconds, first)
        _tell(f"{made:,} schedules, each every {given.every_seconds} seconds")
        await asyncio.sleep(max((first - await store.now()).total_seconds(), 0.0))
        _tell("the first slots are due")
        kinds = _mixed(given.kills, given.freezes)
        faults = await campaign(store, fleet, kinds, _tell)
        until = await store.now()
        await _drained(store, url, until)
        _tell("everything that was due has ended")
        watched = await schedules.watched(store, until)
        history = await read_history(store, url, watched, read_plans(fleet.plans))
    finally:
        fleet.close()
        await store.close()
    print(table(lateness(history.firings, faults)))
    found = find_violations(history)
    print(
        f"{sum(len(each.slots) for each in watched):,} slots were due, {len(history.stored):,} "
        f"messages, {len(history.handed_over):,} hand-overs of shards"
    )
    print(
        "\n".join(["the checkers found:", *found]) if found else "the checkers found nothing wrong"
    )
    return 1 if found else 0


def _mixed(kills: int, freezes: int) -> list[str]:
    """Kills and freezes by turns."""
    kinds: list[str] = []
    while len(kinds) < kills + freezes:
        if kinds.count(KILLED) < kills:
            kinds.append(KILLED)
        if kinds.count(FROZEN) < freezes:
            kinds.append(FROZEN)
    return kinds


async def _drained(store: Store, url: str, until: datetime) -> None:
    """Waits until all that was due is planned and has ended, whoever has it in hand."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(DRAIN_SECONDS_MAX):
            while True:
                coming = await store.schedules.next_look_at(SYSTEM, range(SHARDS))
                is_planned = coming is None or coming > until
                if is_planned and not await connection.fetchval(IS_LEFT, until):
                    return
                await asyncio.sleep(POLL_SECONDS)
    finally:
        await connection.close()


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
