"""Everything works behind a transaction-mode pooler; wake-ups use the direct URL."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.faults import tables
from tests.faults.steps import OUTPUTS, QUEUE, claim, ending, join, new_message, put_queues, send
from tests.faults.steps import settle as settled
from tests.kit.pooler import TransactionPooler
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.message.dead_letter import Selection
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Counts,
    Fate,
    QueueSettings,
    Settlement,
    SettleResult,
    Tenant,
)
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine.migrate import migrate, schema_version

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

SERVER_CONNECTIONS = 2
USERS = 8
ROUNDS = 5
MESSAGES = 5
WAKE_SECONDS_MAX = 30.0


@pytest.fixture
async def pooler(home: Home) -> AsyncIterator[TransactionPooler]:
    async with TransactionPooler(home.url, server_connections=SERVER_CONNECTIONS) as opened:
        yield opened


@pytest.fixture
async def store(pooler: TransactionPooler, home: Home) -> AsyncIterator[Store]:
    opened = await PostgresStore.open(pooler.url, direct_url=home.url, connections_max=USERS)
    await put_queues(opened)
    await tables.fetch(home.url, tables.EFFECTS)
    yield opened
    await opened.close()


class User:
    """Sends, claims and settles in every way, concurrently with the others."""

    def __init__(self, store: Store, url: str) -> None:
        self._store, self._url = store, url
        self.done: list[UUID] = []

    async def run(self) -> None:
        node_id = await join(self._store)
        for _ in range(ROUNDS):
            await send(self._store)
            batch = [new_message() for _ in range(MESSAGES)]
            await self._store.messages.send_batch(DEFAULT, QUEUE, batch)
            await self._store.messages.send_bulk(DEFAULT, QUEUE, [new_message()])
            await self._settle_some(node_id)
            await self._store.nodes.heartbeat(SYSTEM, node_id, 600)
        await self._store.nodes.leave(SYSTEM, node_id)

    async def _settle_some(self, node_id: UUID) -> None:
        first, *others = await claim(self._store, node_id, limit=MESSAGES)
        effect = tables.writing(self._url, str(first.id), "user")
        settlement = Settlement((ending(first, sends=1),))
        await self._store.messages.settle_jointly(DEFAULT, settlement, effect)
        fates = [Fate.RETRY, Fate.RELEASE, *[Fate.ACK] * len(others)]
        endings = [ending(other, fate) for other, fate in zip(others, fates, strict=False)]
        assert await settled(self._store, *endings) == SettleResult()
        self.done += [first.id, *(end.claim.id for end in endings if end.fate is Fate.ACK)]


async def test_many_users_work_over_few_server_connections(
    pooler: TransactionPooler, store: Store, home: Home
) -> None:
    users = [User(store, home.url) for _ in range(USERS)]
    async with asyncio.timeout(120):
        await asyncio.gather(*(user.run() for user in users))
    assert pooler.waited, "they did not get in each other's way"
    done = [message_id for user in users for message_id in user.done]
    assert len(done) == len(set(done))
    sent = USERS * ROUNDS * (MESSAGES + 2)
    counts = await store.queues.counts(DEFAULT, QUEUE)
    assert counts == Counts(ready=sent - len(done))
    assert counts.ready == len(await tables.inputs_in(home.url, QUEUE))
    effects = await tables.effects_of(home.url)
    assert len(effects) == len(set(effects)) == USERS * ROUNDS
    outputs = await tables.outputs_in(home.url, OUTPUTS)
    assert sorted(cause for cause, _ in outputs) == sorted(effects)


async def test_every_noun_works_through_a_pooler(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="acme", weight=2))
    assert (await store.tenants.get(SYSTEM, "acme")).weight == 2
    assert [queue.name for queue in await store.queues.list(DEFAULT)] == [OUTPUTS, QUEUE]
    first, second, third = await send(store, 3)
    assert {message.id for message in await store.messages.peek(DEFAULT, QUEUE, 9)} >= {
        first,
        second,
    }
    assert await store.messages.delete(DEFAULT, QUEUE, third)
    with pytest.raises(NotFound):
        await store.messages.get(DEFAULT, QUEUE, third)
    pull = ClaimRequest(queue=QUEUE, holder=new_id(), limit=1, lease_seconds=600)
    (pulled,) = await store.messages.claim(DEFAULT, pull)
    assert await store.messages.extend(DEFAULT, pulled.current_claim, 0)
    await eventually(lambda: _released(store))
    await store.queues.pause(DEFAULT, QUEUE)
    assert await claim(store, await join(store)) == ()
    await store.queues.resume(DEFAULT, QUEUE)
    node_id = await join(store)
    assert len(await claim(store, node_id)) == 2
    assert await store.nodes.give_back_unknown(SYSTEM, node_id, [first]) == 1
    (held,) = await claim(store, node_id)
    assert await settled(store, ending(held, Fate.DEAD)) == SettleResult()
    (letter,) = (await store.dead_letters.list(DEFAULT, QUEUE, Selection())).letters
    assert letter.message_id == held.id
    assert await store.nodes.leave(SYSTEM, node_id) == 1
    assert await store.queues.purge(DEFAULT, QUEUE) == 1
    await store.queues.delete(DEFAULT, OUTPUTS)
    await store.queues.put(DEFAULT, "again", QueueSettings())
    assert (await store.meta()).schema_version >= 1
    assert (await store.now()).tzinfo is not None


async def _released(store: Store) -> bool:
    return (await store.reaper.reap(SYSTEM, 10)).released == 1


async def test_wakeups_arrive_over_the_direct_url(store: Store, home: Home) -> None:
    other = await PostgresStore.open(home.url)
    queue = await store.queues.get(DEFAULT, QUEUE)
    try:
        for sender, sleeper in ((other, store), (store, other)):
            async with sleeper.wakeups.watch([queue.id]) as watch:
                while await watch.wait(0.5):
                    pass
                await send(sender)
                assert await watch.wait(WAKE_SECONDS_MAX)
    finally:
        await other.close()


async def test_a_database_is_migrated_through_a_pooler(postgres_url: str, home: Home) -> None:
    async with TransactionPooler(postgres_url, server_connections=SERVER_CONNECTIONS) as pooler:
        assert await schema_version(pooler.url) == 0
        applied = await migrate(pooler.url)
        assert await migrate(pooler.url) == ()
        versions = {await schema_version(url) for url in (pooler.url, home.url)}
        assert versions == {len(applied)}
