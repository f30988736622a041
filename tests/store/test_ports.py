"""What a method of a noun may rely on, whatever runs its steps."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, Tenant
from tickwork.errors import Conflict, InvalidInput
from tickwork.store.contract import Store
from tickwork.store.nouns.tenants import Tenants, find_tenant
from tickwork.store.steps import After, Noun, Port, Statement, Steps, changes, reads, writes

ACME = Tenant(id="acme")
_SUSPEND = Statement("count_tenant_claims")


class Probe(Noun):
    """Methods that note what they do."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self.done: list[str] = []

    @changes
    def fail_late(self) -> Steps[None]:
        yield After(lambda: self.done.append("after"))
        yield from _SUSPEND.execute("acme")
        self.done.append("in the transaction")
        raise Conflict("too late")

    @writes(repeatable=True)
    def succeed(self) -> Steps[str]:
        yield After(lambda: self.done.append("after"))
        yield from _SUSPEND.execute("acme")
        self.done.append("in the transaction")
        return "done"

    @reads
    def read_nothing(self) -> Steps[str]:
        yield After(lambda: self.done.append("after"))
        return "nothing read"

    @reads
    def find(self, tenant_id: str) -> Steps[Tenant | None]:
        return (yield from find_tenant(tenant_id))


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


@pytest.fixture
def probe(store: Store) -> Probe:
    assert isinstance(store.tenants, Tenants)
    return Probe(store.tenants._port)


async def test_what_comes_after_the_commit_waits_for_it(probe: Probe) -> None:
    assert await probe.succeed() == "done"
    assert probe.done == ["in the transaction", "after"]


async def test_what_comes_after_the_commit_is_not_done_if_there_is_none(probe: Probe) -> None:
    with pytest.raises(Conflict):
        await probe.fail_late()
    assert probe.done == ["in the transaction"]


async def test_wrong_input_is_found_without_a_connection(store: Store, probe: Probe) -> None:
    await store.close()
    with pytest.raises(InvalidInput):
        await store.tenants.list(DEFAULT, 0)
    assert await probe.read_nothing() == "nothing read"
    assert probe.done == ["after"]


async def test_a_row_is_the_same_record_on_every_store(store: Store, probe: Probe) -> None:
    suspended = Tenant(id="acme", suspended=True, owner_targets=("queue:mail",))
    await store.tenants.put(SYSTEM, suspended)
    assert await probe.find("acme") == suspended
