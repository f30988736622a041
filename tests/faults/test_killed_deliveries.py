"""Deliveries over several channels, by workers that are killed: no channel whose success is
recorded is sent again, and at most once is never repeated.

The receiver is a real HTTP server that counts by `webhook-id`. When a request arrives, it reads
what is recorded for the request's channel: a success must not be there yet.
"""

import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from aiohttp import web

from tests.channel.receiver import served
from tests.faults.open_store import opened
from tests.faults.programs import deliveries
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import delay, eventually
from tests.stores.home import Home
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

CHANNELS = 3
SUCCESSES = 0.6
ANSWER_SECONDS_MAX = 0.02
PASSES_MAX = 5
BACKLOG_MAX = 20
WORKS_MIN, WORKS_MIN_OF_A_SOAK = 40, 3_000
DEATHS_BY_CHANCE, DEATHS_OF_A_SOAK = 0, 30
WAIT_SECONDS = 120.0
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "retried": {"target": {"retry_failed_channels": True}},
    "once": {"delivery": "at_most_once"},
}


class Receiver:
    """Answers at random, and judges each request by what is recorded when it arrives."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store, self._chance = store, chance
        self._fences: dict[str, int] = {}
        self.requests: Counter[str] = Counter()
        self.once: Counter[str] = Counter()
        self.succeeded: set[str] = set()
        self.repeated: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        id_, fence = request.headers["webhook-id"], int(request.headers["Tickwork-Fence"])
        work = unquote(request.headers["Idempotency-Key"])
        self.requests[id_] += 1
        if work.startswith("once"):
            self.once[id_] += 1
        # A worker that is late, and whose claim has been given away, may still send.
        if fence >= self._fences.get(id_, 0):
            self._fences[id_] = fence
            rows = await self._store.progress.get(DEFAULT, work)
            if "succeeded" in rows.get(f"channel:webhook[{request.path[1:]}]", ""):
                self.repeated.append(f"{work} {request.path} by claim {fence}")
        await delay(self._chance.uniform(0, ANSWER_SECONDS_MAX))
        if self._chance.random() >= SUCCESSES:
            return web.Response(status=503)
        self.succeeded.add(work)
        return web.Response()


class Campaign:
    """Deliveries, and workers that die while they make them."""

    def __init__(self, home: Home, children: Children, store: Store, *, seed: int) -> None:
        self._url, self._children, self._store = home.url, children, store
        self._chance = random.Random(seed)
        sys.stderr.write(f"seed {seed}\n")
        self.receiver = Receiver(store, self._chance)
        self.works: list[str] = []

    async def run(self, deaths: int, works_min: int) -> None:
        await self._store.queues.put(SYSTEM, DELIVERIES_QUEUE, deliveries.SETTINGS)
        async with served(self.receiver.handle) as target:
            steady = self._start()
            await self._die(target, deliveries.POINTS)
            for _ in range(deaths):
                fallen, steady = steady, self._start()
                await self._die(target, self._chance.choices(deliveries.POINTS, k=2))
                fallen.kill9()
            await self._send_until(target, lambda: len(self.works) >= works_min, "so many works")
            await eventually(self._is_done, timeout_seconds=WAIT_SECONDS, what="all to be done")
            steady.kill9()
        dead = await self._judge()
        # A few deaths may all come between two deliveries.
        assert not deaths or "outcome_unknown" in dead.values()

    def _start(self, *arms: Arm) -> Child:
        environment = deliveries.ENVIRONMENT
        return self._children.spawn(deliveries.PROGRAM, self._url, arms=arms, env=environment)

    async def _die(self, target: str, points: Sequence[str]) -> None:
        """Starts more workers, each of which is killed at a point after it has done something."""
        dying = [
            self._start(Arm(point, "kill", after=self._chance.randrange(PASSES_MAX)))
            for point in points
        ]

        def are_dead() -> bool:
            return all(child.returncode is not None for child in dying)

        await self._send_until(target, are_dead, f"deaths at {points}")
        for child in dying:
            assert child.returncode == -signal.SIGKILL, child.stderr()

    async def _send_until(self, target: str, condition: Callable[[], object], what: str) -> None:
        async def sent() -> object:
            if await self._left() < BACKLOG_MAX:
                await self._send(target)
            return condition()

        await eventually(sent, timeout_seconds=WAIT_SECONDS, what=what)

    async def _send(self, target: str) -> None:
        kind = self._chance.choice([*KINDS])
        hooks = [{"type": "webhook", "url": f"{target}/{at}"} for at in range(CHANNELS)]
        fields = {"payload": 1, **KINDS[kind]}
        several = {"type": "channels", "channels": hooks, **fields.get("target", {})}
        body = fields | {"target": several}
        work = f"{kind}-{len(self.works)}"
        self.works.append(work)
        encoded = msgspec.json.encode(body)
        message = NewMessage(id=new_id(), body=encoded, idempotency_base=work, receiver="")
        await self._store.messages.send(DEFAULT, DELIVERIES_QUEUE, message)

    async def _left(self) -> int:
        counts = await self._store.queues.counts(DEFAULT, DELIVERIES_QUEUE)
        return counts.ready + counts.delayed + counts.claimed

    async def _is_done(self) -> bool:
        return not await self._left()

    async def _judge(self) -> dict[str, str]:
        """The laws; returns the reasons of dead letters by work key."""
        assert self.receiver.repeated == []
        assert max(self.receiver.once.values()) == 1
        selection = Selection(limit=1_000)
        dead: dict[str, str] = {}
        after = None
        while True:
            page = await self._store.dead_letters.list(
                DEFAULT, DELIVERIES_QUEUE, selection, after=after
            )
            dead |= {str(letter.idempotency_key): letter.reason for letter in page.letters}
            after = page.next
            if after is None:
                break
        assert {*dead.values()} <= {"outcome_unknown", "max_retries"}
        assert all(work.startswith("once") for work in dead)
        assert {*self.works} - {*dead} <= self.receiver.succeeded
        return dead


async def test_no_recorded_channel_is_sent_again_whichever_worker_is_killed(
    home: Home, children: Children
) -> None:
    async with opened(home.url) as store:
        await Campaign(home, children, store, seed=1).run(DEATHS_BY_CHANCE, WORKS_MIN)


@pytest.mark.soak
async def test_no_recorded_channel_is_sent_again_in_thousands_of_deliveries(
    home: Home, children: Children
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    async with opened(home.url) as store:
        campaign = Campaign(home, children, store, seed=seed)
        await campaign.run(DEATHS_OF_A_SOAK, WORKS_MIN_OF_A_SOAK)
        sys.stderr.write(f"{campaign.receiver.requests.total()} requests\n")
