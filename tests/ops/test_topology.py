"""A topology is compared with a database and applied, idempotently."""

from __future__ import annotations

import pytest

from tests.conformance.acts import make_queue, make_tenants, send
from tests.core.test_topology import FIVE_SERVICES
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Scope
from tickwork.core.topology import parse
from tickwork.errors import InvalidInput, NotFound
from tickwork.ops.context import Context
from tickwork.ops.topology import Action, Change, Kind, Step, apply, plan
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", ["model", *KINDS], indirect=True)

SMALL = """
[[queues]]
name = "orders"
max_retries = 5
dead_letter_queue = "orders-dead"
[[queues]]
name = "orders-dead"
paused = true
[[queues]]
name = "events"
shared = true
[[subscriptions]]
types = "order.*"
queue = "orders"
[[subscriptions]]
types = "*"
queue = "events"
shared = true
"""


def actions(steps: tuple[Step, ...]) -> dict[str, Action]:
    return {step.name: step.action for step in steps}


async def test_apply_creates_everything_and_is_idempotent(store: Store) -> None:
    topology = parse(FIVE_SERVICES)
    planned = await plan(Context(store, DEFAULT), topology)
    assert {step.action for step in planned} == {Action.CREATE}
    assert await apply(Context(store, DEFAULT), topology) == planned
    made = {queue.name: queue for queue in await store.queues.list(DEFAULT)}
    assert {name: queue.settings for name, queue in made.items()} == {
        entry.name: entry.settings for entry in topology.queues
    }
    again = await apply(Context(store, DEFAULT), topology)
    assert {step.action for step in again} == {Action.KEEP}
    assert {queue.name: queue for queue in await store.queues.list(DEFAULT)} == made


async def test_planning_changes_nothing(store: Store) -> None:
    await plan(Context(store, DEFAULT), parse(SMALL))
    assert await store.queues.list(SYSTEM) == ()
    assert await store.subscriptions.list(SYSTEM) == ()


async def test_shared_queues_and_subscriptions_belong_to_the_system(store: Store) -> None:
    await apply(Context(store, DEFAULT), parse(SMALL))
    owners = {queue.name: queue.tenant for queue in await store.queues.list(DEFAULT)}
    assert owners == {"events": None, "orders": "default", "orders-dead": "default"}
    (acme,) = await make_tenants(store, "acme")
    await send(store, queue="events", scope=acme, type="order.made")
    await store.queues.put(acme, "own", QueueSettings())
    await send(store, queue="own", scope=acme, type="order.made")
    assert (await store.queues.counts(acme, "events")).ready == 2
    assert (await store.queues.counts(DEFAULT, "orders")).ready == 0
    await send(store, queue="orders-dead", type="order.made")
    assert (await store.queues.counts(DEFAULT, "orders")).ready == 1


async def test_a_change_is_reported_by_field_and_applied(store: Store) -> None:
    await apply(Context(store, DEFAULT), parse(SMALL))
    changed = SMALL.replace("max_retries = 5", "rate_per_second = 2.5")
    changed = changed.replace("paused = true", "paused = false")
    steps = {step.name: step for step in await apply(Context(store, DEFAULT), parse(changed))}
    assert steps["orders"].action is Action.CHANGE
    assert steps["orders"].changes == (
        Change("max_retries", 5, 3),
        Change("rate_per_second", None, 2.5),
    )
    assert steps["orders-dead"].changes == (Change("paused", True, False),)
    assert steps["events"].action is Action.KEEP
    orders = await store.queues.get(DEFAULT, "orders")
    assert (orders.settings.max_retries, orders.settings.rate_per_second) == (3, 2.5)
    assert not (await store.queues.get(DEFAULT, "orders-dead")).paused
    again = await apply(Context(store, DEFAULT), parse(changed))
    assert set(actions(again).values()) == {Action.KEEP}


async def test_a_queue_may_be_created_paused(store: Store) -> None:
    await apply(Context(store, DEFAULT), parse(SMALL))
    assert (await store.queues.get(DEFAULT, "orders-dead")).paused


async def test_a_file_without_paused_keeps_the_stored_state(store: Store) -> None:
    await apply(Context(store, DEFAULT), parse(SMALL))
    await store.queues.pause(DEFAULT, "orders")
    steps = await apply(
        Context(store, DEFAULT), parse(SMALL.replace("max_retries = 5", "max_retries = 6"))
    )
    assert actions(steps)["orders"] is Action.CHANGE
    assert (await store.queues.get(DEFAULT, "orders")).paused


async def test_queues_missing_from_the_file_are_reported_and_kept(store: Store) -> None:
    await apply(Context(store, DEFAULT), parse(SMALL))
    await send(store, queue="orders")
    steps = await apply(Context(store, DEFAULT), parse(""))
    assert {(step.action, step.kind, step.name, step.shared) for step in steps} == {
        (Action.EXTRA, Kind.QUEUE, "orders", False),
        (Action.EXTRA, Kind.QUEUE, "orders-dead", False),
        (Action.EXTRA, Kind.QUEUE, "events", True),
        (Action.EXTRA, Kind.SUBSCRIPTION, "order.*", False),
        (Action.EXTRA, Kind.SUBSCRIPTION, "*", True),
    }
    assert len(await store.queues.list(DEFAULT)) == 3
    assert (await store.queues.counts(DEFAULT, "orders")).ready == 1
    assert len(await store.subscriptions.list(DEFAULT)) == 1


async def test_an_implied_dead_letter_queue_is_created_and_not_changed(
    store: Store,
) -> None:
    topology = parse('[[queues]]\nname = "orders"\ndead_letter_queue = "graves"')
    steps = await apply(Context(store, DEFAULT), topology)
    assert actions(steps) == {"orders": Action.CREATE, "graves": Action.CREATE}
    await store.queues.put(DEFAULT, "graves", QueueSettings(max_retries=7))
    again = await apply(Context(store, DEFAULT), topology)
    assert actions(again) == {"orders": Action.KEEP, "graves": Action.KEEP}
    assert (await store.queues.get(DEFAULT, "graves")).settings.max_retries == 7


async def test_a_shared_queue_satisfies_an_implied_dead_letter_queue(store: Store) -> None:
    await store.queues.put(SYSTEM, "graves", QueueSettings())
    topology = parse('[[queues]]\nname = "orders"\ndead_letter_queue = "graves"')
    assert actions(await apply(Context(store, DEFAULT), topology)) == {
        "orders": Action.CREATE,
        "graves": Action.KEEP,
    }
    assert len(await store.queues.list(DEFAULT)) == 2


async def test_each_tenant_has_its_own_topology(store: Store) -> None:
    await make_queue(store, "others")
    (acme,) = await make_tenants(store, "acme")
    steps = await apply(Context(store, acme), parse('[[queues]]\nname = "others"'))
    assert actions(steps) == {"others": Action.CREATE}
    assert len(await store.queues.list(SYSTEM)) == 2


async def test_the_tenant_must_be_given_and_exist(store: Store) -> None:
    topology = parse('[[queues]]\nname = "a"')
    with pytest.raises(InvalidInput, match="tenant"):
        await plan(Context(store, SYSTEM), topology)
    with pytest.raises(NotFound):
        await apply(Context(store, Scope("nobody")), topology)
