"""A campaign of kills: senders and workers are killed again and again, and replaced.

Contract: at the end of `run` every process is dead, this process has drained everything they left,
and the history contains all of it. Where and when a process dies is random, by a seed that every
failure reports.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.faults import tables
from tests.faults.checks import judged
from tests.faults.membership import TTL_SECONDS, Membership
from tests.faults.open_store import opened
from tests.faults.programs.worker import INPUTS, OUTPUTS, Worker
from tests.faults.reaper_loop import Reaping
from tests.kit.checkers import Violation
from tests.kit.history import Event, HistoryWriter, read_history
from tests.kit.process import Child, ChildFailed, Children
from tests.kit.waiting import delay, eventually
from tickwork.core.model import SYSTEM, QueueSettings
from tickwork.store.contract import Store

SENDER = "tests.faults.programs.sender"
WORKER = "tests.faults.programs.worker"
WORKERS = 2
POINTS = {
    SENDER: ("sending", "sent"),
    WORKER: ("claimed", "settling", "writing", "written", "settled"),
}
LIFE_SECONDS_MAX = 0.25
PASSES_MAX = 10
LAST_PASS_SECONDS_MAX = 5.0
START_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 120.0


class Campaign:
    """Processes on one store."""

    def __init__(
        self,
        url: str,
        children: Children,
        folder: Path,
        *,
        seed: int,
        ttl_seconds: float = TTL_SECONDS,
    ) -> None:
        self._url, self._children = url, children
        self._path = folder / "history.jsonl"
        self._chance, self._ttl_seconds = random.Random(seed), ttl_seconds
        self._names = 0
        self.history = HistoryWriter(self._path, "campaign")

    async def run(self, rounds: int) -> None:
        """Runs rounds, each of which kills a sender and a worker."""
        async with opened(self._url) as store:
            await prepare(store, self._url)
            async with Reaping(store, self.history):
                workers = [self.start(WORKER) for _ in range(WORKERS)]
                for _ in range(rounds):
                    sender, victim = self.start(SENDER), workers.pop(0)
                    await sender.reached("sent", START_SECONDS_MAX)
                    await victim.reached("claimed", START_SECONDS_MAX)
                    await asyncio.gather(self._kill(sender, SENDER), self._kill(victim, WORKER))
                    workers.append(self.start(WORKER))
                for worker in workers:
                    worker.kill9()
                await self.drain(store)

    def start(self, program: str) -> Child:
        """Starts one more process, with a name of its own."""
        self._names += 1
        name = f"{program.rpartition('.')[2]}-{self._names}"
        more = [str(self._chance.random()), str(self._ttl_seconds)] if program == WORKER else []
        return self._children.spawn(program, self._url, self._path, name, *more)

    @asynccontextmanager
    async def at_work(self, workers: int) -> AsyncIterator[None]:
        """A sender and workers that have started; killed at the end."""
        running = [self.start(program) for program in (SENDER, *[WORKER] * workers)]
        try:
            await running[0].reached("sent", START_SECONDS_MAX)
            for worker in running[1:]:
                await worker.reached("written", START_SECONDS_MAX)
            yield
        finally:
            for child in running:
                child.kill9()

    def mark(self) -> int:
        """A position in the history, to read on from."""
        return self._path.stat().st_size

    def read(self, mark: int = 0) -> list[Event]:
        """The history from the mark on."""
        return read_history(self._path, mark).events

    async def judged(self) -> list[Violation]:
        return await judged(self._url, self.read())

    async def drain(self, store: Store) -> None:
        """Does the remaining work, after the dead nodes were reaped."""
        async with Membership(store, "drain") as member:

            async def others_are_gone() -> bool:
                return [node.id for node in await store.nodes.list(SYSTEM)] == [member.node_id]

            await eventually(others_are_gone, timeout_seconds=START_SECONDS_MAX)
            worker = Worker(store, member, self.history, url=self._url, name="drain")

            async def is_empty() -> bool:
                while await worker.step(None):
                    pass
                return not await tables.inputs_in(self._url, INPUTS)

            await eventually(is_empty, timeout_seconds=DRAIN_SECONDS_MAX)

    async def _kill(self, child: Child, program: str) -> None:
        """Kills at a named point, or at any moment."""
        await delay(self._chance.uniform(0, LIFE_SECONDS_MAX))
        point = self._chance.choice((None, *POINTS[program]))
        if point is None:
            child.kill9()
        else:
            child.arm(point, "kill", after=self._chance.randrange(PASSES_MAX))
            with suppress(ChildFailed):  # it has nothing left to do
                await child.wait(LAST_PASS_SECONDS_MAX)
            child.kill9()


async def prepare(store: Store, url: str) -> None:
    """Creates the queues, and a table of the test's own."""
    await store.queues.put(SYSTEM, INPUTS, QueueSettings(max_retries=100))
    await store.queues.put(SYSTEM, OUTPUTS, QueueSettings())
    await tables.fetch(url, tables.EFFECTS)
