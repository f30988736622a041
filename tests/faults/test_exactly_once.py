"""An app whose workers are killed at every commit point: each effect in the database happens once.

Real workers of a real app. One dies at each point, then some die at random; others continue while
their claims are given away.
"""

import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from tests.faults import tables
from tests.faults.programs import exactly_once, statements
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Counts

DEATHS_BY_CHANCE, DEATHS_OF_A_SOAK = 1, 60
INPUTS_MIN, INPUTS_MIN_OF_A_SOAK = 60, 5_000
SENT_AT_ONCE, SENT_AT_ONCE_OF_A_SOAK = 1, 2
PASSES_MAX, STATEMENTS_MAX = 4, 40
REFUSED_MIN = 5
WAITING_MAX, CHECK_EVERY = 20, 5
WAIT_SECONDS = 120.0


class Exactness:
    """Inputs, workers that die while processing them, and the results."""

    def __init__(self, home: Home, children: Children, *, at_once: int, seed: int) -> None:
        self._url, self._children, self._at_once = home.url, children, at_once
        self._chance = random.Random(seed)
        sys.stderr.write(f"seed {seed}\n")
        self.inputs: Counter[str] = Counter()
        self._app = exactly_once.build(home.url, self._chance)

    async def run(self, deaths: int, inputs_min: int) -> None:
        await self._app._engine.open()
        await tables.fetch(self._url, tables.EFFECTS)
        try:
            steady = self._start()
            for point in exactly_once.POINTS:
                await self._die(point)
            await self._take_away()
            for _ in range(deaths):
                fallen, steady = steady, self._start()
                await self._die(self._chance.choice(exactly_once.POINTS))
                fallen.kill9()
            await self._send_until(lambda: self.inputs.total() >= inputs_min, "so many inputs")
            await self._until_done()
            steady.kill9()
            await self._judge()
        finally:
            await self._app.close()

    def _start(self, *arms: Arm) -> Child:
        seed = str(self._chance.random())
        return self._children.spawn(exactly_once.PROGRAM, self._url, seed, arms=arms)

    async def _send_until(self, condition: Callable[[], object], what: str) -> None:
        """Sends inputs of different kinds; each names its subject, some of them twice."""

        store = await self._app._engine.open()

        async def is_room() -> object:
            """Workers that get no processor need no more work."""
            counts = [await store.queues.counts(DEFAULT, queue) for queue in exactly_once.INPUTS]
            return sum(count.ready for count in counts) < WAITING_MAX or condition()

        async def sent() -> object:
            if self.inputs.total() % CHECK_EVERY == 0:
                await eventually(is_room)
            for queue in self._chance.choices(exactly_once.INPUTS, k=self._at_once):
                name = f"{queue} {self.inputs[queue]}"
                self.inputs[queue] += 1
                for _ in range(1 + (self._chance.random() < exactly_once.FAILURES)):
                    await self._app.queue(queue).send(name, event_id=name)
            return condition()

        await eventually(sent, timeout_seconds=WAIT_SECONDS, what=what)

    async def _die(self, point: str) -> None:
        """Starts one more worker, which is killed at a point after it has done something."""
        most = STATEMENTS_MAX if point == statements.POINT else PASSES_MAX
        child = self._start(Arm(point, "kill", after=self._chance.randrange(most // 2, most)))
        await self._send_until(lambda: child.returncode is not None, f"a death at {point}")
        assert child.returncode == -signal.SIGKILL, child.stderr()

    async def _take_away(self) -> None:
        """Gives claims of running workers to others, again and again, until some of the workers
        settled too late."""
        child, store = self._start(), await self._app._engine.open()

        async def taken_away() -> bool:
            for node in await store.nodes.list(SYSTEM):
                await store.nodes.leave(SYSTEM, node.id)
            return len(child.events("refused")) >= REFUSED_MIN

        async with asyncio.TaskGroup() as both:
            ended = both.create_task(
                eventually(taken_away, timeout_seconds=WAIT_SECONDS, what="refused ends")
            )
            both.create_task(self._send_until(ended.done, "refused ends"))
        child.kill9()

    async def _until_done(self) -> None:
        """Nothing is left, and nothing is dead. The completion event of a batch may be sent after
        its last item is gone: so the check runs when no more can be sent, and then once more."""
        store = await self._app._engine.open()

        async def is_empty() -> bool:
            counts = [await store.queues.counts(DEFAULT, queue) for queue in exactly_once.CONSUMED]
            assert not any(count.dead for count in counts)
            return counts == [Counts()] * len(counts)

        async def is_done() -> bool:
            if not await is_empty():
                return False
            open_ = await tables.fetch(
                self._url, "SELECT id FROM tickwork_batches WHERE completed_at IS NULL"
            )
            return not open_ and await is_empty()

        await eventually(is_done, timeout_seconds=WAIT_SECONDS, what="all to be done")

    async def _judge(self) -> None:
        """Exactly one effect of each kind for every input."""
        outputs = [msgspec.json.decode(body) for body in await self._bodies("outputs")]
        singles, gathered, splits = (
            [f"{queue} {number}" for number in range(self.inputs[queue])]
            for queue in exactly_once.INPUTS
        )
        batches = await tables.fetch(self._url, "SELECT id, completed_at FROM tickwork_batches")
        assert all(completed_at is not None for _, completed_at in batches)
        told = [f"batch {tables.as_id(batch_id)}" for batch_id, _ in batches]
        assert len(told) == len(splits)
        assert Counter(map(_plain, outputs)) == Counter([*singles, *gathered, *told])

        # A record says that an input was handled if, and only if, it has its effects.
        for queue in exactly_once.INPUTS:
            handled = await self._app.history.list(queue=queue, outcome="done", limit=100_000)
            names = [f"{queue} {number}" for number in range(self.inputs[queue])]
            assert Counter(record.event_id for record in handled) == Counter(names)
        effects = await tables.fetch(self._url, "SELECT input, writer FROM effects")
        of_parts = [f"{name}/{number}" for name in splits for number in range(exactly_once.PARTS)]
        assert Counter(name for name, by in effects if by == "single") == Counter(singles)
        assert Counter(name for name, by in effects if by == "part") == Counter(of_parts)

        tellings = Counter(msgspec.json.decode(body) for body in await self._bodies("tellings"))
        assert tellings == Counter({output["by"] for output in outputs if "by" in output})
        by = {output["input"]: output["by"] for output in outputs if "by" in output}
        written = [effect for effect in effects if effect[1] not in ("single", "part")]
        assert len(written) == len({name for name, _ in written})
        assert {name: by[name] for name, _ in written} == dict(written)

    async def _bodies(self, queue: str) -> list[bytes]:
        found = await tables.fetch(
            self._url,
            "SELECT m.body FROM tickwork_messages m JOIN tickwork_queues q ON q.id = m.queue_id "
            f"WHERE q.name = '{queue}'",
        )
        return [row[0] for row in found]


async def test_each_effect_of_a_handler_happens_once_whatever_is_killed(
    home: Home, children: Children
) -> None:
    exactness = Exactness(home, children, at_once=SENT_AT_ONCE, seed=1)
    await exactness.run(DEATHS_BY_CHANCE, INPUTS_MIN)


@pytest.mark.soak
async def test_thousands_of_inputs_have_their_effects_once(home: Home, children: Children) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    exactness = Exactness(home, children, at_once=SENT_AT_ONCE_OF_A_SOAK, seed=seed)
    await exactness.run(DEATHS_OF_A_SOAK, INPUTS_MIN_OF_A_SOAK)
    sys.stderr.write(f"{exactness.inputs.total()} inputs\n")


def _plain(output: dict[str, str]) -> str:
    """The input of an output; a batch is named by its plain id."""
    kind, _, name = output["input"].partition(" ")
    return f"batch {tables.as_id(name)}" if kind == "batch" else output["input"]
