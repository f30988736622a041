"""Deadlines of many blocks, with one timer for those that may take equally long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tickwork.channel.webhook import Deadlines

SHORT, LONG = 0.05, 60.0


async def hang(deadlines: Deadlines, seconds: float) -> float:
    """Waits until it is stopped; returns how long that took."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError), deadlines.within(seconds):
        await asyncio.Event().wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    return loop.time() - began


async def test_each_block_ends_at_its_own_time() -> None:
    deadlines = Deadlines()
    for seconds in (SHORT, 2 * SHORT, 0.0, SHORT):
        assert seconds <= await asyncio.wait_for(hang(deadlines, seconds), 5.0) < seconds + 1.0
    first = asyncio.create_task(hang(deadlines, 4 * SHORT))
    await asyncio.wait([first], timeout=2 * SHORT)
    assert await hang(deadlines, 4 * SHORT) >= 4 * SHORT  # Not when the first one ends.
    assert await first < 4 * SHORT + 1.0


async def test_a_block_that_ended_is_not_stopped_later() -> None:
    deadlines = Deadlines()
    with deadlines.within(SHORT):
        await asyncio.sleep(0)
    assert await hang(deadlines, 2 * SHORT) >= 2 * SHORT


async def test_blocks_that_may_take_equally_long_share_a_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, deadlines, timers = asyncio.get_running_loop(), Deadlines(), list[float]()
    call_at = loop.call_at

    def counted(at: float, call: Callable[..., Any], *values: Any, **more: Any) -> Any:
        timers.append(at)
        return call_at(at, call, *values, **more)

    async def block(seconds: float) -> None:
        with deadlines.within(seconds):
            await asyncio.sleep(0)

    monkeypatch.setattr(loop, "call_at", counted)
    for _ in range(10):
        await asyncio.gather(*(block(limit_seconds) for limit_seconds in (LONG, LONG, 2 * LONG)))
    assert len(timers) == 2


async def test_who_cancels_a_block_is_not_told_of_a_timeout() -> None:
    deadlines = Deadlines()

    async def block(seconds: float) -> None:
        with deadlines.within(seconds):
            await asyncio.Event().wait()

    task = asyncio.create_task(block(LONG))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_block_that_both_its_deadline_and_another_cancel_is_cancelled() -> None:
    deadlines = Deadlines()

    async def block() -> None:
        with deadlines.within(SHORT):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                raise

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(block())


async def test_an_error_of_the_block_is_raised_as_it_is() -> None:
    with pytest.raises(ValueError, match="own"), Deadlines().within(LONG):
        raise ValueError("own")
