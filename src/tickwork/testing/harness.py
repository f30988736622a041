"""Runs an app under a virtual clock: time moves from one due thing to the next.

```
  advance ──▶ all that is due now ──▶ the next due time ──▶ all that is due then … until the end
                a message's visible time · a batch timeout · a handler's timeout · an expiring lease
                or message · the rate limit of a queue · a schedule to plan
```

Planning, handling and settling is the worker's own code; only its loops do not run. While a handler
runs no virtual time passes: what it waits for (a socket, `asyncio.sleep`) takes real time.

Each harness has its own empty store: a temporary SQLite file, or a new schema in a PostgreSQL
database, so that everything else there is left alone. The app's own tables are found in `public`,
after that schema. No commit waits for a disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, NamedTuple

from msgspec import structs

from tickwork.app.handlers import check_queue_name
from tickwork.core.answers.dead_letter import DeadLetter
from tickwork.core.answers.ids import Id, Prefix
from tickwork.core.limits import DELAY_SECONDS_MAX, LIST_LIMIT_MAX, TTL_SECONDS_MAX
from tickwork.core.message.body import shown_body
from tickwork.core.message.dead_letter import DEAD_LETTERS_AT_ONCE_MAX, Selection
from tickwork.core.model import SYSTEM, Message, Scope, StoredQueue
from tickwork.core.topology import Topology, parse
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput, NodeExpired, NotFound
from tickwork.facade.app import Tickwork, engine_of
from tickwork.facade.services import client_of
from tickwork.ops.context import Context
from tickwork.ops.topology import apply
from tickwork.service.maintenance import PRUNE_BATCH_MAX, REAP_BATCH_MAX
from tickwork.service.observe import Observers
from tickwork.service.observe.schedule_log import ScheduleLog
from tickwork.service.observe.schedule_metrics import ScheduleMetrics
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.testing.clock import START, VirtualClock
from tickwork.testing.deliveries import PlainBox, RecordedDeliveries, recording_consumers
from tickwork.testing.errors_seen import HarnessObserver, NeverEnds
from tickwork.testing.next_due import Upcoming, earliest
from tickwork.testing.steps import HarnessSteps
from tickwork.testing.store_setup import open_empty_store
from tickwork.wiring.assembly import Assembly, assemble

PUBLIC_URL = "https://tickwork.example"
"""Where receivers complete firings, unless the app has a public URL."""

PATIENCE_SECONDS = 10.0
"""Real seconds after which a running handler counts as hanging."""

MAINTENANCE_INTERVAL = timedelta(seconds=TTL_SECONDS_MAX) / 2
"""Maximum virtual time between two renewals of the node's lease with maintenance of the store."""

ROLES = ("scheduler", "worker")
ROUNDS_MAX = 10_000
"""Maximum number of rounds of work at one virtual time."""

STEPS_MAX = 1_000_000
"""Maximum number of virtual times in one call."""

_SOON = timedelta(microseconds=1)
_FAR = timedelta(seconds=DELAY_SECONDS_MAX + 1)


class Sent(NamedTuple):
    """A sent message, its body as plain values."""

    body: Any
    message: Message


class Dead(NamedTuple):
    """A dead letter, its body as plain values."""

    body: Any
    reason: str
    error: str | None
    attempts: int
    letter: DeadLetter


class Harness:
    """An app under a virtual clock."""

    def __init__(
        self,
        engine: AppEngine,
        store: Store,
        assembly: Assembly,
        *,
        clock: VirtualClock,
        observer: HarnessObserver,
        schedule_metrics: ScheduleMetrics,
        options: Options,
        deliveries: RecordedDeliveries,
        steps: HarnessSteps,
    ) -> None:
        self.deliveries = deliveries
        """What was delivered outside; nothing is sent."""
        self.services = engine.stand_ins
        """ASGI applications that answer for services, by name."""
        self.http = client_of(engine)
        """Calls the HTTP handlers of the app, without a socket."""
        self.steps = steps
        """The steps of workflows: replaces them by mocks, and lets runs crash."""
        worker, self._node, _ = assembly
        self._engine = engine
        self._worker = worker
        self.store = store
        self._clock = clock
        self._observer = observer
        self._schedule_metrics = schedule_metrics
        self._options = options
        assert worker.scheduler is not None
        self._scheduler = worker.scheduler
        self._maintained_at = clock.now()
        self._upcoming = Upcoming(store, worker.consumers)
        self._settlements_seen = observer.settlements
        self._look_at: datetime | None = None

    @property
    def now(self) -> datetime:
        """The current virtual time."""
        return self._clock.now()

    async def drain(self) -> None:
        """Handles all visible messages, and those they cause, until none is left.

        Time passes only for batch timeouts and rate limits. Raises `NeverEnds` if a handler hangs
        or sends messages without end.
        """
        await self._look_again()
        await self._work()
        for _ in range(STEPS_MAX):
            self._check_hanging()
            delayed = [await self._delayed_until(consumer) for consumer in self._worker.consumers]
            until = earliest(*delayed)
            if until is None:
                return
            await self._step(until)
        raise NeverEnds("there is always more work; does a handler send messages without end?")

    async def advance(self, **amounts: float) -> None:
        """Lets virtual time pass, in units of `timedelta`: `days=6`, `minutes=1, seconds=30`.

        Everything that comes due happens at its time.
        """
        amount = timedelta(**amounts)
        if amount < timedelta():
            raise ValueError(f"time cannot move back: {amount.total_seconds():g} seconds")
        until = self.now + amount
        await self._look_again()
        await self._work()
        for _ in range(STEPS_MAX):
            if self.now >= until:
                break
            await self._step(until)
        else:
            raise NeverEnds(
                "there is always something due; does a handler send messages without end?"
            )

    async def outage(self, **amounts: float) -> None:
        """Lets virtual time pass while no node runs: nothing is planned or handled."""
        self._clock.advance(seconds=timedelta(**amounts).total_seconds())

    async def sent(self, queue: str) -> list[Sent]:
        """The messages sent to a queue, in order: handled, waiting and delayed ones, but not those
        blocked behind another message of their key."""
        check_queue_name("queue", queue)
        scope = self._scope(queue)
        queue_id = (await self.store.queues.get(scope, queue)).id
        found = dict(self._observer.handled_messages.get(queue_id, {}))
        with self._clock.showing(self.now + _FAR):
            waiting = await self.store.messages.peek(scope, queue, LIST_LIMIT_MAX)
        found.update((message.id, message) for message in waiting)
        ordered = sorted(found.values(), key=lambda message: (message.sent_at, message.id))
        return [
            Sent(shown_body(message.body, message.content_type), _with_ids(message))
            for message in ordered
        ]

    async def dead(self, queue: str) -> list[Dead]:
        """The dead letters of a queue, oldest first."""
        check_queue_name("queue", queue)
        selection = Selection(limit=DEAD_LETTERS_AT_ONCE_MAX)
        page = await self.store.dead_letters.list(self._scope(queue), queue, selection)
        letters = (
            DeadLetter.of(letter, queue, shown_body(letter.body, letter.content_type))
            for letter in page.letters
        )
        return [
            Dead(letter.body, letter.reason, letter.error, letter.attempts, letter)
            for letter in letters
        ]

    # Time

    async def _step(self, until: datetime) -> None:
        """Moves to the next due time, at most to `until`, and does what is due."""
        at = min(until, await self._next_due())
        self._clock.move_to(max(at, self.now + _SOON))
        expiry = self._upcoming.expiry
        is_expired = expiry is not None and expiry <= self.now
        if is_expired or self.now >= min(self._maintained_at + MAINTENANCE_INTERVAL, until):
            await self.maintain()
        elif self._look_at is not None and self._look_at <= self.now:
            await self._look_again()
        await self._work()

    async def _next_due(self) -> datetime:
        await self._refresh()
        claimed = [await self._due(consumer) for consumer in self._worker.consumers]
        maintenance = self._maintained_at + MAINTENANCE_INTERVAL
        return earliest(self._upcoming.first, *claimed, self._look_at, maintenance) or maintenance

    async def _due(self, consumer: QueueConsumer) -> datetime | None:
        """When a claimed message is due, or a handler's timeout."""
        return earliest(
            await self._delayed_until(consumer), self._at(consumer.running.overdue_at())
        )

    async def _delayed_until(self, consumer: QueueConsumer) -> datetime | None:
        """When visible messages that wait for a batch or a rate limit can be handled."""
        return earliest(self._at(consumer.batch_due()), await self._rate_due(consumer))

    async def _rate_due(self, consumer: QueueConsumer) -> datetime | None:
        rate = await self._rate(consumer.queue)
        if rate is None or not await self.store.messages.peek(
            consumer.scope, consumer.queue.name, 1
        ):
            return None
        queue = await self.store.queues.get(consumer.scope, consumer.queue.name)
        return None if queue.paused else self.now + timedelta(seconds=1 / rate)

    async def _rate(self, queue: StoredQueue) -> float | None:
        """The lower one of a queue's own rate and that of its limit."""
        own = queue.settings.rate_per_second
        name = queue.settings.limit
        shared = None
        if name is not None:
            with suppress(NotFound):
                shared = (await self.store.limits.get(Scope(queue.tenant), name)).rate_per_second
        return min((rate for rate in (own, shared) if rate is not None), default=None)

    def _at(self, monotonic_seconds: float | None) -> datetime | None:
        return None if monotonic_seconds is None else self._clock.at(monotonic_seconds)

    # Work

    async def _work(self) -> None:
        """Does everything that can be done now."""
        for _ in range(ROUNDS_MAX):
            try:
                if not await self._round():
                    return
            except NodeExpired:
                self._worker.drop_claims()
                await self.join()
                self._upcoming.forget()
            finally:
                self._raise()
        raise NeverEnds("a handler snoozes its message for 0 seconds, again and again")

    async def _round(self) -> int:
        """Plans and handles once; returns how much was done."""
        await self._refresh()
        upcoming, consumers = self._upcoming, self._worker.consumers
        done = 0
        if upcoming.is_planning_due(self.now):
            await self._scheduler.read_windows()
            if done := await self._scheduler.plan_due():
                await upcoming.planned(self._observer.take_first_visible())
        visible = upcoming.visible(self.now)
        for consumer in consumers:
            consumer.stop_overdue()
            if consumer in visible:
                done += await consumer.step()
                upcoming.forget()
        ran = sum(len(consumer.running) for consumer in consumers)
        for consumer in consumers:
            if await consumer.running.wait_until_quiet(self._options.patience_seconds):
                await consumer.settler.drain()
        hanging = sum(len(consumer.running) for consumer in consumers)
        done = done or (ran - hanging)
        if visible and not done and not hanging:
            # Visible messages that no claim returns may be suspects.
            done = await self._worker.suspects.run(self._options.patience_seconds)
        return done

    async def _refresh(self) -> None:
        """Queries what is due next, if it is not known. A settlement may have changed anything."""
        if self._settlements_seen != self._observer.settlements:
            self._settlements_seen = self._observer.settlements
            self._upcoming.forget()
        await self._upcoming.refresh()

    async def _look_again(self) -> None:
        """Anything may have changed, the queues that push too."""
        self._look_at = await self._worker.find_consumers()
        self._upcoming.forget()

    def _raise(self) -> None:
        error = self._observer.take_error()
        if self._options.raise_errors and error is not None:
            raise error

    def _check_hanging(self) -> None:
        for consumer in self._worker.consumers:
            if consumer.running:
                seconds = self._options.patience_seconds
                raise NeverEnds(
                    f"a handler of {consumer.queue.name!r} has run for {seconds:g} seconds; "
                    "advance() past its timeout_seconds to see it stopped"
                )

    @asynccontextmanager
    async def deploy(self, app: Tickwork, *, beside: bool = False) -> AsyncIterator[Harness]:
        """Runs another app, such as the next version of this one, on the same store and clock. This
        one has stopped, or with `beside` goes on, as in a rolling deploy: each does what is left to
        it when its own `drain` or `advance` is called."""
        if not beside:
            await self.stop()
            await self.store.nodes.leave(SYSTEM, self._node.id)
        async with _on_store(_checked_engine(app), self.store, self._clock, self._options) as made:
            yield made

    # The node

    async def join(self) -> None:
        """Joins with a new identity."""
        self._node.id = new_id()
        await self.store.nodes.join(
            SYSTEM,
            self._node.id,
            name="harness",
            roles=ROLES,
            ttl_seconds=TTL_SECONDS_MAX,
            workflows=self._node.workflows,
            permits=self._node.permits,
        )
        await self._scheduler.hold()

    async def maintain(self) -> None:
        """Renews the node's lease and runs the maintenance of the store."""
        try:
            await self.store.nodes.heartbeat(SYSTEM, self._node.id, TTL_SECONDS_MAX)
        except NodeExpired:
            self._worker.drop_claims()
            await self.join()
        for _ in range(ROUNDS_MAX):
            reaped = await self.store.reaper.reap(SYSTEM, REAP_BATCH_MAX)
            self._schedule_metrics.claims_reaped(reaped)
            if reaped.released + reaped.dead < REAP_BATCH_MAX:
                break
        await self.store.pruner.prune(SYSTEM, PRUNE_BATCH_MAX)
        await self._scheduler.sweep()
        self._maintained_at = self.now
        await self._look_again()

    async def stop(self) -> None:
        """Stops running handlers."""
        for consumer in self._worker.consumers:
            await consumer.drain(0.0)

    def _scope(self, queue: str) -> Scope:
        declared = self._engine.registry.queues.get(queue)
        return SYSTEM if declared and declared.is_shared else self._engine.declared.scope_of(queue)


@asynccontextmanager
async def harness(
    app: Tickwork,
    *,
    start: datetime = START,
    database: str | None = None,
    topology: str | Path | None = None,
    raise_errors: bool = False,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Harness]:
    """Runs an app on its own empty store, with a virtual clock that starts at `start`.

    The store is a temporary SQLite file, or with `database="postgresql://…"` a new schema there.
    `topology` is a file like `tickwork.toml`, whose queues and subscriptions are applied first.
    Handlers fail as in production, with retries and dead letters. With `raise_errors` the first
    error is raised in the test instead.
    """
    engine = _checked_engine(app)
    clock = VirtualClock(start)
    async with open_empty_store(database, clock.shown, tenant=app.tenant) as store:
        options = Options(topology, raise_errors, patience_seconds)
        async with _on_store(engine, store, clock, options) as made:
            yield made


class Options(NamedTuple):
    """What the caller of a harness has chosen."""

    topology: str | Path | None
    raise_errors: bool
    patience_seconds: float


@asynccontextmanager
async def _on_store(
    engine: AppEngine, store: Store, clock: VirtualClock, options: Options
) -> AsyncIterator[Harness]:
    """Runs an app on a store and under a clock that are there."""
    observer, schedule_metrics = HarnessObserver(), ScheduleMetrics()
    recorded, public_url = RecordedDeliveries(), engine.public_url() or PUBLIC_URL
    async with engine.using(
        store,
        clock.now,
        secret_box=PlainBox,
        webhook_sink=lambda: recorded,
        public_url=lambda: public_url,
    ):
        if options.topology is not None:
            topology = _read_topology(Path(options.topology))
            await apply(Context(store, engine.own_scope), topology)
        built_in, find = await recording_consumers(store, recorded, clock, public_url)
        steps = HarnessSteps()
        runs = steps.consumers(store, engine.registry, clock, observer)
        built_in += [*runs.consumers, *await engine.entities.consumers(store)]
        consumers = [*engine.registry.consumers(), *built_in]
        assembly = await assemble(
            store,
            engine.registry,
            Observers(schedule_metrics, observer, ScheduleLog(observer.repeats)),
            compose=engine.composer,
            scope_of=engine.declared.scope_of,
            consumers=observer.recording(consumers) if options.raise_errors else consumers,
            roles=ROLES,
            open_node_store=_never_opened,
            node_name="harness",
            virtual_clock=clock.monotonic,
            find=[find, runs.find],
        )
        made = Harness(
            engine,
            store,
            assembly,
            clock=clock,
            observer=observer,
            schedule_metrics=schedule_metrics,
            options=options,
            deliveries=recorded,
            steps=steps,
        )
        async with assembly.isolator:
            await made.join()
            try:
                calling = engine.entities.joined(store, assembly.node, made.drain)
                async with calling:
                    with engine.registry.served():
                        yield made
            finally:
                await made.stop()


def _checked_engine(app: object) -> AppEngine:
    if not isinstance(app, Tickwork):
        fault = f"must be the app, what Tickwork(…) made, not {shortened(app)}"
        raise InvalidInput([FieldError("app", fault)])
    engine = engine_of(app)
    engine.registry.check()
    return engine


def _read_topology(file: Path) -> Topology:
    return parse(file.read_text(encoding="utf-8"), file=file.name)


async def _never_opened() -> Store:
    raise AssertionError("the harness renews the node's lease itself")


def _with_ids(message: Message) -> Message:
    """A message whose ids are those that users see."""
    return structs.replace(
        message,
        id=Id.of(Prefix.MESSAGE, message.id),
        batch_id=Id.of_optional(Prefix.BATCH, message.batch_id),
        schedule_id=Id.of_optional(Prefix.SCHEDULE, message.schedule_id),
    )
