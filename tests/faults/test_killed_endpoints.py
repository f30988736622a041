"""Deliveries to endpoints by workers that are killed, while events are published: no event is lost,
none is sent again after its success was recorded, order holds, a breaker costs no attempt, and
nothing waits for ever.

The receiver is a real HTTP server. When a request arrives, it reads what is recorded for it.
"""

import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest
from aiohttp import web
from msgspec import structs

from tests.channel.receiver import served
from tests.faults import tables
from tests.faults.endpoint_history import Delivery, History, Request, early, faults_of
from tests.faults.programs import awaits, endpoints
from tests.faults.programs.deliveries import ENVIRONMENT
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import delay, eventually
from tests.stores.home import Home
from tickwork.clock import monotonic, now
from tickwork.core.answers.delivery import DeliveryAnswer
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    HEALTHY,
    DeliveryStatus,
    EndpointStats,
)
from tickwork.core.delivery.signature import is_signed, secret_key
from tickwork.core.fields import read_id
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import DEFAULT
from tickwork.facade.app import Tickwork, engine_of
from tickwork.store.contract import Store

ENDPOINTS: dict[str, dict[str, Any]] = {
    "plain": {"permanent_statuses": [422]},
    "ordered": {"ordered": True},
    "rated": {"rate_per_second": 200.0, "concurrency": 4, "limit": "shared"},
    "down": {"types": ["order.rare", "order.bad"]},
    "broken": {"types": ["order.bad"], "retry_seconds": [0.05, 1.0, 1.0]},
    "switched": {"rate_per_second": 500.0},
}
"""The endpoints. `down` is down for a while, `broken` until the end, `switched` is disabled and
enabled."""

RETRY_SECONDS = [0.05] * 20
BAD, RARE = 60, 20
"""Of how many events one has each of these types. Those that are down get few: all that wait for a
breaker of moments ask it every moment, and would leave it no time for a probe."""

REFUSED, REFUSED_REST = 7, 3
"""Of how many events `plain` refuses one for good, and which."""

SUCCESSES, REPEATS = 0.8, 0.1
"""Shares of answers that are good, and of events that are published twice."""

ANSWER_SECONDS_MAX, LIFE_SECONDS_MAX = 0.02, 0.3
PUBLISH_SECONDS = 0.02
RECORD_SECONDS_MAX = 0.3
"""Seconds from an answer to its record, on a busy machine. A message whose own time comes meanwhile
was due."""

BACKLOG_MAX, WAITING_MIN = 20, 10
EVENTS_MIN, EVENTS_MIN_OF_A_SOAK = 25, 1_000
ROUNDS, ROUNDS_OF_A_SOAK = 0, 25
DOWN_SECONDS, DOWN_SECONDS_OF_A_SOAK = 1.0, 4.0
"""Seconds between retries of `down`. A node that died with a probe is missed after a second, and an
attempt that is lost then is seen only before the probe's own time."""

QUICK_POINTS = ("recorded", "probed", awaits.POINT)
TOGETHER_MAX = 6
"""Number of workers that die at the same time."""

PAGE = 1_000
WAIT_SECONDS = 120.0


class Receiver:
    """Keeps each request, and judges it by what is recorded when it arrives."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._store, self._chance = store, chance
        self._fences: dict[str, int] = {}
        self.keys: dict[str, bytes] = {}
        self.successes = SUCCESSES
        self.forged: list[str] = []
        self.down = {"down", "broken"}
        self.requests: dict[str, list[Request]] = {name: [] for name in ENDPOINTS}
        self.after_success: dict[str, list[int]] = {name: [] for name in ENDPOINTS}

    async def handle(self, request: web.BaseRequest) -> web.Response:
        name, body = request.path[1:], await request.read()
        headers = {header.lower(): value for header, value in request.headers.items()}
        id_, fence = headers["webhook-id"], int(headers["tickwork-fence"])
        if not is_signed([self.keys[name]], headers, body, now()):
            self.forged.append(id_)
        event: int = msgspec.json.decode(body)["data"]["number"]
        attempt, code = int(headers["tickwork-attempt"]), self._answer(name, event)
        arrived, position = self.requests[name], len(self.requests[name])
        arrived.append(Request(event, attempt, fence, monotonic(), code))
        await self._judge(name, event, id_, fence)
        await delay(self._chance.uniform(0, ANSWER_SECONDS_MAX))
        arrived[position] = arrived[position]._replace(at_seconds=monotonic())
        return web.Response(status=code)

    async def _judge(self, name: str, event: int, id_: str, fence: int) -> None:
        # A worker that is late, and whose claim has been given away, may still send.
        if fence < self._fences.get(id_, 0):
            return
        self._fences[id_] = fence
        found = await self._store.endpoints.delivery(DEFAULT, read_id("id", id_))
        if found.status is DeliveryStatus.DELIVERED and fence == self._fences[id_]:
            self.after_success[name].append(event)

    def _answer(self, name: str, event: int) -> int:
        if name in self.down:
            return 503
        if name == "plain" and event % REFUSED == REFUSED_REST:
            return 422
        return 200 if self._chance.random() < self.successes else 503

    def done(self, name: str) -> set[int]:
        """The events that need no more requests."""
        return {request.event for request in self.requests[name] if request.code in (200, 422)}


def type_of(event: int) -> str:
    if event % BAD == 0:
        return "order.bad"
    return "order.paid" if event % RARE else "order.rare"


def in_groups(points: Sequence[str]) -> list[Sequence[str]]:
    return [points[at : at + TOGETHER_MAX] for at in range(0, len(points), TOGETHER_MAX)]


class Campaign:
    """Events, and workers that die while they deliver them."""

    def __init__(
        self,
        home: Home,
        children: Children,
        app: Tickwork,
        store: Store,
        *,
        seed: int,
        down_seconds: float = DOWN_SECONDS,
    ) -> None:
        self._url, self._children, self._app, self._store = home.url, children, app, store
        self._chance = random.Random(seed)
        sys.stderr.write(f"seed {seed}\n")
        self.receiver = Receiver(store, self._chance)
        self.events, self._published_at = 0, 0.0
        down = {**ENDPOINTS["down"], "retry_seconds": [0.05, *[down_seconds] * 19]}
        self._endpoints = {**ENDPOINTS, "down": down}

    async def run(self, points: Sequence[str], *, events_min: int, rounds: int) -> None:
        async with served(self.receiver.handle) as url:
            await self._create(url)
            await self._app.endpoints.disable("switched")
            steady = self._start()
            for some in in_groups(points):
                await self._die(some)
            for _ in range(rounds):
                steady = await self._replace(steady)
                await self._die(self._chance.choices(points, k=2))
                await self._switch()
            await self._publish_until(lambda: self.events >= events_min, "so many events")
            await self._publish_until(self._is_probed, "probes of each endpoint that is down")
            await self._app.endpoints.disable("switched")
            await self._publish_until(self._has_backlog, "what a disabled endpoint keeps")
            steady = await self._replace(steady)
            await self._recover()
            await eventually(self._is_done, timeout_seconds=WAIT_SECONDS, what="all to be done")
            await self._judge()
            await self._mend()
            steady.kill9()

    async def _create(self, url: str) -> None:
        await self._app.limits.put("shared", concurrency=3)
        common: dict[str, Any] = {
            "types": ["order.*"],
            "retry_seconds": RETRY_SECONDS,
            "timeout_seconds": endpoints.TIMEOUT_SECONDS,
        }
        for name, options in self._endpoints.items():
            made = await self._app.endpoints.create(name, url=f"{url}/{name}", **common | options)
            self.receiver.keys[name] = secret_key(made.secret)

    # Workers

    def _start(self, *arms: Arm) -> Child:
        points = [arm.point for arm in arms]
        return self._children.spawn(
            endpoints.PROGRAM, self._url, *points, arms=arms, env=ENVIRONMENT
        )

    async def _die(self, points: Iterable[str]) -> None:
        """Starts more workers, each of which is killed at a point after it has done something."""
        dying = []
        for point in points:
            after = self._chance.randrange(endpoints.POINTS[point])
            dying.append(self._start(Arm(point, "kill", after=after)))

        def are_dead() -> bool:
            return all(child.returncode is not None for child in dying)

        await self._publish_until(are_dead, f"deaths at {points}")
        for child in dying:
            assert child.returncode == -signal.SIGKILL, child.stderr()

    async def _replace(self, worker: Child) -> Child:
        """Kills a worker at any moment."""
        new, until = self._start(), monotonic() + self._chance.uniform(0, LIFE_SECONDS_MAX)
        await self._publish_until(lambda: monotonic() > until, "a moment")
        assert worker.returncode is None, worker.stderr()
        worker.kill9()
        return new

    # Events and endpoints

    async def _publish_until(self, condition: Callable[[], Any], what: str) -> None:
        async def published() -> object:
            is_time = monotonic() - self._published_at > PUBLISH_SECONDS
            if is_time and self.events - len(self.receiver.done("ordered")) < BACKLOG_MAX:
                self._published_at = monotonic()
                await self._publish()
            found = condition()
            return await found if hasattr(found, "__await__") else found

        await eventually(published, timeout_seconds=WAIT_SECONDS, what=what)

    async def _publish(self) -> None:
        number, self.events = self.events, self.events + 1
        data, event_id = {"number": number}, f"event-{number}"
        for _ in range(2 if self._chance.random() < REPEATS else 1):
            await self._app.events.publish(type_of(number), data, event_id=event_id)

    async def _switch(self) -> None:
        """A receiver, or an endpoint, may change between up and down."""
        if self._chance.random() < 0.5:
            self.receiver.down ^= {"down"}
        if self._chance.random() < 0.5:
            found = await self._app.endpoints.get("switched")
            own = self._app.endpoints
            await (own.disable if found.disabled_at is None else own.enable)("switched")

    async def _recover(self) -> None:
        self.receiver.down -= {"down"}
        await self._app.endpoints.enable("switched")

    def _is_probed(self) -> bool:
        return all(early(self.receiver.requests[name]) for name in ("down", "broken"))

    async def _has_backlog(self) -> bool:
        return (await self._app.endpoints.stats("switched")).waiting >= WAITING_MIN

    async def _is_done(self) -> bool:
        counts = await self._store.queues.counts(DEFAULT, ENDPOINTS_QUEUE)
        return not (counts.ready or counts.delayed or counts.claimed or counts.blocked)

    # The laws

    async def _judge(self) -> None:
        assert self.receiver.forged == []
        attempts = await self._recorded()
        dead = await self._dead()
        for name, options in ENDPOINTS.items():
            endpoint = await self._app.endpoints.get(name)
            found = await self._deliveries(endpoint.id.uuid)
            types = endpoint.types
            is_judged = name != "switched"  # Enabling an endpoint calls its retries earlier.
            history = History(
                published=[
                    number
                    for number in range(self.events)
                    if "order.*" in types or type_of(number) in types
                ],
                requests=self.receiver.requests[name],
                deliveries=[
                    Delivery(
                        int(delivery.event_id.removeprefix("event-")),
                        delivery.status,
                        attempts.get(str(delivery.id.uuid), ()),
                        dead.get(delivery.message_id.uuid),
                    )
                    for delivery in found
                ],
                after_success=self.receiver.after_success[name],
                stats=await self._app.endpoints.stats(name),
                failures_in_row=endpoint.health.failures_in_row,
                ordered="ordered" in options,
                retry_seconds=endpoint.retry_seconds if is_judged else None,
                tolerance_seconds=endpoints.TOLERANCE_SECONDS + RECORD_SECONDS_MAX,
            )
            assert (name, faults_of(history)) == (name, [])
            assert [delivery.attempts for delivery in found] == [
                len(attempts.get(str(delivery.id.uuid), ())) for delivery in found
            ]

    async def _mend(self) -> None:
        """What is published now arrives everywhere, and closes every breaker."""
        self.receiver.down.clear()
        self.receiver.successes = 1.0
        self.events += -self.events % BAD  # One for all, which nobody refuses.
        while self.events % REFUSED == REFUSED_REST:
            self.events += BAD
        await self._publish()
        await eventually(self._is_done, timeout_seconds=WAIT_SECONDS, what="the last event")
        for name in ENDPOINTS:
            found = await self._app.endpoints.get(name)
            assert (name, found.health, found.disabled_at) == (name, HEALTHY, None)
            (last,) = await self._app.deliveries.list(endpoint=name, limit=1)
            assert (last.event_id, last.status) == (f"event-{self.events - 1}", "delivered")

    async def _recorded(self) -> dict[str, list[int | None]]:
        """The codes of the recorded attempts, by delivery."""
        found: dict[str, list[int | None]] = {}
        asked = "SELECT delivery_id, code FROM tickwork_delivery_attempts ORDER BY number"
        for delivery_id, code in await tables.fetch(self._url, asked):
            found.setdefault(tables.as_id(delivery_id), []).append(code)
        return found

    async def _dead(self) -> dict[UUID, str]:
        """The reasons of the dead letters, by message."""
        dead: dict[UUID, str] = {}
        after = None
        while True:
            page = await self._store.dead_letters.list(
                DEFAULT, ENDPOINTS_QUEUE, Selection(limit=PAGE), after=after
            )
            dead |= {letter.message_id: letter.reason for letter in page.letters}
            after = page.next
            if after is None:
                return dead

    async def _deliveries(self, endpoint_id: UUID) -> Sequence[DeliveryAnswer]:
        found: list[DeliveryAnswer] = []
        while True:
            page = await self._app.deliveries.list(
                endpoint=endpoint_id, limit=PAGE, before=found[-1].id if found else None
            )
            found += page
            if len(page) < PAGE:
                return found


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    app = Tickwork(home.url)
    yield app
    await app.close()


async def test_deliveries_to_endpoints_survive_whichever_worker_is_killed(
    home: Home, children: Children, app: Tickwork
) -> None:
    store = await engine_of(app).open()
    campaign = Campaign(home, children, app, store, seed=1)
    await campaign.run(QUICK_POINTS, events_min=EVENTS_MIN, rounds=ROUNDS)


@pytest.mark.soak
async def test_thousands_of_deliveries_to_endpoints_survive_rounds_of_kills(
    home: Home, children: Children, app: Tickwork
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    store = await engine_of(app).open()
    down_seconds = DOWN_SECONDS_OF_A_SOAK
    campaign = Campaign(home, children, app, store, seed=seed, down_seconds=down_seconds)
    points, rounds = [*endpoints.POINTS], ROUNDS_OF_A_SOAK
    await campaign.run(points, events_min=EVENTS_MIN_OF_A_SOAK, rounds=rounds)
    requests = sum(map(len, campaign.receiver.requests.values()))
    sys.stderr.write(f"{campaign.events} events, {requests} requests\n")


# The checker


GOOD = History(
    published=[0, 1, 2],
    requests=[
        Request(0, 1, 1, 0.0, 503),
        Request(0, 2, 2, 0.4, 503),  # A probe.
        Request(0, 2, 3, 1.0, 200),
        Request(1, 1, 1, 1.1, 422),
        Request(2, 1, 1, 1.2, 503),
        Request(2, 2, 2, 2.3, 503),
    ],
    deliveries=[
        Delivery(0, DeliveryStatus.DELIVERED, [503, 503, 200]),
        Delivery(1, DeliveryStatus.DEAD, [422], "permanent"),
        Delivery(2, DeliveryStatus.DEAD, [503, 503], "max_retries"),
    ],
    after_success=[],
    stats=EndpointStats(delivered=1, dead=2, attempts=6, failed_attempts=5),
    failures_in_row=3,
    ordered=True,
    retry_seconds=[1.0],
)
FIRST, SECOND, THIRD = GOOD.deliveries


def only_failures() -> History:
    return GOOD._replace(
        published=[2],
        requests=GOOD.requests[-2:],
        deliveries=[THIRD],
        stats=EndpointStats(dead=1, attempts=2, failed_attempts=2),
        failures_in_row=2,
    )


def requests_with(at: int, **fields: Any) -> list[Request]:
    found = [*GOOD.requests]
    found[at] = found[at]._replace(**fields)
    return found


def test_the_checker_of_endpoints_finds_every_mutant() -> None:
    assert faults_of(GOOD) == []
    assert faults_of(only_failures()) == []
    assert faults_of(GOOD._replace(requests=requests_with(2, at_seconds=0.9))) == []
    late = Request(0, 2, 2, 9.0, 503)
    assert faults_of(GOOD._replace(requests=[*GOOD.requests, late])) == []
    waiting = FIRST._replace(status=DeliveryStatus.WAITING)
    twice = FIRST._replace(codes=[503, 200, 200])
    silent = THIRD._replace(reason=None)
    mutants = {
        "an event without a delivery": GOOD._replace(published=[0, 1, 2, 3]),
        "an event with two": GOOD._replace(deliveries=[*GOOD.deliveries, THIRD]),
        "a delivery that waits": GOOD._replace(deliveries=[waiting, SECOND, THIRD]),
        "a success that never arrived": GOOD._replace(requests=requests_with(2, code=503)),
        "two recorded successes": GOOD._replace(deliveries=[twice, SECOND, THIRD]),
        "a death without a reason": GOOD._replace(deliveries=[FIRST, SECOND, silent]),
        "a refusal that never was": GOOD._replace(requests=requests_with(3, code=503)),
        "a request after the success": GOOD._replace(after_success=[0]),
        "another order": GOOD._replace(
            requests=requests_with(3, at_seconds=0.1)[3:] + requests_with(3)[:3]
        ),
        "the one before once more": GOOD._replace(
            requests=[*GOOD.requests, Request(0, 2, 4, 3.0, 200)]
        ),
        "an attempt spent by a probe": GOOD._replace(requests=requests_with(5, at_seconds=2.1)),
        "an attempt left out": GOOD._replace(requests=requests_with(5, attempt=3)),
        "a death too early": GOOD._replace(retry_seconds=[1.0, 1.0]),
        "statuses counted wrong": GOOD._replace(
            stats=structs.replace(GOOD.stats, delivered=2, dead=1)
        ),
        "attempts counted wrong": GOOD._replace(stats=structs.replace(GOOD.stats, attempts=7)),
        "failures counted wrong": GOOD._replace(
            stats=structs.replace(GOOD.stats, failed_attempts=4)
        ),
        "a breaker that missed one": only_failures()._replace(failures_in_row=1),
    }
    assert [name for name, mutant in mutants.items() if not faults_of(mutant)] == []
