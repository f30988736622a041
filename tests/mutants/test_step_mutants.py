"""With a safeguard of a workflow's steps off, the checker of runs reports a violation; with all of
them on, it reports none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from tests.faults import run_history
from tests.mutants.mutations import Patch, saying
from tests.stores.home import KINDS, Kind
from tests.stores.open_homes import Homes
from tickwork import Step
from tickwork.core.model import DEFAULT
from tickwork.core.workflow.model import StepState
from tickwork.core.workflow.recall import Recall
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness
from tickwork.workflow import body_calls
from tickwork.workflow.call import StepCall

STEPS = ("one", "two")
RUN = "run"


class Story:
    """A run of two steps. Each notes when it runs, sends, and returns the params of its run."""

    def __init__(self) -> None:
        self.app = Tickwork()
        self.ran: list[run_history.StepName] = []
        self.ran_again: list[run_history.StepName] = []
        self.is_started, self.may_go_on = asyncio.Event(), asyncio.Event()
        self.may_go_on.set()
        out = self.app.queue("out")

        async def work(params: int, name: str) -> int:
            self.ran.append((RUN, name))
            if name in await self.recorded():
                self.ran_again.append((RUN, name))
            self.is_started.set()
            await self.may_go_on.wait()
            await out.send([params, name])
            return params

        @self.app.workflow()
        async def pair(step: Step, params: int) -> list[int]:
            return [await step.do(name, work, params, name) for name in STEPS]

        self.workflow: Any = pair
        self.harness: Harness

    async def recorded(self) -> list[str]:
        """The steps that have a result."""
        found = await self.harness.store.workflows.history(DEFAULT, RUN)
        return [step.key for step in found.steps if step.state is StepState.DONE]

    async def start(self, params: int) -> None:
        start = self.app.workflows.start
        await start(self.workflow, params, id=RUN, on_conflict="restart_if_finished")

    async def history(self, params: int) -> run_history.History:
        """What was found of the run, which must have ended with these params."""
        run, result = self.app.workflows.get(RUN), None
        with suppress(TimeoutError):  # It has not ended.
            result = await run.result(timeout_seconds=0)
        sent = [message.body for message in await self.harness.sent("out")]
        return run_history.History(
            results={} if result is None else {RUN: result},
            ran=self.ran,
            ran_again=self.ran_again,
            sent=[(RUN if own == params else "another run", name) for own, name in sent],
            rows=[RUN],
            runs=[RUN],
            steps=STEPS,
            result=[params] * len(STEPS),
        )


async def crashed(story: Story) -> run_history.History:
    """The worker dies between the record of the first step and the start of the second."""
    await story.start(1)
    story.harness.steps.crash_after(3)
    await story.harness.drain()
    return await story.history(1)


async def restarted(story: Story) -> run_history.History:
    """The run starts again with other params while a worker is in the middle of the first step."""
    story.may_go_on.clear()
    await story.start(1)
    draining = asyncio.create_task(story.harness.drain())
    await story.is_started.wait()
    await story.app.workflows.get(RUN).terminate()
    await story.start(2)
    story.may_go_on.set()
    await draining
    await story.harness.drain()
    return await story.history(2)


STORIES = (crashed, restarted)


def forgetful(monkeypatch: Patch) -> None:
    """A body gets no recorded result: each replay carries its steps out again."""
    call = body_calls.BodyCalls._call
    monkeypatch.setattr(body_calls, "Recall", lambda *_: Recall([]))

    def call_anew(self: Any, *given: Any) -> tuple[StepCall[Any], None]:
        return call(self, *given)[0], None

    monkeypatch.setattr(body_calls.BodyCalls, "_call", call_anew)


class StepMutant(NamedTuple):
    """A safeguard that is off, the story in which it matters, and what the checker says."""

    name: str
    story: Callable[[Story], Any]
    patch: Callable[[Patch], None]
    fault: str


FENCE = "AND (m.claim, m.holder) IS NOT DISTINCT FROM (new.claim, new.holder)"
MUTANTS = (
    StepMutant(
        "the recorded result of a step is ignored",
        crashed,
        forgetful,
        "a step ran again after its result was recorded",
    ),
    StepMutant(
        "the claim is not compared when a step is recorded",
        restarted,
        saying(
            {"record_checkpoints": [(FENCE, "")]},
            {"claimed_run": [("AND m.claim = ?3 AND m.holder = ?4 AND m.state = 'claimed'", "")]},
        ),
        "a run has not ended, or has another result",
    ),
)


async def told(kind: Kind, homes: Homes, story: Callable[[Story], Any]) -> list[str]:
    """The faults that the checker finds after a story."""
    made = Story()
    async with homes.take(kind) as home:
        database = home.url if kind == "postgres" else None
        async with harness(made.app, database=database) as made.harness:
            return run_history.faults_of(await story(made))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_the_checker_of_runs_reports_nothing_with_all_safeguards_on(
    kind: Kind, homes: Homes, story: Callable[[Story], Any]
) -> None:
    assert await told(kind, homes, story) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
async def test_the_checker_of_runs_reports_each_safeguard_that_is_off(
    kind: Kind, homes: Homes, mutant: StepMutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant.patch(monkeypatch)
    assert mutant.fault in await told(kind, homes, mutant.story)


async def paid_after_a_rename(kind: Kind, homes: Homes) -> tuple[list[str], str]:
    """What a run pays whose paid step gets another name while it sleeps; and its status."""
    paid: list[str] = []

    async def charge(name: str) -> None:
        paid.append(name)

    def coded(name: str) -> tuple[Tickwork, Any]:
        app = Tickwork()

        @app.workflow()
        async def order(step: Step) -> None:
            await step.do(name, charge, "order")
            await step.sleep("rest", 60)

        return app, order

    (old, order), (new, _) = coded("charge"), coded("charge the card")
    async with homes.take(kind) as home:
        database = home.url if kind == "postgres" else None
        async with harness(old, database=database) as running:
            run = await old.workflows.start(order)
            await running.drain()
            async with running.deploy(new) as deployed:
                await deployed.advance(minutes=2)
                return paid, (await new.workflows.get(run.id).status()).status


@pytest.mark.parametrize("kind", KINDS)
async def test_a_renamed_step_is_paid_once(kind: Kind, homes: Homes) -> None:
    assert await paid_after_a_rename(kind, homes) == (["order"], "diverged")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_renamed_step_is_paid_twice_if_new_steps_may_start_before_the_record_was_asked_for(
    kind: Kind, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recall, "divergence", lambda _: None)
    paid, _ = await paid_after_a_rename(kind, homes)
    assert paid == ["order", "order"]
