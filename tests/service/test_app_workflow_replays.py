"""Runs that crash at random: parallel steps replay identically, and each event is received once."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any

import pytest

from tests.kit.soak import SOAK
from tickwork import Step
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness

TREES, STORIES = (3_000, 300) if os.environ.get(SOAK) else (20, 10)
"""Number of interleavings, and of stories of events. PostgreSQL, which is slower, has a tenth."""

POSTGRES_DIVISOR = 10

TURNS_MAX = 8
CRASHES_MAX = 3
REST_CHANCE = 0.2


async def take_turns(chance: Random) -> None:
    """Lets others go first, for a random number of turns of the event loop."""
    for _ in range(chance.randrange(TURNS_MAX)):
        await asyncio.sleep(0)


async def crash_now_and_then(h: Harness, chance: Random, boundaries_max: int) -> None:
    for _ in range(chance.randrange(CRASHES_MAX + 1)):
        h.steps.crash_after(chance.randint(1, boundaries_max))
        await h.drain()
    h.steps.boundaries.clear()


def declare_tree(app: Tickwork, chance: Random) -> Any:
    """A workflow of branches, some in a task group, some gathered, each with steps of random
    speed."""

    async def work(name: str) -> str:
        await take_turns(chance)
        return name

    @app.workflow()
    async def tree(step: Step, params: list[list[bool]]) -> list[list[str]]:
        async def grow(branch: int) -> list[str]:
            grown = []
            for number, has_rest in enumerate(params[branch]):
                name = f"{branch}.{number}"
                grown.append(await step.do(name, work, name))
                if has_rest:
                    await step.sleep(f"rest {name}", 1)
                await take_turns(chance)
            return grown

        async with asyncio.TaskGroup() as group:
            left = [group.create_task(grow(branch)) for branch in (0, 1)]
        right = await asyncio.gather(grow(2), grow(3))
        leaves = await step.gather(*(step.do("leaf", work, str(at)) for at in range(3)))
        return [task.result() for task in left] + [*right, leaves]

    return tree


@pytest.mark.randomised
async def test_parallel_steps_replay_identically_in_any_order(
    app: Tickwork, database: str | None
) -> None:
    """Every step has one result, and the run the same as without a crash."""
    chance = Random(f"trees {database is None}")
    tree = declare_tree(app, chance)
    async with harness(app, database=database) as h:
        for number in range(TREES if database is None else TREES // POSTGRES_DIVISOR):
            shape = [
                [chance.random() < REST_CHANCE for _ in range(chance.randint(1, 4))]
                for _ in range(4)
            ]
            run = await app.workflows.start(tree, shape, id=str(number))
            await crash_now_and_then(h, chance, 30)
            await h.advance(seconds=30)
            assert await run.result() == [
                *([f"{at}.{step}" for step in range(len(shape[at]))] for at in range(4)),
                ["0", "1", "2"],
            ]
            status = await run.status()
            assert status.divergence is None
            keys = [step.key for step in status.steps]
            steps, rests = sum(map(len, shape)), sum(map(sum, shape))
            assert len({*keys}) == len(keys) == steps + rests + 3


@pytest.mark.randomised
async def test_an_event_is_received_once_whenever_it_is_sent(
    app: Tickwork, database: str | None
) -> None:
    """Before its wait, during it, in a step beside it, twice, and in runs that crash: the waits get
    the events of their type in order, each once."""
    chance = Random(f"events {database is None}")

    async def send(run: str, number: int) -> None:
        handle = app.workflows.get(run)
        for _ in range(chance.randint(1, 2)):  # A repeat with the same id counts once.
            await handle.send_event("go", number, id=str(number))
        await handle.send_event("nobody waits for this", number, id=f"other {number}")

    @app.workflow()
    async def listener(step: Step, params: list[str]) -> list[int]:
        received: list[int] = []
        for number, when in enumerate(params):
            name = f"wait {number}"
            if when == "in a step before":
                await step.do(f"send {number}", send, step.run_id, number)
            if when == "in a step beside":
                wait = step.wait_for_event(name, type="go")
                await step.do(f"send {number}", send, step.run_id, number)
                received.append(await wait)
            elif when == "in a step together":
                both = await step.gather(
                    step.wait_for_event(name, type="go"),
                    step.do(f"send {number}", send, step.run_id, number),
                )
                received.append(both[0])
            else:
                received.append(await step.wait_for_event(name, type="go", timeout_seconds=3_600))
        return received

    inside = ["in a step before", "in a step beside", "in a step together"]
    async with harness(app, database=database) as h:
        for story in range(STORIES if database is None else STORIES // POSTGRES_DIVISOR):
            outside = chance.randrange(4)
            whens = ["outside"] * outside + chance.choices(inside, k=chance.randrange(3))
            run = await app.workflows.start(listener, whens, id=str(story))
            for number in range(outside):
                if chance.random() < 0.5:
                    await crash_now_and_then(h, chance, 12)
                await send(run.id, number)
            await crash_now_and_then(h, chance, 20)
            await h.advance(seconds=30)
            assert await run.result() == [*range(len(whens))]
            events = (await run.status()).events
            waits = [event.consumed_by for event in events if event.type == "go"]
            assert waits == [f"wait {number}" for number in range(len(whens))]
            assert {event.consumed_by for event in events if event.type != "go"} <= {None}
