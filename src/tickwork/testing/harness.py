"""An app under a virtual clock: time moves from one due thing to the next, and handlers run.

```
  advance ──▶ everything that is due now ──▶ to the next due thing ──▶ everything … until then
                a message's time · a batch that has waited long enough · a handler's time limit ·
                a lease or a message that expires · the rate of a queue · a schedule to look at
```

What plans, handles, invokes and settles is the worker's own; only its loops are not running. While
a handler runs no time passes: what it waits for by itself (a socket, `asyncio.sleep`) takes as long
as it does in life.

Where an app's store is while it is tested: empty at the beginning, gone at the end.

By default a SQLite file of its own. In a PostgreSQL database it is a schema of its own, so that
whatever else is there is left alone; tables of the app's own are found in `public`, after it.
Nothing of it has to outlive a power cut: no commit waits for a disk.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from reprlib import repr as shortened
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from tickwork import wiring
from tickwork.app.handlers import check_queue_name
from tickwork.core.limits import DELAY_SECONDS_MAX, LIST_LIMIT_MAX, TTL_SECONDS_MAX
from tickwork.core.message.body import decode_body
from tickwork.core.message.dead_letter import DEAD_LETTERS_AT_ONCE_MAX, DeadLetter, Selection
from tickwork.core.model import SYSTEM, ContentType, Message, Scope, Tenant
from tickwork.errors import FieldError, InvalidInput, NodeExpired
from tickwork.facade.app import Tickwork, engine_of
from tickwork.facade.engine import AppEngine
from tickwork.service.isolation import Isolator
from tickwork.service.maintenance import PRUNE_BATCH_MAX, REAP_BATCH_MAX
from tickwork.service.node import Node
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.service.worker.claim import Claimer, WorkerContext
from tickwork.service.worker.consumer import QueueConsumer
from tickwork.service.worker.worker import Worker, open_worker
from tickwork.store.contract import Store
from tickwork.store.ids import Moment, new_id
from tickwork.testing.clock import START, VirtualClock
from tickwork.testing.errors_seen import NeverEnds, Notes
from tickwork.testing.recording import read_sql
from tickwork.testing.upcoming import Planned, Upcoming, earliest

FAST_OPTIONS = ("synchronous_commit=off", "plan_cache_mode=force_generic_plan", "jit=off")
"""A step of the harness is some small statements, the same ones again and again: to plan each of
them anew takes the server longer than to carry it out."""


@asynccontextmanager
async def open_empty_store(
    database: str | None, moment: Moment, *, tenant: str
) -> AsyncIterator[Store]:
    """A store with nothing in it but a tenant, under a clock of the caller's."""
    if database is not None and database.startswith("postgresql://"):
        async with _schema(database) as name:
            # Alone, or the tables of another schema would pass for ours.
            await wiring.migrate(wiring.Settings(database=_within(database, name)))
            settings = wiring.Settings(database=_within(database, f"{name}, public"))
            async with _opened(settings, moment, tenant) as store:
                yield store
    elif database is None:
        with TemporaryDirectory(prefix="tickwork-") as folder:
            url = f"sqlite:///{Path(folder) / 'tickwork.db'}"
            async with _opened(wiring.Settings(database=url), moment, tenant) as store:
                yield store
    else:
        raise ValueError(f"None or a postgresql:// URL is wanted, not {database!r}")


@asynccontextmanager
async def _opened(settings: wiring.Settings, moment: Moment, tenant: str) -> AsyncIterator[Store]:
    store = await wiring.open_store(settings, moment=moment, is_temporary=True)
    try:
        await store.tenants.put(SYSTEM, Tenant(id=tenant))
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def _schema(url: str) -> AsyncIterator[str]:
    name = f"tickwork_{new_id().hex}"
    await _execute(url, read_sql("make_schema").replace("/*name*/", name))
    try:
        yield name
    finally:
        await _execute(url, read_sql("drop_schema").replace("/*name*/", name))


async def _execute(url: str, statement: str) -> None:
    with wiring.postgres_extra():
        import asyncpg
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _within(url: str, search_path: str) -> str:
    """The same database, with another place where names are looked for."""
    parts = urlsplit(url)
    settings = "&".join((f"search_path={quote(search_path)}", *FAST_OPTIONS))
    query = f"{parts.query}&{settings}" if parts.query else settings
    return urlunsplit(parts._replace(query=query))


PATIENCE_SECONDS = 10.0
"""So long, in real time, a handler may take; then it counts as one that hangs."""

MAINTENANCE_INTERVAL = timedelta(seconds=TTL_SECONDS_MAX) / 2
"""So often, at least, the node's lease is renewed and the store put in order."""

ROLES = ("scheduler", "worker")
ROUNDS_MAX = 10_000
STEPS_MAX = 1_000_000
_SOON = timedelta(microseconds=1)
_FAR = timedelta(seconds=DELAY_SECONDS_MAX + 1)


class Sent(NamedTuple):
    """A message that was sent, its body as plain values."""

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
    """The app's handlers, and its time."""

    def __init__(
        self,
        engine: AppEngine,
        worker: Worker,
        node: Node,
        context: WorkerContext,
        *,
        clock: VirtualClock,
        notes: Notes,
        planned: Planned,
        raise_errors: bool,
        patience_seconds: float,
    ) -> None:
        self._engine, self._worker, self._node, self.store = engine, worker, node, context.store
        self._clock, self._notes = clock, notes
        self._raise_errors, self._patience_seconds = raise_errors, patience_seconds
        assert worker.scheduler is not None
        self._scheduler = worker.scheduler
        self._kept_at = clock.now()
        self._upcoming = Upcoming(self.store, worker.consumers)
        self._planned, self._settled = planned, notes.settlements

    @property
    def now(self) -> datetime:
        """The time it is."""
        return self._clock.now()

    async def drain(self) -> None:
        """Handles everything that is visible, and what comes of it, until nothing is left.

        Time passes only as far as batches that are being gathered, and the rates of queues, make
        it pass. `NeverEnds` if a handler hangs, or makes new work without end.
        """
        self._upcoming.forget()
        await self._work()
        for _ in range(STEPS_MAX):
            self._check_hanging()
            held_up = [await self._held_up(each) for each in self._worker.consumers]
            until = earliest(*held_up)
            if until is None:
                return
            await self._step(until)
        raise NeverEnds("there is always more to do; does a handler send without end?")

    async def advance(self, **amounts: float) -> None:
        """Lets time pass, as `timedelta` says it: `days=6`, `minutes=1, seconds=30`.

        Everything that is due meanwhile happens, each at its time.
        """
        amount = timedelta(**amounts)
        if amount < timedelta():
            raise ValueError(f"time goes forward: {amount.total_seconds():g} seconds")
        until = self.now + amount
        self._upcoming.forget()
        await self._work()
        for _ in range(STEPS_MAX):
            if self.now >= until:
                break
            await self._step(until)
        else:
            raise NeverEnds("there is always something due; does a handler send without end?")

    async def outage(self, **amounts: float) -> None:
        """Lets time pass while nobody is there: nothing is planned, and nothing handled."""
        self._clock.advance(seconds=timedelta(**amounts).total_seconds())

    async def sent(self, queue: str) -> list[Sent]:
        """What was sent to a queue, in order: what was handled, and what waits, also for its
        time; not what waits behind another message of its key."""
        check_queue_name("queue", queue)
        scope = self._scope(queue)
        queue_id = (await self.store.queues.get(scope, queue)).id
        found = dict(self._notes.handled_messages.get(queue_id, {}))
        with self._clock.showing(self.now + _FAR):
            waiting = await self.store.messages.peek(scope, queue, LIST_LIMIT_MAX)
        found.update((each.id, each) for each in waiting)
        ordered = sorted(found.values(), key=lambda each: (each.sent_at, each.id))
        return [Sent(_plain(each.body, each.content_type), each) for each in ordered]

    async def dead(self, queue: str) -> list[Dead]:
        """The dead letters of a queue, oldest first."""
        check_queue_name("queue", queue)
        selection = Selection(limit=DEAD_LETTERS_AT_ONCE_MAX)
        found = await self.store.dead_letters.list(self._scope(queue), queue, selection)
        return [
            Dead(_plain(each.body, each.content_type), each.reason, each.error, each.attempts, each)
            for each in found
        ]

    # Time

    async def _step(self, until: datetime) -> None:
        """To the next due thing, but not further than this."""
        at = min(until, await self._next_due())
        self._clock.move_to(max(at, self.now + _SOON))
        expiry = self._upcoming.expiry
        is_expired = expiry is not None and expiry <= self.now
        if is_expired or self.now >= min(self._kept_at + MAINTENANCE_INTERVAL, until):
            await self.keep()
        await self._work()

    async def _next_due(self) -> datetime:
        await self._ask()
        within = [await self._due(each) for each in self._worker.consumers]
        kept = self._kept_at + MAINTENANCE_INTERVAL
        return earliest(self._upcoming.first, *within, kept) or kept

    async def _due(self, consumer: QueueConsumer) -> datetime | None:
        """When something in hand is due."""
        return earliest(await self._held_up(consumer), self._at(consumer.overdue_at()))

    async def _held_up(self, consumer: QueueConsumer) -> datetime | None:
        """When what is visible already can be handled."""
        return earliest(self._at(consumer.batch_due()), await self._rate_due(consumer))

    async def _rate_due(self, consumer: QueueConsumer) -> datetime | None:
        rate = consumer.queue.settings.rate_per_second
        if rate is None or not await self.store.messages.peek(
            consumer.scope, consumer.queue.name, 1
        ):
            return None
        queue = await self.store.queues.get(consumer.scope, consumer.queue.name)
        return None if queue.paused else self.now + timedelta(seconds=1 / rate)

    def _at(self, monotonic_seconds: float | None) -> datetime | None:
        return None if monotonic_seconds is None else self._clock.at(monotonic_seconds)

    # Work

    async def _work(self) -> None:
        """Everything that can be done now."""
        for _ in range(ROUNDS_MAX):
            try:
                if not await self._round():
                    return
            except NodeExpired:
                self._worker.forget()
                await self.join()
                self._upcoming.forget()
            finally:
                self._raise()
        raise NeverEnds("a handler wants its message back at once, again and again")

    async def _round(self) -> int:
        """How much was done."""
        await self._ask()
        coming, consumers = self._upcoming, self._worker.consumers
        done = 0
        if coming.is_look_due(self.now) and (done := await self._scheduler.plan_due()):
            coming.planned(self._planned.take_first())
        visible = coming.visible(self.now)
        for each in consumers:
            each.stop_overdue()
            if each in visible:
                done += await each.step()
                coming.forget()
        ran = sum(each.running for each in consumers)
        for each in consumers:
            await each.wait_until_quiet(self._patience_seconds)
        hanging = sum(each.running for each in consumers)
        done = done or (ran - hanging)
        if visible and not done and not hanging:
            # What is visible, and nobody is given, may have to run apart.
            done = await self._worker.run_suspects(self._patience_seconds)
        return done

    async def _ask(self) -> None:
        """Asks what is to come, if it is not known. What a handler did is known with its end."""
        if self._settled != self._notes.settlements:
            self._settled = self._notes.settlements
            self._upcoming.forget()
        await self._upcoming.ask()

    def _raise(self) -> None:
        error = self._notes.take_error()
        if self._raise_errors and error is not None:
            raise error

    def _check_hanging(self) -> None:
        for each in self._worker.consumers:
            if each.running:
                raise NeverEnds(
                    f"a handler of {each.queue.name!r} has run for {self._patience_seconds:g} "
                    "seconds; advance() past its timeout_seconds to see it stopped"
                )

    # Order

    async def join(self) -> None:
        """Takes a new identity."""
        self._node.id = new_id()
        await self.store.nodes.join(
            SYSTEM, self._node.id, name="harness", roles=ROLES, ttl_seconds=TTL_SECONDS_MAX
        )
        await self._scheduler.hold()

    async def keep(self) -> None:
        """Renews the node's lease, and puts the store in order as time passes."""
        try:
            await self.store.nodes.heartbeat(SYSTEM, self._node.id, TTL_SECONDS_MAX)
        except NodeExpired:
            self._worker.forget()
            await self.join()
        for _ in range(ROUNDS_MAX):
            reaped = await self.store.reaper.reap(SYSTEM, REAP_BATCH_MAX)
            self._notes.reaped(reaped)
            if reaped.released + reaped.dead < REAP_BATCH_MAX:
                break
        await self.store.pruner.prune(SYSTEM, PRUNE_BATCH_MAX)
        await self._scheduler.sweep()
        self._kept_at = self.now
        self._upcoming.forget()

    async def stop(self) -> None:
        """Stops what still runs."""
        for each in self._worker.consumers:
            await each.drain(0.0)

    def _scope(self, queue: str) -> Scope:
        declared = self._engine.registry.queues.get(queue)
        return SYSTEM if declared and declared.is_shared else self._engine.scope_of(queue)


@asynccontextmanager
async def harness(
    app: Tickwork,
    *,
    start: datetime = START,
    database: str | None = None,
    raise_errors: bool = False,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[Harness]:
    """An app on an empty store of its own, where time is virtual and begins at `start`.

    The store is a SQLite file, or with `database="postgresql://…"` a schema of its own there.
    Handlers fail as they do in life, with retries and dead letters; with `raise_errors` the first
    error is raised in the test instead.
    """
    given: object = app
    if not isinstance(given, Tickwork):
        fault = f"must be the app, what Tickwork(…) made, not {shortened(given)}"
        raise InvalidInput([FieldError("app", fault)])
    engine = engine_of(app)
    engine.registry.check()
    clock, planned = VirtualClock(start), Planned()
    notes = Notes(planned)
    async with (
        open_empty_store(database, clock.shown, tenant=app.tenant) as store,
        engine.using(store),
    ):
        node = Node(lambda: _none(), name="harness", roles=ROLES)
        context = WorkerContext(
            store=store,
            claims=Claimer(store),
            holder=lambda: node.id,
            compose=engine.composer,
            isolator=Isolator(engine.registry.handlers),
            observer=notes,
            is_virtual=True,
            monotonic=clock.monotonic,
        )
        consumers = engine.registry.consumers()
        watched = notes.watched(consumers) if raise_errors else consumers
        leadership = Leadership(store, lambda: node.id, is_trusted=lambda: True)
        scheduler = Scheduler(
            store, leadership, planned, tell=notes.trouble, monotonic=clock.monotonic
        )
        worker = await open_worker(context, node, watched, engine.scope_of, scheduler)
        made = Harness(
            engine,
            worker,
            node,
            context,
            clock=clock,
            notes=notes,
            planned=planned,
            raise_errors=raise_errors,
            patience_seconds=patience_seconds,
        )
        async with context.isolator:
            await made.join()
            try:
                with engine.registry.served():
                    yield made
            finally:
                await made.stop()


async def _none() -> Store:
    raise AssertionError("the harness keeps the node's lease itself")


def _plain(body: bytes, content_type: ContentType) -> Any:
    """A body as plain values; as bytes if it is not what it says."""
    try:
        return decode_body(body, content_type)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body
