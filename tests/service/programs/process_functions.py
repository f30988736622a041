"""An app whose scheduled functions run in processes: one sends its slot, one computes forever."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from tickwork.app.firing import Firing
from tickwork.facade.app import Tickwork


@dataclass
class Report:
    title: str


app = Tickwork(os.environ.get("PROCESS_FUNCTIONS_DATABASE"), name="functions")
app.queue("out")
app.queue("heard")


@app.schedule(
    cron_expr="@daily",
    isolation="process",
    payload={"title": "sales"},
    retry={"max_attempts": 1},
)
async def report(firing: Firing[Report]) -> None:
    assert isinstance(firing.payload, Report)
    pid = os.getpid()
    firing.send("out", [firing.schedule, firing.payload.title, firing.attempt, pid])
    published = await app.events.publish("report.made", {"title": firing.payload.title})
    assert published.queues is None


@app.schedule(cron_expr="@daily", isolation="process", cpu_seconds=0.5, retry={"max_attempts": 1})
async def burn(_: Firing[Any]) -> None:
    await app.events.publish("report.burnt", {})
    while True:
        pass
