"""Here every test also runs on the model, so that the model obeys the same laws."""

from collections.abc import AsyncIterator

import pytest

from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Home
from tests.stores.open_homes import Homes
from tests.stores.postgres_home import KeptPools
from tickwork.core.model import SYSTEM, Scope
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.core.tenant_limits import is_active
from tickwork.store.contract import Store


@pytest.fixture(params=["model", *KINDS])
async def home(
    request: pytest.FixtureRequest, homes: Homes, pools: KeptPools
) -> AsyncIterator[Home]:
    """An empty database of each kind, and an empty model."""
    async with homes.take(request.param, pools) as taken:
        yield taken


@pytest.fixture
async def store(
    request: pytest.FixtureRequest, home: Home, clock: VirtualClock
) -> AsyncIterator[Store]:
    """An empty store of each kind. A test of schedules leaves their counters right."""
    opened = await home.open(clock)
    yield opened
    if "test_schedules" in request.node.nodeid:
        await check_schedule_counts(opened)
    await opened.close()


async def check_schedule_counts(store: Store) -> None:
    """The counter of each tenant is the number of its schedules that may still fire."""
    for tenant in await store.tenants.list(SYSTEM, 100):
        scope = Scope(tenant.id)
        found = await store.schedules.list(scope, ScheduleSelection(), 1_000)
        active = [schedule for schedule in found if is_active(schedule.status)]
        if len(found) < 1_000:
            assert await store.schedules.count(scope) == len(active), tenant.id
