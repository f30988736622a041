"""Group commit: every call gets its answer, at whatever moment it arrives."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.kit.waiting import eventually
from tickwork.errors import InvalidInput, StoreUnavailable
from tickwork.store.shared.group_commit import Coalescer

BOUND_SECONDS = 10.0
TURNS = 8
"""Turns of the loop after which a released commit has finished."""


class Database:
    """Commits a group when it is released; refuses a group with a bad call in it."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def commit(self, group: Sequence[str]) -> Sequence[str]:
        self.groups.append([*group])
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        if "bad" in group:
            raise InvalidInput([])
        return [item.upper() for item in group]


async def submit(coalescer: Coalescer[str, str], item: str) -> str:
    return await coalescer.submit(item)


@pytest.mark.parametrize("turns", range(TURNS))
async def test_a_call_that_arrives_as_the_last_commit_ends_is_answered(turns: int) -> None:
    database = Database()
    coalescer = Coalescer(database.commit)

    async def submit_late() -> str:
        await database.gate.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        return await coalescer.submit("late")

    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        first = group.create_task(submit(coalescer, "early"))
        second = group.create_task(submit_late())
        await eventually(lambda: database.groups)
        database.gate.set()
    assert (first.result(), second.result()) == ("EARLY", "LATE")


async def test_calls_during_a_commit_share_the_next_one() -> None:
    database = Database()
    coalescer = Coalescer(database.commit)
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(submit(coalescer, "a"))
        await eventually(lambda: database.groups)
        for item in "bcd":
            group.create_task(submit(coalescer, item))
        await asyncio.sleep(0)
        database.gate.set()
    assert database.groups == [["a"], ["b", "c", "d"]]


async def test_a_call_that_nobody_waits_for_any_more_is_carried_out() -> None:
    database = Database()
    coalescer = Coalescer(database.commit)
    async with asyncio.timeout(BOUND_SECONDS):
        calls = [asyncio.create_task(submit(coalescer, item)) for item in "abc"]
        await eventually(lambda: database.groups)
        calls += [asyncio.create_task(submit(coalescer, item)) for item in "def"]
        await asyncio.sleep(0)
        for call in (calls[1], calls[4]):
            call.cancel()
        database.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await coalescer.drain()
    assert database.groups == [["a", "b", "c"], ["d", "e", "f"]]
    assert [answer for answer in answers if isinstance(answer, str)] == ["A", "C", "D", "F"]


async def test_a_bad_call_does_not_fail_others_in_its_group() -> None:
    database = Database()
    coalescer = Coalescer(database.commit)
    database.gate.set()
    answers = await asyncio.gather(
        *(coalescer.submit(item) for item in ("a", "b", "bad", "c")), return_exceptions=True
    )
    assert [answer for answer in answers if isinstance(answer, str)] == ["A", "B", "C"]
    assert isinstance(answers[2], InvalidInput)


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ZeroDivisionError("a bug")])
async def test_an_unexpected_error_fails_the_group_and_later_calls_work(error: Exception) -> None:
    database = Database()
    coalescer = Coalescer(database.commit)
    database.gate.set()
    database.error = error
    failed = await asyncio.gather(*map(coalescer.submit, "abc"), return_exceptions=True)
    assert failed == [error] * 3
    database.error = None
    async with asyncio.timeout(BOUND_SECONDS):
        assert await coalescer.submit("d") == "D"
        await coalescer.drain()
