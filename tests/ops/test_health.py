"""What the health of a tenant is judged by, on both stores."""

from __future__ import annotations

import pytest

from tests.conformance.acts import (
    WORK,
    claim,
    join,
    make_queue,
    make_tenants,
    pull,
    send,
    settle,
)
from tests.conformance.acts import dead as dead_ending
from tests.conformance.endpoint_acts import claimed_one, end, make_endpoint, publish
from tests.conformance.schedule_acts import MINUTE, created_due, end_next, lead, plan_now
from tests.conformance.test_workflows import QUEUE, new_run, start
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.delivery.endpoint import ENDPOINTS_QUEUE
from tickwork.core.health import Check
from tickwork.core.message.outcome import Failed
from tickwork.core.model import DEFAULT, SYSTEM, Fate, Scope, Tenant
from tickwork.core.schedule.model import Retry
from tickwork.core.workflow.model import RunEnd, RunStatus
from tickwork.errors import BacklogFull, InvalidInput
from tickwork.ops.cluster import pause_all, widen_windows
from tickwork.ops.context import Context
from tickwork.ops.health import look_at_health
from tickwork.ops.schedules.change import pause, trigger
from tickwork.ops.tenants import suspend_tenant
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres.store import PostgresStore
from tickwork.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


async def codes(store: Store, *checks: str, scope: Scope = DEFAULT) -> list[tuple[str, str | None]]:
    health = await look_at_health(Context(store, scope), checks=checks or None)
    return [(problem.code, problem.name) for problem in health.problems]


async def make_alive(store: Store) -> None:
    """A process with every role, which leads all shards."""
    await lead(store)
    await store.nodes.join(SYSTEM, new_id(), name="worker", roles=["worker"], ttl_seconds=60)


async def test_all_is_well_with_live_processes_and_nothing_is_well_unread(store: Store) -> None:
    health = await look_at_health(Context(store, DEFAULT))
    assert [problem.code for problem in health.problems] == ["no_scheduler", "no_worker"]
    await make_alive(store)
    await make_queue(store)
    await send(store)
    health = await look_at_health(Context(store, DEFAULT))
    assert (health.ok, health.checked) == (True, tuple(Check))
    health = await look_at_health(Context(store, DEFAULT), checks=["queues", "runs"])
    assert (health.ok, health.checked) == (True, (Check.QUEUES, Check.RUNS))
    with pytest.raises(InvalidInput, match="check: "):
        await look_at_health(Context(store, DEFAULT), checks=["queue"])


async def test_pauses_and_widened_windows_are_seen_by_all_and_a_suspension_by_its_tenant(
    store: Store,
) -> None:
    (acme,) = await make_tenants(store, "acme")
    await pause_all(store)
    await widen_windows(store, {"seconds": 90})
    both: list[tuple[str, str | None]] = [("cluster_paused", None), ("windows_widened", None)]
    assert await codes(store, "pauses") == both
    await suspend_tenant(store, "acme")
    assert ("tenant_suspended", "acme") in await codes(store, "pauses", scope=acme)
    assert await codes(store, "pauses") == both


async def test_a_queue_that_nobody_consumes_is_told_from_one_that_is_slow(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    await send(store)
    assert await codes(store, "queues") == []
    clock.advance(seconds=61)
    assert await codes(store, "queues") == [("no_consumer", WORK)]
    await send(store)
    (message, _) = await pull(store)
    assert await codes(store, "queues") == []
    await settle(store, dead_ending(message, reason="x", error="y"), scope=SYSTEM)
    await store.stats.flush(SYSTEM)
    assert await codes(store, "queues") == [("dead_letters", WORK)]
    await store.queues.pause(DEFAULT, WORK)
    assert await codes(store, "queues") == [("dead_letters", WORK), ("queue_paused", WORK)]
    (stranger,) = await make_tenants(store, "stranger")
    assert await codes(store, "queues", scope=stranger) == []


async def test_a_queue_that_is_full_refuses_sends_and_is_reported(store: Store) -> None:
    await make_queue(store, backlog_bytes_max=128_000)
    assert await codes(store, "queues") == []
    await send(store, body=b"x" * 116_000)
    assert await codes(store, "queues") == [("queue_nearly_full", WORK)]
    await send(store, body=b"x" * 11_500)
    health = await look_at_health(Context(store, DEFAULT), checks=["queues"])
    (problem,) = health.problems
    assert (problem.code, problem.name) == ("queue_full", WORK)
    with pytest.raises(BacklogFull):
        await send(store, body=b"x" * 2_000)
    await store.queues.purge(DEFAULT, WORK)
    assert await codes(store, "queues") == []


async def test_a_quota_of_the_tenant_that_is_used_up_is_reported(
    store: Store, clock: VirtualClock
) -> None:
    limits = Tenant(id="acme", backlog_max=10, schedules_max=1, emails_per_day=10)
    await store.tenants.put(SYSTEM, limits)
    acme = Scope("acme")
    await make_queue(store, scope=acme)
    assert await codes(store, "quotas", scope=acme) == []
    for _ in range(10):
        await send(store, scope=acme)
    await created_due(store, clock, scope=acme)
    assert await store.tenants.take_emails(acme, 9) is not None
    health = await look_at_health(Context(store, acme), checks=["quotas"])
    assert [(problem.code, problem.name, problem.count) for problem in health.problems] == [
        ("quota_reached", "acme", 10),
        ("quota_reached", "acme", 1),
        ("quota_near", "acme", 9),
    ]
    assert health.problems[0].what == (
        "Tenant acme has 10 of the 10 waiting messages that it may have: sends are refused until "
        "some are handled."
    )
    assert await codes(store, "quotas") == []
    clock.advance(seconds=86_400)
    assert len(await codes(store, "quotas", scope=acme)) == 2


async def test_a_process_that_is_silent_is_reported_until_others_have_its_work(
    store: Store, clock: VirtualClock
) -> None:
    await make_alive(store)
    await join(store, ttl_seconds=5)
    clock.advance(seconds=9)
    assert await codes(store, "processes") == []
    clock.advance(seconds=1)
    assert await codes(store, "processes") == [("node_silent", "node")]
    await store.reaper.reap(SYSTEM, 10)
    assert await codes(store, "processes") == []


async def test_a_schedule_is_reported_while_it_is_late_failing_or_parked(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock)
    await plan_now(store, clock)
    await end_next(store, Failed("boom"))
    ((code, name),) = await codes(store, "schedules")
    assert (code, str(name).removeprefix("sch_")) == ("schedule_failing", made.id.hex)
    clock.advance(seconds=600)
    assert {code for code, _ in await codes(store, "schedules")} == {
        "schedule_failing",
        "schedule_late",
    }
    (stranger,) = await make_tenants(store, "stranger")
    assert await codes(store, "schedules", scope=stranger) == []


async def test_a_one_shot_that_died_is_reported_until_a_later_run_succeeds(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    once = (clock.now() + MINUTE).isoformat()
    made = await created_due(store, clock, once_at=once, retry=Retry(max_attempts=1))
    await plan_now(store, clock)
    await end_next(store, Failed("boom"), max_retries=0)
    health = await look_at_health(Context(store, DEFAULT), checks=["schedules"])
    (problem,) = health.problems
    assert (problem.code, problem.since) == ("schedule_dead", clock.now())
    assert problem.what.startswith(f"Schedule sch_{made.id.hex} failed at its last slot")
    assert problem.action.endswith(f"tickwork schedules trigger sch_{made.id.hex}.")
    await trigger(Context(store, DEFAULT), made.id)
    await end_next(store)
    assert await codes(store, "schedules") == []


async def test_a_schedule_that_paused_itself_is_reported_and_one_paused_by_hand_is_not(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = await created_due(store, clock, on_dead="pause", retry=Retry(max_attempts=1))
    await plan_now(store, clock)
    await end_next(store, Failed("boom"), max_retries=0)
    ((code, name),) = await codes(store, "schedules")
    assert (code, str(name).removeprefix("sch_")) == ("schedule_paused", made.id.hex)
    other = await created_due(store, clock, name="other")
    await pause(Context(store, DEFAULT), other.id)
    assert [code for code, _ in await codes(store, "schedules")] == ["schedule_paused"]


async def test_endpoints_that_are_disabled_and_deliveries_that_died_lately_are_reported(
    store: Store, clock: VirtualClock
) -> None:
    made = await make_endpoint(store)
    await publish(store)
    await end(store, await claimed_one(store), Fate.DEAD, reason="max_retries", error="503")
    assert await codes(store, "endpoints") == []
    assert await codes(store, "deliveries") == [("delivery_dead", None)]
    await store.endpoints.disable(DEFAULT, made.id, "gone")
    ((code, name),) = await codes(store, "endpoints", "queues")
    assert (code, str(name).removeprefix("end_")) == ("endpoint_disabled", made.id.hex)
    clock.advance(seconds=86_401)
    assert await codes(store, "deliveries") == []


async def test_deliveries_that_no_worker_takes_are_reported(
    store: Store, clock: VirtualClock
) -> None:
    await make_endpoint(store)
    await publish(store)
    clock.advance(seconds=61)
    assert await codes(store, "queues") == [("no_consumer", ENDPOINTS_QUEUE)]
    await claimed_one(store)
    assert await codes(store, "queues") == []


async def test_runs_that_failed_lately_and_runs_that_diverged_are_reported(
    store: Store, clock: VirtualClock
) -> None:
    (run, _) = await start(store, new_run("a"), new_run("b"))
    await make_queue(store)
    assert await codes(store, "runs") == []
    found = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    failed = RunEnd(uid=run.uid, status=RunStatus.FAILED, error="boom")
    await settle(
        store, dead_ending(found[0], reason="x", error="boom", effects=(failed,)), scope=SYSTEM
    )
    assert await codes(store, "runs") == [("run_failed", "content")]
    clock.advance(seconds=86_401)
    assert await codes(store, "runs") == []
    await diverge(store, "b")
    assert await codes(store, "runs") == [("run_diverged", "content")]
    (stranger,) = await make_tenants(store, "stranger")
    assert await codes(store, "runs", scope=stranger) == []


async def diverge(store: Store, run_id: str) -> None:
    """Writes the status of a run whose code asks for other steps than are on record."""
    statement = (
        "UPDATE tickwork_runs SET diverged_at = created_at, divergence = 'other steps' "
        f"WHERE id = '{run_id}'"
    )
    if isinstance(store, SqliteStore):
        await store._database.change(lambda transaction: transaction.execute(statement))
    else:
        assert isinstance(store, PostgresStore)
        await store._database.run(lambda connection: connection.execute(statement))
