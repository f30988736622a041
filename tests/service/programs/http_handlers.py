"""An app whose HTTP handlers do what their path says, in processes and threads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.service.programs.handlers import allocate, burn, crash, hang
from tickwork import HttpRequest, HttpResponse, NotFound, Tickwork

CPU_SECONDS = 0.2
TIMEOUT_SECONDS = 30.0

app = Tickwork()
jobs = app.queue("jobs")
heard = app.queue("heard")


class Turns:
    """How often the handler in a thread has gone round."""

    count = 0


def missing() -> None:
    raise NotFound("brand", "acme")


def fail() -> None:
    raise ValueError("a secret of the house")


ENDS: dict[str, Callable[[], object]] = {
    "burn": burn,
    "allocate": allocate,
    "crash": crash,
    "exit": sys.exit,
    "missing": missing,
    "fail": fail,
    "unencodable": object,
    "header": lambda: HttpResponse(headers={"x": 1}),  # type: ignore[dict-item]
    "pid": os.getpid,
}


@app.http(
    "GET",
    "/process/{end}",
    key=None,
    timeout_seconds=TIMEOUT_SECONDS,
    isolation="process",
    cpu_seconds=CPU_SECONDS,
    memory_bytes=128 * 1024 * 1024,
)
def end(request: HttpRequest) -> object:
    return ENDS[request.params["end"]]()


@app.http("GET", "/hang", key=None, timeout_seconds=3, isolation="process")
def hang_with_a_pid(request: HttpRequest) -> None:
    Path(request.query["told"]).write_text(str(os.getpid()))
    hang()


@app.http("POST", "/jobs/{count}", key=None, isolation="process")
async def send_jobs(request: HttpRequest) -> object:
    count = int(request.params["count"])
    for number in range(count):
        await jobs.send(number)
    await app.batch(jobs, ["a", "b"], correlation_id="its own")
    await app.events.publish("jobs.sent", {"count": count})
    if request.query.get("fails"):
        raise ValueError("after the sends")
    return HttpResponse(status=202, body=msgspec.json.encode([count, request.correlation_id]))


@app.http("GET", "/thread", key=None, timeout_seconds=0.3)
def go_round(_: HttpRequest) -> None:
    while True:
        Turns.count += 1
