"""Area `queue`: order, fairness, batches and dead letters, beside the same without them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from bench.beds import (
    BODY,
    QUEUE,
    Bed,
    PostgresBed,
    SqliteBed,
    batches,
    message,
    postgres_bed,
    postgres_server,
    sqlite_bed,
)
from bench.harness import (
    WALL,
    Goal,
    Result,
    Turn,
    bench,
    fastest,
    interleaved,
    judge,
    ratio_at_least,
    ratio_at_most,
    typical,
    value_under,
)
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Scope,
    Settlement,
    Tenant,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.shared.fair_shares import LANES_FRESH_SECONDS

SIZE = 100
TENANTS = 1_000
WORKERS = 4
MANY = 1_000_000
PER_ROUND = 20_000
ROUNDS = 7
KEYS_BUSY = 1_000
BLOCKED = 100_000
QUEUES = 10_000
LETTERS = 100_000
SHARED = "shared"
NODE_TTL_SECONDS = 3_600.0
ONE = Goal("value <= 1", lambda value, _: value <= 1)
NONE = Goal("value = 0", lambda value, _: value == 0)


@bench("queue")
def postgres_tenants() -> Iterator[Result]:
    """Four workers, a thousand tenants in one queue, a million messages; and one tenant's."""
    with (
        postgres_server() as server,
        postgres_bed(server) as one,
        postgres_bed(server) as many,
    ):
        _fill_shared(one, tenants=1, messages_per_tenant=ROUNDS * PER_ROUND)
        _fill_shared(many, tenants=TENANTS, messages_per_tenant=MANY // TENANTS)
        with _workers(one) as for_one, _workers(many) as for_many:
            turns = interleaved(
                lambda _: many.run(_work(for_many, PER_ROUND)),
                lambda _: one.run(_work(for_one, PER_ROUND)),
                rounds=ROUNDS,
                clock=WALL,
            )
            turn = fastest(turns)
            yield judge(
                "queue.postgres.tenants_1000",
                PER_ROUND / turn.candidate,
                "messages/s",
                reference=PER_ROUND / turn.floor,
                goal=ratio_at_least(0.5),
            )
            many.run(_work(for_many, MANY - ROUNDS * PER_ROUND))
        deadlocks = many.run(
            many.connection.fetchval("SELECT sum(deadlocks) FROM pg_stat_database")
        )
        yield judge("queue.postgres.deadlocks", float(deadlocks), "in 1,000,000 claims", goal=NONE)


@bench("queue")
def quiet_tenant() -> Iterator[Result]:
    """How many claims a single message waits beside a million of somebody else's."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        for name, bed in {"postgres": database, "sqlite": file}.items():
            _fill_shared(bed, tenants=1, messages_per_tenant=MANY)
            rounds = [bed.run(_rounds_until_quiet(bed)) for _ in range(9)]
            yield judge(f"queue.{name}.quiet_tenant", max(rounds), "claims", goal=ONE)


@bench("queue")
def busy_keys() -> Iterator[Result]:
    """A hundred thousand messages that wait behind busy keys, in front of those that may go."""
    with _pairs() as pairs:
        for name, (behind, clean) in pairs.items():
            behind.run(_hold_keys(behind))
            turn = fastest(_passing(behind, clean))
            yield judge(
                f"queue.{name}.behind_busy_keys",
                PER_ROUND / turn.candidate,
                "messages/s",
                reference=PER_ROUND / turn.floor,
                goal=ratio_at_least(0.8),
            )


@bench("queue")
def many_queues() -> Iterator[Result]:
    """A claim from one of ten thousand queues, all with messages, and from one alone."""
    with _pairs() as pairs:
        for name, (many, alone) in pairs.items():
            many.run(_make_queues(many.store))
            turn = typical(_passing(many, alone))
            yield judge(
                f"queue.{name}.queues_10000",
                turn.candidate / PER_ROUND * 1e6,
                "µs/message",
                reference=turn.floor / PER_ROUND * 1e6,
                goal=ratio_at_most(1.3),
            )


@bench("queue")
def postgres_batch() -> Iterator[Result]:
    """A batch of a million; the same rows as plain COPY; looks at its progress on the way."""
    with postgres_server() as server, postgres_bed(server) as ours, postgres_bed(server) as plain:
        seconds = plain.run(_copy(plain))
        yield from _batch("postgres", ours, seconds)


@bench("queue")
def sqlite_batch() -> Iterator[Result]:
    """The same on one file; the plain rows go in by executemany."""
    with sqlite_bed() as bed:
        yield from _batch("sqlite", bed, _insert_plain(bed))


def _batch(name: str, bed: Bed, plain_seconds: float) -> Iterator[Result]:
    batch_id, items = new_id(), [message() for _ in range(MANY)]
    began = time.perf_counter()
    bed.run(_create(bed.store, batch_id, items))
    created = time.perf_counter() - began
    yield judge(
        f"queue.{name}.batch_1000000",
        MANY / created,
        "items/s",
        reference=MANY / plain_seconds,
        goal=ratio_at_least(0.4),
    )
    looks: list[float] = []
    for _ in range(10):
        looks.append(_look(bed, batch_id))
        bed.pass_through(PER_ROUND, 500)
    yield judge(f"queue.{name}.batch_progress", max(looks) * 1e3, "ms", goal=value_under(5.0))


@bench("queue")
def replays() -> Iterator[Result]:
    """A hundred thousand dead letters sent anew, beside the same number sent in batches."""
    with postgres_server() as server, postgres_bed(server) as database, sqlite_bed() as file:
        yield _replay("postgres", database)
        yield _replay("sqlite", file)


def _replay(name: str, bed: Bed) -> Result:
    sent = batches(LETTERS, SIZE)
    seconds = _timed(lambda: bed.send(sent))
    bed.run(_kill_all(bed))
    replayed = _timed(lambda: bed.run(_replay_all(bed.store)))
    return judge(
        f"queue.{name}.replay_100000",
        LETTERS / replayed,
        "letters/s",
        reference=LETTERS / seconds,
        goal=ratio_at_least(0.25),
    )


@contextmanager
def _pairs() -> Iterator[dict[str, tuple[Bed, Bed]]]:
    """Two beds of each kind of store."""
    with (
        postgres_server() as server,
        postgres_bed(server) as one,
        postgres_bed(server) as other,
        sqlite_bed() as one_file,
        sqlite_bed() as other_file,
    ):
        yield {"postgres": (one, other), "sqlite": (one_file, other_file)}


def _passing(candidate: Bed, reference: Bed) -> list[Turn]:
    """The same messages through both."""
    for bed in (candidate, reference):
        bed.fill(ROUNDS * PER_ROUND)
    return interleaved(
        lambda _: candidate.pass_through(PER_ROUND, SIZE),
        lambda _: reference.pass_through(PER_ROUND, SIZE),
        rounds=ROUNDS,
        clock=WALL,
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _look(bed: Bed, batch_id: UUID) -> float:
    """Seconds of the middle one of some looks at a batch."""
    looks = sorted(
        _timed(lambda: bed.run(bed.store.batches.get(DEFAULT, batch_id))) for _ in range(9)
    )
    return looks[len(looks) // 2]


def _fill_shared(bed: Bed, *, tenants: int, messages_per_tenant: int) -> None:
    async def work() -> None:
        await bed.store.queues.put(SYSTEM, SHARED, QueueSettings())
        for number in range(tenants):
            tenant = f"tenant-{number:04}"
            await bed.store.tenants.put(SYSTEM, Tenant(id=tenant))
            scope = Scope(tenant)
            await bed.store.messages.send_bulk(
                scope, SHARED, (message() for _ in range(messages_per_tenant))
            )

    bed.run(work())
    if isinstance(bed, PostgresBed):
        bed.run(bed.connection.execute("VACUUM (ANALYZE) tickwork_messages"))


async def _rounds_until_quiet(bed: Bed) -> int:
    """Of a busy claimer: it has just looked, and knows of nobody else."""
    store, quiet = bed.store, Scope("quiet")
    request = ClaimRequest(queue=SHARED, holder=bed.node, limit=SIZE)
    await store.tenants.put(SYSTEM, Tenant(id="quiet"))
    await store.messages.claim(SYSTEM, request)
    await store.messages.send(quiet, SHARED, message())
    # A look at the lanes is kept for a moment; a round is what a claimer does with one look.
    await asyncio.sleep(LANES_FRESH_SECONDS)
    for number in range(1, 100):
        found = await store.messages.claim(SYSTEM, request)
        await store.messages.settle(
            SYSTEM,
            Settlement(
                tuple(
                    Ending(claim=claimed_message.current_claim, fate=Fate.ACK)
                    for claimed_message in found
                )
            ),
        )
        if any(claimed_message.tenant == "quiet" for claimed_message in found):
            return number
    raise AssertionError("the quiet tenant starves")


class _Worker:
    """A store of its own, with connections of its own, and a node."""

    def __init__(self, store: Store) -> None:
        self.store, self.node = store, new_id()


@contextmanager
def _workers(bed: PostgresBed) -> Iterator[list[_Worker]]:
    """Several workers on the database of a bed."""
    workers = [_Worker(bed.run(PostgresStore.open(bed.url))) for _ in range(WORKERS)]
    for worker in workers:
        bed.run(_join(worker))
    yield workers
    for worker in workers:
        bed.run(worker.store.close())


async def _join(worker: _Worker) -> None:
    await worker.store.nodes.join(
        SYSTEM, worker.node, name="worker", roles=["worker"], ttl_seconds=NODE_TTL_SECONDS
    )


async def _work(workers: list[_Worker], count: int) -> None:
    """Claims and settles that many, all workers at once."""
    left = count

    async def one(worker: _Worker) -> None:
        nonlocal left
        while left > 0:
            left -= SIZE
            request = ClaimRequest(queue=SHARED, holder=worker.node, limit=SIZE)
            found = await worker.store.messages.claim(SYSTEM, request)
            endings = tuple(
                Ending(claim=claimed_message.current_claim, fate=Fate.ACK)
                for claimed_message in found
            )
            await worker.store.messages.settle(SYSTEM, Settlement(endings))

    await asyncio.gather(*map(one, workers))


async def _hold_keys(bed: Bed) -> None:
    """Messages of some keys, whose first ones are handed out and stay so."""
    messages_per_key = BLOCKED // KEYS_BUSY + 1
    await bed.store.messages.send_bulk(
        DEFAULT,
        QUEUE,
        (_keyed(f"key-{number}") for _ in range(messages_per_key) for number in range(KEYS_BUSY)),
    )
    request = ClaimRequest(queue=QUEUE, holder=bed.node, limit=KEYS_BUSY)
    assert len(await bed.store.messages.claim(DEFAULT, request)) == KEYS_BUSY


def _keyed(key: str) -> NewMessage:
    return NewMessage(id=new_id(), body=BODY, key=key)


async def _make_queues(store: Store) -> None:
    for number in range(QUEUES):
        await store.queues.put(DEFAULT, f"queue-{number}", QueueSettings())
        await store.messages.send(DEFAULT, f"queue-{number}", message())


async def _create(store: Store, batch_id: UUID, items: list[NewMessage]) -> None:
    batch = await store.batches.create(DEFAULT, NewBatch(id=batch_id, queue=QUEUE), items)
    assert batch.total == MANY


async def _copy(bed: PostgresBed) -> float:
    """The same table, in pieces of the same size, with nothing else; the seconds it took."""
    await bed.connection.execute(
        "ALTER TABLE tickwork_messages ALTER visible_at SET DEFAULT now(), "
        "ALTER sent_at SET DEFAULT now()"
    )
    columns = ("tenant", "queue_id", "id", "body", "type", "source", "batch_id")
    rest = (BODY, "mail.send", "bench", bed.queue_id)
    rows = [("default", bed.queue_id, new_id(), *rest) for _ in range(MANY)]
    began = time.perf_counter()
    for start in range(0, MANY, 5_000):
        await bed.connection.copy_records_to_table(
            "tickwork_messages", records=rows[start : start + 5_000], columns=columns
        )
    return time.perf_counter() - began


def _insert_plain(bed: SqliteBed) -> float:
    """The same table, in pieces of the same size, with nothing else; the seconds it took."""
    statement = """
        INSERT INTO tickwork_messages (
            tenant, queue_id, sent_at, visible_at, id, body, batch_id, type, source
        ) VALUES ('default', x'00', 1, 1, ?, ?, x'01', 'mail.send', 'bench')
    """
    rows = [(new_id().bytes, BODY) for _ in range(MANY)]
    began = time.perf_counter()
    for start in range(0, MANY, 1_000):
        bed.connection.execute("BEGIN IMMEDIATE")
        bed.connection.executemany(statement, rows[start : start + 1_000])
        bed.connection.execute("COMMIT")
    return time.perf_counter() - began


async def _kill_all(bed: Bed) -> None:
    request = ClaimRequest(queue=QUEUE, holder=bed.node, limit=500)
    while found := await bed.store.messages.claim(DEFAULT, request):
        endings = tuple(
            Ending(
                claim=claimed_message.current_claim,
                fate=Fate.DEAD,
                reason="failed",
                error="no route to host 17",
            )
            for claimed_message in found
        )
        await bed.store.messages.settle(DEFAULT, Settlement(endings))


async def _replay_all(store: Store) -> None:
    selection, left = Selection(limit=1_000), LETTERS
    while left:
        replayed = await store.dead_letters.replay(DEFAULT, QUEUE, selection, Pace())
        assert replayed
        left -= len(replayed)
