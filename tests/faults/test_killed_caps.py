"""Tenant caps while many processes claim and are killed: never exceeded, and used fully."""

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import tables
from tests.faults.checks import with_expiries
from tests.faults.crew import Crew, accounted_for, handling, producing
from tests.faults.open_store import opened
from tests.faults.polling import Watching
from tests.faults.programs import handler, producer
from tests.faults.reaper_loop import Reaping
from tests.faults.tables import Look
from tests.kit.checkers import held_at_most
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork.core.model import (
    LOST_CLAIMS_SEPARATE,
    SYSTEM,
    NewMessage,
    QueueSettings,
    Scope,
    Tenant,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

QUEUE = "inputs"
CAP = 3
BACKLOG, LONELY = 50, 10
TENANTS = ("acme", "default", "umbrella")
ROUNDS = 1
ROUNDS_OF_A_SOAK = 60
ORDERS = handler.Orders(
    ways={QUEUE: {"plain": 6, "retry": 2, "release": 1}},
    together=3,
    pulls=0.3,
    busy_seconds_max=0.02,
)
POSTS = [
    producing(producer.Orders(queue=QUEUE, tenants=TENANTS, keys=50, keyed=0.2)),
    *[handling(ORDERS)] * 2,
]


class Hands:
    """Number of claims of each tenant, at one moment after the other."""

    def __init__(self, look: Look) -> None:
        self._look, self.most = look, Counter[str]()

    async def look(self) -> None:
        for tenant, claimed in await self._look(CLAIMED):
            assert claimed <= CAP, f"{tenant} has {claimed} messages in hand"
            self.most[tenant] = max(claimed, self.most[tenant])


CLAIMED = "SELECT tenant, count(*) FROM tickwork_messages WHERE state = 'claimed' GROUP BY tenant"


async def killed_amid_claims(
    home: Home, children: Children, folder: Path, *, rounds: int, seed: int
) -> None:
    crew = Crew(home.url, children, folder, seed=seed)
    async with opened(home.url) as store, tables.looking(home.url) as look:
        await put_up(store, home.url)
        hands = Hands(look)
        async with Reaping(store, crew.history), Watching(hands.look):
            async with crew.staffed(POSTS) as staff:
                await crew.kill_by_turns(POSTS, staff, rounds=rounds)
            await crew.drain(store, [QUEUE])
    history = crew.read()
    assert held_at_most(with_expiries(history), "tenant", CAP) == []
    assert await accounted_for(home.url, history, QUEUE) == []
    assert hands.most == Counter(dict.fromkeys(TENANTS, CAP))


async def put_up(store: Store, url: str) -> None:
    for tenant in TENANTS:
        await store.tenants.put(SYSTEM, Tenant(id=tenant))
    settings = QueueSettings(max_retries=100, tenant_claimed_max=CAP)
    await store.queues.put(SYSTEM, QUEUE, settings)
    await store.queues.put(SYSTEM, handler.OUTPUTS, QueueSettings())
    await send_each(store, LONELY)
    # As if two workers had died with them: suspects are claimed separately, and count, too.
    await tables.fetch(url, f"UPDATE tickwork_messages SET lost = {LOST_CLAIMS_SEPARATE}")
    await send_each(store, BACKLOG)


async def send_each(store: Store, messages: int) -> None:
    for tenant in TENANTS:
        backlog = [NewMessage(id=new_id(), body=b"1") for _ in range(messages)]
        await store.messages.send_bulk(Scope(tenant), QUEUE, backlog)


async def test_no_tenant_exceeds_its_cap_whichever_process_is_killed(
    home: Home, children: Children, tmp_path: Path
) -> None:
    await killed_amid_claims(home, children, tmp_path, rounds=ROUNDS, seed=1)


@pytest.mark.soak
async def test_sixty_rounds_of_kills_never_exceed_a_cap(
    home: Home, children: Children, tmp_path: Path
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    await killed_amid_claims(home, children, tmp_path, rounds=ROUNDS_OF_A_SOAK, seed=seed)
