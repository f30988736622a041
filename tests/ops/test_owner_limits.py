"""What one owner may schedule does not depend on what its tenant may: a least interval, and a
number of schedules, whoever creates them for the owner, on both stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.acts import WORK, make_queue
from tests.kit.contexts import acting
from tickwork.core.model import DEFAULT, SYSTEM, Scope, Tenant
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.core.when import Limits
from tickwork.errors import InvalidInput, TooMany
from tickwork.ops.context import Context
from tickwork.ops.schedules import change, create
from tickwork.ops.schedules.preview import preview
from tickwork.store.contract import Store

APP = Limits(min_interval_seconds=1, owner_min_interval_seconds=60)
"""The app itself may fire every second, its owners every minute."""

ADA = Scope("default", "ada")
FAST: dict[str, Any] = {"interval_seconds": 30, "target": {"type": "queue", "queue": WORK}}
SLOW = {**FAST, "interval_seconds": 60}
CRON = {**FAST, "cron_expr": "*/30 * * * * *", "interval_seconds": None}

Create = Callable[[Store, Scope, dict[str, Any]], Awaitable[object]]


@pytest.fixture(autouse=True)
async def queue(store: Store) -> None:
    await make_queue(store)


async def limit(store: Store, **quotas: int) -> None:
    tenant = Tenant(id="default", owner_targets=(f"queue:{WORK}",), **quotas)  # type: ignore[arg-type]
    await store.tenants.put(SYSTEM, tenant)


async def one(store: Store, scope: Scope, body: dict[str, Any]) -> Any:
    return await create.create(acting(store, scope, limits=APP), body)


async def many(store: Store, scope: Scope, body: dict[str, Any]) -> object:
    return await create.create_many(acting(store, scope, limits=APP), [SLOW, body])


async def bulk(store: Store, scope: Scope, body: dict[str, Any]) -> object:
    return await create.create_bulk(acting(store, scope, limits=APP), [SLOW, body])


async def checked(store: Store, scope: Scope, body: dict[str, Any]) -> None:
    await create.check_many(acting(store, scope, limits=APP), [SLOW, body])


@pytest.mark.parametrize("make", [one, many, bulk, checked])
async def test_an_owner_has_a_least_interval_whoever_creates_its_schedules(
    store: Store, make: Create
) -> None:
    await make(store, DEFAULT, FAST)
    for body in (FAST, CRON):
        with pytest.raises(InvalidInput):
            await make(store, DEFAULT, {**body, "owner": "ada"})
    with pytest.raises(InvalidInput, match=r"minimum here is 60 s .*owner_min_interval_seconds"):
        await make(store, DEFAULT, {**FAST, "owner": "ada"})
    await make(store, DEFAULT, {**SLOW, "owner": "ada"})


async def test_an_owner_bound_caller_has_the_interval_of_owners(store: Store) -> None:
    await limit(store)
    for use in (
        one(store, ADA, FAST),
        preview(acting(store, ADA, limits=APP), {"interval_seconds": 30}),
    ):
        with pytest.raises(InvalidInput, match="the minimum here is 60 s"):
            await use
    made = await one(store, ADA, SLOW)
    assert made.owner == "ada"
    # The tenant may fire faster, but not in the name of its owner.
    for scope in (ADA, DEFAULT):
        with pytest.raises(InvalidInput, match="the minimum here is 60 s"):
            await change.update(acting(store, scope, limits=APP), made.id, {"interval_seconds": 30})
    await change.update(acting(store, ADA, limits=APP), made.id, {"interval_seconds": 90})


async def test_the_quota_of_a_tenant_replaces_the_setting_for_owners(store: Store) -> None:
    await limit(store, owner_min_interval_seconds=300)
    with pytest.raises(InvalidInput, match="the minimum here is 300 s"):
        await one(store, ADA, SLOW)
    await one(store, DEFAULT, FAST)
    await limit(store, owner_min_interval_seconds=20)
    made = await one(store, ADA, FAST)
    # A stored schedule that is faster than a later quota keeps its rule.
    await limit(store, owner_min_interval_seconds=60)
    await change.update(acting(store, ADA, limits=APP), made.id, {"priority": 9})
    with pytest.raises(InvalidInput, match="the minimum here is 60 s"):
        await change.update(acting(store, ADA, limits=APP), made.id, {"interval_seconds": 31})


async def test_an_owner_fires_no_more_often_than_its_tenant(store: Store) -> None:
    await limit(store, min_interval_seconds=120, owner_min_interval_seconds=1)
    with pytest.raises(InvalidInput, match=r"the minimum here is 120 s$"):
        await one(store, ADA, SLOW)


@pytest.mark.parametrize("make", [one, many, bulk])
async def test_an_owner_has_a_number_of_schedules_whoever_creates_them(
    store: Store, make: Create
) -> None:
    await limit(store, owner_schedules_max=1)
    body = {**SLOW, "owner": "ada"}
    await make(store, DEFAULT, body)
    with pytest.raises(TooMany, match="owner ada would have 2 schedules") as refused:
        await make(store, DEFAULT, body)
    assert refused.value.limit == "owner_schedules_max"
    with pytest.raises(TooMany):
        await one(store, ADA, SLOW)
    await make(store, DEFAULT, {**SLOW, "owner": "bob"})
    (first, *_) = [
        found
        for found in await store.schedules.list(DEFAULT, ScheduleSelection(), 10)
        if found.owner == "ada"
    ]
    await change.delete(Context(store, ADA), first.id)
    await make(store, DEFAULT, body)
