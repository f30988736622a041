"""Distributed cron, small: leaders are killed and frozen, and the checkers find nothing wrong."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from examples.distributed_cron.faults import FROZEN, KILLED, Fault
from examples.distributed_cron.lateness import NO_FAULT, measure_lateness
from tests.kit.databases import PostgresHost
from tickwork.core.schedule.firing import FiringRecord, FiringStatus

ROOT = Path(__file__).parents[2]
RUN_SECONDS_MAX = 180.0
START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def run(database: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.distributed_cron.run", *words],
        cwd=ROOT,
        env=os.environ | {"TICKWORK_DATABASE": database},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )


async def run_example(postgres: PostgresHost, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the example on its own database, with short leases."""
    url = await postgres.create_database()
    try:
        return await asyncio.to_thread(run, url, *words)
    finally:
        await postgres.drop_database(url)


def judge(done: subprocess.CompletedProcess[str], faults: int) -> None:
    """Check that nothing is wrong, slots ran, and all faults were injected."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the checkers found nothing wrong" in done.stdout
    ran = re.search(r"^([\d,]+) slots ran", done.stdout, re.MULTILINE)
    due = re.search(r"^([\d,]+) slots were due", done.stdout, re.MULTILINE)
    assert ran is not None
    assert due is not None
    # Slots that came due while the history was read ran too; none is missing.
    assert int(ran[1].replace(",", "")) >= int(due[1].replace(",", "")) > 0
    assert done.stdout.count("other nodes lead its shards") == faults


async def test_a_killed_leader_loses_no_slot(postgres_server: PostgresHost) -> None:
    words = "--nodes 2 --schedules 40 --every-seconds 2 --kills 1 --freezes 0"
    short = "--lease-seconds 1 --ahead-seconds 1"
    judge(await run_example(postgres_server, *words.split(), *short.split()), faults=1)


@pytest.mark.soak
async def test_killed_and_frozen_leaders_lose_no_slot(postgres_server: PostgresHost) -> None:
    words = "--nodes 3 --schedules 300 --every-seconds 2 --kills 2 --freezes 1"
    short = "--lease-seconds 1.5 --ahead-seconds 1"
    judge(await run_example(postgres_server, *words.split(), *short.split()), faults=3)


def test_sqlite_is_refused_with_a_hint() -> None:
    done = run("sqlite:///cron.db")
    assert done.returncode == 2
    assert "TICKWORK_DATABASE must be postgresql://" in done.stderr


def test_a_late_slot_is_attributed_to_the_fault_it_waited_for() -> None:
    faults = [Fault(KILLED, at(10), at(20)), Fault(FROZEN, at(30), at(40))]
    found = measure_lateness([ran(5, 5.1), ran(8, 11), ran(12, 32), ran(50, 51)], faults)
    assert found.slots == 4
    assert found.late == Counter({KILLED: 1, f"{FROZEN} and {KILLED}": 1, NO_FAULT: 1})
    assert found.seconds["max"] == 20


def test_lateness_is_measured_by_the_first_attempt() -> None:
    assert measure_lateness([ran(5, 9), ran(5, 6)], []).seconds["max"] == 1


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def ran(due: float, started: float) -> FiringRecord:
    return FiringRecord(
        id=UUID(int=1),
        tenant="default",
        schedule_id=UUID(int=2),
        slot=at(due),
        run=0,
        attempt=1,
        status=FiringStatus.SUCCEEDED,
        reason=None,
        due_at=at(due),
        started_at=at(started),
        finished_at=at(started),
        result_code=None,
        excerpt=None,
        channels=(),
        catch_up=False,
        count=1,
        last_slot=None,
    )
