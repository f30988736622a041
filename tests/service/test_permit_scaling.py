"""A queue gets more permits while all are in use and more messages wait."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.service.workplace import Workplace
from tickwork.service.worker.prefetch import FIRST_THROUGHPUT_SECONDS, THROUGHPUT_SECONDS

MESSAGES = 1_000
ENOUGH = 32


@pytest.mark.parametrize("seconds", [FIRST_THROUGHPUT_SECONDS / 2, THROUGHPUT_SECONDS * 1.5])
async def test_a_backlog_gets_more_and_more_permits(tmp_path: Path, seconds: float) -> None:
    place, running, most = Workplace(tmp_path), 0, 0

    async def handle(_: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(seconds)
        running -= 1

    place.handle(handle)
    queue = place.app.queue("work")
    for _ in range(MESSAGES // 100):
        await queue.send_batch([0] * 100)
    async with place.app.running(drain_seconds=60):
        await eventually(lambda: most >= ENOUGH, what="so many at a time")
