"""A crew of processes, killed at random one after the other, and replaced.

Contract: a process is working when it is killed, at a named point or at any moment. A process that
exits by itself has failed, and so has the test. At the end of `staffed` all are dead. Where and
when is decided by a seed, printed on stderr: pytest shows it if a test fails.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import msgspec

from tests.faults import tables
from tests.faults.checks import judged_claims
from tests.faults.membership import Membership
from tests.faults.programs import handler, producer, statements
from tests.kit.checkers import Violation, accepted, nothing_lost, nothing_twice
from tests.kit.history import Event, HistoryWriter, read_history
from tests.kit.process import Arm, Child, ChildFailed, Children
from tests.kit.waiting import delay, eventually
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store

TOGETHER = 2
START_SECONDS_MAX = 60.0
ROUNDS_PER_FREEZE, FROZEN_SECONDS = 3, 1.5
LIFE_SECONDS_MAX = 0.1
PASSES_MAX = 3
STATEMENTS_MAX = 20
LAST_PASS_SECONDS_MAX = 1.0
DRAIN_SECONDS_MAX = 120.0
DRAIN_LIMIT = 200


@dataclass(frozen=True)
class Post:
    """What a process does; at `begun` it is working, and at one of the points it may be killed."""

    program: str
    orders: msgspec.Struct
    points: tuple[str, ...]
    begun: str


def producing(orders: producer.Orders) -> Post:
    return Post(producer.PROGRAM, orders, producer.POINTS, "sent")


def handling(orders: handler.Orders) -> Post:
    return Post(handler.PROGRAM, orders, handler.POINTS, "claimed")


class Crew:
    """Processes on one store, and the history of what they did."""

    def __init__(self, url: str, children: Children, folder: Path, *, seed: int) -> None:
        self._url, self._children = url, children
        self._path = folder / "history.jsonl"
        self.chance = random.Random(seed)
        sys.stderr.write(f"seed {seed}\n")
        self._names = 0
        self.history = HistoryWriter(self._path, "crew")

    def start(self, post: Post, *arms: Arm) -> Child:
        """Starts one more process, with its own name and seed."""
        self._names += 1
        name = f"{post.program.rpartition('.')[2]}-{self._names}"
        orders = msgspec.structs.replace(post.orders, seed=self.chance.randrange(1 << 32))
        words = msgspec.json.encode(orders).decode()
        return self._children.spawn(post.program, self._url, self._path, name, words, arms=arms)

    @asynccontextmanager
    async def staffed(self, posts: Sequence[Post]) -> AsyncIterator[list[Child]]:
        """A working process at every post; whoever is there at the end is killed."""
        staff = [self.start(post) for post in posts]
        try:
            for post, child in zip(posts, staff, strict=True):
                await child.reached(post.begun, START_SECONDS_MAX)
            yield staff
        finally:
            for child in staff:
                child.kill9()

    async def kill_by_turns(
        self, posts: Sequence[Post], staff: list[Child], *, rounds: int
    ) -> None:
        """Kills two processes at the same time in each round, and replaces them.

        In some rounds one of them is first frozen beyond its lease, and continues for a while.
        """
        turns = cycle(self.chance.sample(range(len(posts)), len(posts)))
        for number in range(1, rounds + 1):
            fallen = [*islice(turns, TOGETHER)]
            if number % ROUNDS_PER_FREEZE == 0:
                staff[fallen[0]].stop()
                await delay(FROZEN_SECONDS)
                staff[fallen[0]].cont()
            await asyncio.gather(*(self.kill(staff[at], posts[at].points) for at in fallen))
            for at in fallen:
                staff[at] = self.start(posts[at])
            for at in fallen:
                await staff[at].reached(posts[at].begun, START_SECONDS_MAX)

    def killing(self, post: Post, passes_max: int) -> Arm:
        """Some time for a process to reach its point."""
        point = self.chance.choice(post.points)
        return Arm(point, "kill", after=self.chance.randrange(passes_max))

    async def kill(self, child: Child, points: Sequence[str]) -> None:
        """Kills at a named point, or at any moment."""
        await delay(self.chance.uniform(0, LIFE_SECONDS_MAX))
        assert child.returncode is None, child.stderr()
        point = self.chance.choice((None, *points))
        if point is not None:
            passes_max = STATEMENTS_MAX if point == statements.POINT else PASSES_MAX
            child.arm(point, "kill", after=self.chance.randrange(passes_max))
            with suppress(ChildFailed):  # it has nothing left to do
                await child.wait(LAST_PASS_SECONDS_MAX)
        child.kill9()

    async def drain(
        self,
        store: Store,
        queues: Sequence[str],
        most: int = DRAIN_LIMIT,
        ways: Mapping[str, handler.Ways] | None = None,
    ) -> None:
        """Does the remaining work, after the dead nodes were reaped: in a plain way, unless `ways`
        of a queue say otherwise."""
        async with Membership(store, "drain") as member:

            async def others_are_gone() -> bool:
                return [node.id for node in await store.nodes.list(SYSTEM)] == [member.node_id]

            await eventually(others_are_gone, timeout_seconds=START_SECONDS_MAX)
            plain: dict[str, handler.Ways] = {queue: {"plain": 1} for queue in queues}
            orders = handler.Orders(ways=plain | dict(ways or {}), limit=most)
            hand = handler.Handler(store, member, self.history, url=self._url, orders=orders)

            async def are_empty() -> bool:
                while await hand.step():
                    pass
                return not any([await tables.inputs_in(self._url, queue) for queue in queues])

            await eventually(are_empty, timeout_seconds=DRAIN_SECONDS_MAX)

    def read(self) -> list[Event]:
        return read_history(self._path).events


async def accounted_for(url: str, history: Sequence[Event], queue: str) -> list[Violation]:
    """Every accepted message was done or is dead, once; and no claim had two holders."""
    outputs = await tables.outputs_in(url, handler.OUTPUTS)
    done = [cause for cause, way in outputs if way.startswith(f"{queue}.")]
    found = [*done, *await tables.dead_in(url, queue), *await tables.inputs_in(url, queue)]
    return [
        *nothing_lost(accepted(history), found),
        *nothing_twice(found),
        *judged_claims(history),
    ]
