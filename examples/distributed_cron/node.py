"""One node: what `TICKWORK_ROLES=scheduler,worker tickwork run examples.distributed_cron.app:app`
is, with a log of what it plans under which token, for the checkers.

    python -m examples.distributed_cron.node PLANS LEASE_SECONDS AHEAD_SECONDS
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

from tickwork.core.schedule.plan import plan
from tickwork.service import node
from tickwork.service.process_lifecycle import run_until_stopped
from tickwork.service.scheduler import scheduler
from tickwork.testing.recording import PlanLog

DRAIN_SECONDS = 2.0


def shorten(lease_seconds: float, ahead_seconds: float) -> None:
    """A lease and a horizon of this length; for tests, which do not wait for the usual ones."""
    node.Node = partial(node.Node, ttl_seconds=lease_seconds)  # type: ignore[assignment, misc]
    planning = partial(plan, ahead_seconds=ahead_seconds)
    setattr(scheduler, "plan", planning)  # noqa: B010  it is not theirs to export


def main(plans: str, lease_seconds: str, ahead_seconds: str) -> None:
    """Runs until it is told to stop, or killed."""
    shorten(float(lease_seconds), float(ahead_seconds))
    from examples.distributed_cron.app import app

    @asynccontextmanager
    async def working() -> AsyncIterator[None]:
        store = cast("Any", await app._engine.open())  # noqa: SLF001
        store.schedules = PlanLog(store.schedules, Path(plans))
        async with app.running(drain_seconds=DRAIN_SECONDS):
            yield

    run_until_stopped(working)


if __name__ == "__main__":
    main(*sys.argv[1:])
