"""Waiting ends with the condition, or at its bound with a message."""

import asyncio

import pytest

from tests.kit.waiting import (
    POLL_SECONDS,
    POLL_SECONDS_MAX,
    POLL_SHARE,
    eventually,
    eventually_blocking,
    pause_seconds,
)


async def test_the_first_truthy_value_is_returned() -> None:
    values = iter([0, None, "now"])
    assert await eventually(lambda: next(values)) == "now"


async def test_an_async_condition_is_awaited() -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, done.set)

    async def condition() -> bool:
        return done.is_set()

    assert await eventually(condition) is True


async def test_the_bound_says_what_was_awaited() -> None:
    with pytest.raises(TimeoutError, match=r"after 0.02 s for: the moon"):
        await eventually(lambda: False, timeout_seconds=0.02, what="the moon")


async def test_an_async_condition_that_hangs_is_bounded() -> None:
    with pytest.raises(TimeoutError, match="wait"):
        await eventually(asyncio.Event().wait, timeout_seconds=0.02)


async def test_an_error_of_the_condition_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 // 0)


def test_waiting_works_without_an_event_loop() -> None:
    values = iter([0, 7])
    assert eventually_blocking(lambda: next(values)) == 7
    with pytest.raises(TimeoutError, match="the moon"):
        eventually_blocking(lambda: 0, timeout_seconds=0.01, what="the moon")


def test_the_longer_a_wait_takes_the_less_often_it_looks() -> None:
    assert pause_seconds(0.0) == pause_seconds(0.05) == POLL_SECONDS
    assert pause_seconds(0.5) == 0.5 * POLL_SHARE
    assert pause_seconds(1.0) == pause_seconds(60.0) == POLL_SECONDS_MAX
