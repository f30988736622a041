"""A failover to a replica that missed the last handovers: no token is given out twice.

What was planned on the primary and not yet replicated is lost, and is planned again: an
asynchronous failover can promise no more. But leaders of the lost handovers can do no harm.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from tests.faults.fleet import BOUND_SECONDS, Fleet, drained, leads
from tests.faults.open_store import opened
from tests.kit.postgres import PostgresServer
from tests.kit.postgres_replica import PostgresReplica
from tests.kit.process import Children
from tests.kit.proxy import TcpProxy
from tests.kit.waiting import eventually
from tickwork.core.model import SYSTEM
from tickwork.store.postgres.engine.migrate import migrate
from tickwork.testing.checkers import HandOver, History, decreasing_tokens, find_violations

TIMELINE = "+ ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def address(primary: PostgresServer) -> AsyncIterator[TcpProxy]:
    """The URL of the server, whichever it is."""
    at = urlsplit(primary.url)
    assert at.hostname is not None
    assert at.port is not None
    async with TcpProxy(at.hostname, at.port) as proxy:
        yield proxy


class Failover:
    """Two nodes, a primary that dies, and the handovers before and after."""

    def __init__(self, primary: PostgresServer, address: TcpProxy, fleet: Fleet) -> None:
        self._primary, self._address, self.fleet = primary, address, fleet
        self.lost: list[HandOver] = []

    @property
    def url(self) -> str:
        """Through the address that moves."""
        place = f"postgres@127.0.0.1:{self._address.port}"
        return urlsplit(self._primary.url)._replace(netloc=place).geturl()

    async def happens(self, replica: PostgresReplica, says: dict[str, tuple[str, str]]) -> None:
        async with opened(self._primary.url) as store:
            await self.fleet.prepare(store)
            first = await self.fleet.started(url=self.url, says=says)
            await replica.caught_up()
            await replica.cut_off()
            # Half of the shards are handed over, and the replica does not know.
            second = await self.fleet.started(url=self.url, says=says)
            node = await leads(second)

            async def has_its_half() -> bool:
                holders = [shard.node for shard in await store.shards.list(SYSTEM)]
                return holders.count(node) == len(holders) // 2

            await eventually(has_its_half, timeout_seconds=BOUND_SECONDS)
            self.lost = [*(await self.fleet.history(store, await store.now())).handed_over]
        assert first.returncode is None, first.stderr()
        self._primary.stop("immediate")
        await replica.promote()
        at = urlsplit(replica.url)
        assert at.port is not None
        self._address.redirect("127.0.0.1", at.port)
        self.fleet.url = replica.url

    async def handed_over(self, replica: PostgresReplica) -> list[HandOver]:
        """All handovers: those the replica knows from its primary, those it missed, and its own."""
        async with opened(replica.url) as store:
            history = await self.fleet.history(store, await store.now())
        known = {(hand_over.shard, hand_over.token, hand_over.node) for hand_over in self.lost}
        last = max(hand_over.order for hand_over in self.lost)
        own = [
            structs.replace(hand_over, order=last + hand_over.order)
            for hand_over in history.handed_over
            if (hand_over.shard, hand_over.token, hand_over.node) not in known
        ]
        assert own, "nothing was handed over after the failover"
        return [*self.lost, *own]


@pytest.fixture
def failover(
    primary: PostgresServer, address: TcpProxy, children: Children, tmp_path: Path
) -> Failover:
    return Failover(primary, address, Fleet(primary.url, children, tmp_path))


async def test_no_token_is_reused_when_a_replica_is_promoted(
    primary: PostgresServer, failover: Failover
) -> None:
    await migrate(primary.url)
    with PostgresReplica(primary) as replica:
        await failover.happens(replica, says={})
        async with opened(replica.url) as store:
            until = await store.now()
            await drained(store, replica.url, until)
            assert find_violations(await failover.fleet.history(store, until)) == ()
        assert [*falling_tokens_of(await failover.handed_over(replica))] == []


@pytest.mark.soak
async def test_without_the_timeline_in_the_token_one_is_reused(
    primary: PostgresServer, failover: Failover
) -> None:
    await migrate(primary.url)
    with PostgresReplica(primary) as replica:
        await failover.happens(replica, says={"read_moment": (TIMELINE, "")})
        async with opened(replica.url) as store:
            await drained(store, replica.url, await store.now())
        assert [*falling_tokens_of(await failover.handed_over(replica))] != []


def falling_tokens_of(handed_over: list[HandOver]) -> list[str]:
    return [*decreasing_tokens(History(handed_over=handed_over))]
