"""The watchdog names the handler that blocks the event loop."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from tests.kit.waiting import eventually, eventually_blocking
from tests.service.test_log_events import Kept, kept
from tests.service.workplace import Workplace
from tickwork.app.message import Message
from tickwork.clock import monotonic
from tickwork.service.observe import watchdog as watchdogs
from tickwork.service.observe.log_events import EventLog, LogEvent
from tickwork.service.observe.watchdog import Watchdog

__all__ = ["kept"]

LATE_SECONDS = 90.0
STILL = "event loop blocked"


def stills(kept: Kept) -> list[dict[str, Any]]:
    """The fields of the watchdog's lines."""
    found = [record.msg for record in kept.records if isinstance(record.msg, LogEvent)]
    return [dict(line.fields) for line in found if line.event == STILL]


async def test_a_handler_that_computes_is_named_with_its_message(
    tmp_path: Path, kept: Kept
) -> None:
    work, registry = Workplace(tmp_path), CollectorRegistry()
    beside, patient = asyncio.Event(), asyncio.Event()

    async def handle(message: Message[Any]) -> None:
        if message.body == "patient":
            beside.set()
            await patient.wait()
        if message.body == "busy":
            await beside.wait()
            burn_until(lambda: bool(stills(kept)))

    work.handle(handle, max_concurrency=2)
    patient_id, busy_id = await work.send("patient", "busy")
    async with work.app.running(registry=registry):
        await eventually(lambda: stills(kept), timeout_seconds=LATE_SECONDS)
        (told,) = stills(kept)
        patient.set()
        blocked = registry.get_sample_value("tickwork_loop_blocked_total")
        seconds = registry.get_sample_value("tickwork_loop_blocked_seconds_total")
    assert (blocked, told["blocking"]) == (1, f"msg_{busy_id.hex}")
    assert seconds is not None
    assert seconds >= told["seconds"] >= 1.0
    assert (told["under_way"], told["others"]) == (2, [f"msg_{patient_id.hex}"])
    assert "burn_until" in told["exception"]
    assert "in handle" in told["exception"]
    assert len(stills(kept)) == 1


def burn_until(condition: Any) -> None:
    """Computes, and lets nobody else have the loop, until something is so."""
    began = monotonic()
    while not condition() and monotonic() - began < LATE_SECONDS:
        pass


async def test_a_loop_that_stands_still_while_nothing_is_handled_is_nobodys_fault(
    kept: Kept,
) -> None:
    looked = list[float]()

    def nothing() -> dict[Any, Any]:
        looked.append(monotonic())
        return {}

    with Watchdog(nothing, EventLog(), limit_seconds=0.05) as watchdog:
        eventually_blocking(lambda: looked, what="a look")
        assert watchdog.times_blocked == 0
    assert stills(kept) == []


async def test_each_time_is_told_once_and_all_of_it_is_counted(kept: Kept) -> None:
    under_way: Any = {asyncio.current_task(): Invocations()}
    with Watchdog(lambda: under_way, EventLog(), limit_seconds=0.05) as watchdog:
        await block_once(watchdog)
        await block_once(watchdog)
    assert len(stills(kept)) == 2
    assert watchdog.blocked_seconds() >= sum(still["seconds"] for still in stills(kept))


async def block_once(watchdog: Watchdog) -> None:
    """Keeps the loop until the watchdog has seen it and counts, then lets it turn."""
    times = watchdog.times_blocked
    eventually_blocking(lambda: watchdog.times_blocked == times + 1)
    during = watchdog.blocked_seconds()
    eventually_blocking(lambda: watchdog.blocked_seconds() > during)
    await eventually(lambda: watchdog._blocked_since is None)


class Invocations:
    """An invocation without messages."""

    messages: tuple[Any, ...] = ()


async def test_a_process_that_was_stopped_as_a_whole_is_not_blamed(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look takes ten seconds by the clock, and at first no processor time."""
    moments, looks, share = count(step=10), list[float](), [0.0]

    def used() -> float:
        looks.append(looks[-1] + 10 * share[0] if looks else 0.0)
        return looks[-1]

    monkeypatch.setattr(watchdogs, "monotonic", lambda: float(next(moments)))
    monkeypatch.setattr(watchdogs, "cpu_seconds", used)
    under_way: Any = {asyncio.current_task(): Invocations()}
    with Watchdog(lambda: under_way, EventLog(), limit_seconds=0.02) as watchdog:
        eventually_blocking(lambda: len(looks) > 10, what="five looks")
        assert watchdog.times_blocked == 0
        share[0] = 0.5  # Somebody computes, and lets no other thread have a turn.
        eventually_blocking(lambda: watchdog.times_blocked == 1)
    assert len(stills(kept)) == 1
