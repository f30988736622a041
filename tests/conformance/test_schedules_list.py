"""Lists of schedules over all tenants and of deleted ones, and the pruning of deleted ones."""

from typing import Any

import msgspec
import pytest

from tests.conformance.acts import ALL, make_queue, make_tenants
from tests.conformance.schedule_acts import (
    MINUTE,
    again,
    create,
    created_due,
    delete,
    end_next,
    firings,
    new_schedule,
    pause,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.schedule.model import (
    DELETED_KEPT_SECONDS,
    Schedule,
    ScheduleOrder,
    ScheduleSelection,
    ScheduleStatus,
)
from tickwork.errors import NotFound
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

DELETED = ScheduleStatus.DELETED


async def listed(
    store: Store, scope: Scope = SYSTEM, *, limit: int = ALL, **selection: Any
) -> list[Schedule]:
    return [*await store.schedules.list(scope, ScheduleSelection(**selection), limit)]


async def paged(store: Store, scope: Scope = SYSTEM, **selection: Any) -> list[Schedule]:
    """The same list, two per page."""
    found: list[Schedule] = []
    for _ in range(100):
        after = found[-1].id if found else None
        page = await listed(store, scope, limit=2, after=after, **selection)
        if not page:
            return found
        found += page
    raise AssertionError("there is always more")


async def make_some(store: Store, clock: VirtualClock) -> dict[str, Schedule]:
    """Schedules of two tenants, created in turn, each labelled by its tenant and name or number."""
    await make_queue(store, scope=SYSTEM)
    one, two = await make_tenants(store, "one", "two")
    made: dict[str, Schedule] = {}
    for number, (scope, name) in enumerate(
        [(two, "b"), (one, None), (two, None), (one, "c"), (two, "a"), (one, "a"), (one, None)]
    ):
        seconds = 1_000 - 100 * number
        schedule = await create(store, clock, scope=scope, name=name, interval_seconds=seconds)
        made[f"{scope.tenant}-{name or number}"] = schedule
        clock.advance(seconds=1)
    return made


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (ScheduleOrder.CREATED, "one-1 one-c one-a one-6 two-b two-2 two-a"),
        (ScheduleOrder.NAME, "one-a one-c one-1 one-6 two-a two-b two-2"),
        (ScheduleOrder.NEXT_DUE, "one-6 one-a two-a one-c two-2 one-1 two-b"),
    ],
)
async def test_the_system_lists_by_tenant_or_by_next_due_time(
    store: Store, clock: VirtualClock, order: ScheduleOrder, expected: str
) -> None:
    made = await make_some(store, clock)
    names = {(value.tenant, value.id): name for name, value in made.items()}
    found = await listed(store, order=order)
    assert " ".join(names[schedule.tenant, schedule.id] for schedule in found) == expected
    assert await paged(store, order=order) == found
    for tenant in ("one", "two"):
        own = [schedule for schedule in found if schedule.tenant == tenant]
        assert await listed(store, Scope(tenant), order=order) == own
        assert await paged(store, Scope(tenant), order=order) == own


async def test_deleted_schedules_are_listed_on_request_without_name_and_calendar(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await store.calendars.put(DEFAULT, "feasts", [])
    gone = [
        await delete(store, await create(store, clock, name=name, calendar="feasts"))
        for name in ("b", "a", None)
    ]
    kept = await create(store, clock, name="a", calendar="feasts")
    paused = await pause(store, await create(store, clock, name="b"))
    for order in (ScheduleOrder.CREATED, ScheduleOrder.NAME):
        assert await listed(store, DEFAULT, status=DELETED, order=order) == gone
        assert await paged(store, DEFAULT, status=DELETED, order=order) == gone
        chosen: tuple[dict[str, Any], ...] = ({"name": "a"}, {"calendar": "feasts"})
        for said in chosen:
            assert await listed(store, DEFAULT, status=DELETED, order=order, **said) == []
            assert await listed(store, DEFAULT, order=order, **said) == [kept]
    assert await listed(store, DEFAULT, status=DELETED, order=ScheduleOrder.NEXT_DUE) == []
    assert await listed(store, DEFAULT) == [kept, paused]
    assert await store.schedules.find(DEFAULT, "a") == kept
    assert await store.schedules.get(DEFAULT, gone[0].id) == gone[0]


async def pruned(store: Store, limit: int = ALL) -> int:
    return (await store.pruner.prune(SYSTEM, limit)).schedules


async def test_deleted_schedules_are_pruned_after_their_firings(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, name="a", idempotency_key="k", fingerprint=b"f")
    await end_next(store)
    await delete(store, made)
    deleted_at = clock.now()
    paused = await pause(store, await create(store, clock))
    single = await created_due(store, clock, once_at=(clock.now() + MINUTE).isoformat())
    await end_next(store)
    clock.advance(seconds=DELETED_KEPT_SECONDS - 1 - (clock.now() - deleted_at).total_seconds())
    assert await pruned(store) == 0
    assert (await again(store, made)).status is DELETED
    clock.advance(seconds=1)
    assert await pruned(store) == 1
    with pytest.raises(NotFound):
        await again(store, made)
    assert await firings(store, made) == []
    assert await listed(store, DEFAULT, status=DELETED) == []
    # Nothing else is pruned, however old it is.
    clock.advance(seconds=10 * DELETED_KEPT_SECONDS)
    assert await pruned(store) == 0
    assert (await again(store, paused)).status is ScheduleStatus.PAUSED
    assert (await again(store, single)).status is ScheduleStatus.COMPLETED
    (anew,) = await store.schedules.create(
        DEFAULT, [new_schedule(clock, name="a", idempotency_key="k", fingerprint=b"g")]
    )
    assert anew.status is ScheduleStatus.ACTIVE


async def test_deleted_schedules_are_pruned_oldest_first_up_to_a_limit(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [await create(store, clock) for _ in range(5)]
    for schedule in reversed(made):
        await delete(store, schedule)
        clock.advance(seconds=1)
    clock.advance(seconds=DELETED_KEPT_SECONDS - 3)
    assert [await pruned(store, 2) for _ in range(3)] == [2, 1, 0]
    left = await listed(store, DEFAULT, status=DELETED)
    assert [schedule.id for schedule in left] == [schedule.id for schedule in made[:2]]


encoded = msgspec.json.encode
ORDERS = [ScheduleOrder.CREATED, ScheduleOrder.NAME, ScheduleOrder.NEXT_DUE]


@pytest.mark.parametrize("order", ORDERS)
async def test_schedules_are_listed_by_owner_name_prefix_and_metadata(
    store: Store, clock: VirtualClock, order: ScheduleOrder
) -> None:
    await make_queue(store)
    wanted: list[dict[str, Any]] = [
        {"owner": "ada", "name": "report a", "metadata": encoded({"plan": "pro", "seats": 3})},
        {"owner": "ada", "name": "report b", "metadata": encoded({"plan": "free"})},
        {
            "owner": "bob",
            "name": "reminder",
            "metadata": encoded({"plan": "pro", "trial": True}),
        },
        {},
    ]
    both, first, other, bare = [await create(store, clock, **fields) for fields in wanted]

    async def names(**selection: Any) -> set[str | None]:
        found = await paged(store, DEFAULT, order=order, **selection)
        return {schedule.name for schedule in found}

    assert await names() == {"report a", "report b", "reminder", None}
    assert await names(owner="ada") == {"report a", "report b"}
    assert await names(owner="eve") == set()
    assert await names(name_prefix="report") == {"report a", "report b"}
    assert await names(name_prefix="rep%") == set()
    assert await names(metadata='{"plan":"pro"}') == {"report a", "reminder"}
    assert await names(metadata='{"plan":"pro","seats":3}') == {"report a"}
    assert await names(metadata='{"seats":"3"}') == set()
    assert await names(metadata='{"trial":true}') == {"reminder"}
    assert await names(metadata='{"trial":1}') == set()
    assert await names(owner="ada", metadata='{"plan":"pro"}') == {"report a"}
    assert await names(owner="ada", status=ScheduleStatus.ACTIVE) == {"report a", "report b"}
    assert [schedule.owner for schedule in (both, first, other, bare)] == [
        "ada",
        "ada",
        "bob",
        None,
    ]
    assert (await again(store, both)).owner == "ada"


async def test_alike_schedules_are_counted_once_however_they_are_paged(
    store: Store, clock: VirtualClock
) -> None:
    await make_some(store, clock)
    now = await store.now()
    bounds: Any = {"since": now - 100 * MINUTE, "until": now + 100_000 * MINUTE}
    active = [
        schedule.id
        for schedule in await listed(store, SYSTEM, status=ScheduleStatus.ACTIVE)
        if schedule.next_slot is not None
    ]
    for limit in (1, 2, 3, ALL):
        counted, after = 0, None
        for _ in range(100):
            page = await store.schedules.alike(SYSTEM, limit, after=after, **bounds)
            counted += sum(group.count for group in page)
            if not page:
                break
            after = (page[-1].tenant, page[-1].last_id)
        assert counted == len(active) > 1, limit
    one = await store.schedules.alike(Scope("one"), ALL, **bounds)
    assert {group.tenant for group in one} == {"one"}
