"""Scenarios in which one safeguard decides whether a law holds."""

import asyncio

from tests.conformance import barriers
from tests.conformance.schedule_acts import again, pause, resume, rule_of, update
from tests.mutants.cluster import STEP_SECONDS, TTL_SECONDS, Cluster, Leader
from tickwork.core.when import just_before

EVERY_TEN = {"cron_expr": "*/10 * * * * *"}
SCHEDULES = 4


async def take_over(cluster: Cluster) -> None:
    """A leader is frozen after its decision, another takes its shards, the first one wakes up."""
    for _ in range(SCHEDULES):
        await cluster.schedule(**EVERY_TEN)
    first = await cluster.leader()
    await first.scheduler.hold()
    others: list[Leader] = []

    async def frozen() -> None:
        cluster.clock.advance(seconds=TTL_SECONDS + 1)
        others.append(await cluster.leader())
        await others[0].scheduler.hold()

    first.plans.meanwhile = frozen
    await first.scheduler.plan_due()
    (second,) = others
    await cluster.run(second, seconds=10)
    await cluster.run(first, second, seconds=20)


async def taken_in_mid_write(cluster: Cluster) -> None:
    """A leader's plan is running in the server when its lease expires and another takes over."""
    await cluster.schedule(**EVERY_TEN)
    first = await cluster.leader()
    await first.scheduler.hold()
    held = "UPDATE ON tickwork_schedules FOR EACH ROW"
    async with barriers.barrier(cluster.home.url, before=held) as barrier:
        planning = asyncio.create_task(first.scheduler.plan_due())
        await barrier.reached()
        cluster.clock.advance(seconds=TTL_SECONDS + 1)
        second = await cluster.leader()
        taking = asyncio.create_task(second.scheduler.hold())
        await barrier.is_passed_by(taking)
        await barrier.opens()
        await asyncio.gather(planning, taking)
    await cluster.run(first, second, seconds=30)


async def renewed_in_mid_take(cluster: Cluster) -> None:
    """A leader's last heartbeat is in time but not committed yet when another node reaps it."""
    await cluster.schedule(**EVERY_TEN)
    first = await cluster.leader()
    await cluster.run(first, seconds=STEP_SECONDS)
    cluster.clock.advance(seconds=TTL_SECONDS - 2 * STEP_SECONDS)
    second = await cluster.leader()
    await second.beat()
    held = "UPDATE ON tickwork_nodes FOR EACH ROW"
    async with barriers.barrier(cluster.home.url, before=held) as barrier:
        beating = asyncio.create_task(first.beat())
        await barrier.reached()
        cluster.clock.advance(seconds=2 * STEP_SECONDS)
        taking = asyncio.create_task(second.scheduler.hold())
        await barrier.is_passed_by(taking)
        await barrier.opens()
        await asyncio.gather(beating, taking)
    await cluster.run(first, second, seconds=30)


async def joining(cluster: Cluster) -> None:
    """A second node joins while the first one lives and works."""
    for _ in range(SCHEDULES):
        await cluster.schedule(**EVERY_TEN)
    first = await cluster.leader()
    await cluster.run(first, seconds=10)
    second = await cluster.leader()
    await second.scheduler.hold()
    await cluster.run(first, second, seconds=30)


async def lost_answer(cluster: Cluster) -> None:
    """A plan is written, its response is lost, its slots are handled, and then it is repeated."""
    await cluster.schedule(**EVERY_TEN)
    leader = await cluster.leader()
    await leader.scheduler.hold()

    async def handled() -> None:
        cluster.clock.advance(seconds=12)
        await cluster.handle()

    leader.plans.repeat_after = handled
    await leader.scheduler.plan_due()
    await cluster.run(leader, seconds=30)


async def changed_meanwhile(cluster: Cluster) -> None:
    """A schedule gets another rule with the same next slot between decision and write."""
    cluster.clock.advance(seconds=55)
    made = await cluster.schedule(**EVERY_TEN)
    leader = await cluster.leader()
    await leader.scheduler.hold()

    async def changed() -> None:
        rule = rule_of(cluster.clock, made.id, cron_expr="0 * * * * *")
        new = await update(cluster.store, made, rule)
        assert new.next_slot == made.next_slot, "the two rules must agree on the next slot"
        cluster.watched.clear()
        cluster.watch(new, since=just_before(made.next_slot or cluster.clock.now()))

    leader.plans.meanwhile = changed
    await leader.scheduler.plan_due()
    await cluster.run(leader, seconds=120)


async def paused(cluster: Cluster) -> None:
    """A schedule is paused and resumed while one of its slots is being handled."""
    made = await cluster.schedule(**EVERY_TEN)
    leader = await cluster.leader()
    await cluster.run(leader, seconds=10)
    messages = await cluster.claim()
    assert messages, "a slot is due"
    cluster.clock.advance(seconds=2)
    await pause(cluster.store, await again(cluster.store, made))
    await resume(cluster.store, await again(cluster.store, made))
    await cluster.run(leader, seconds=5)
    await cluster.handle(messages)
    await cluster.run(leader, seconds=30)


async def outage(cluster: Cluster) -> None:
    """No node leads for ten minutes, then one does."""
    for _ in range(SCHEDULES):
        await cluster.schedule(**EVERY_TEN)
    cluster.clock.advance(seconds=600)
    leader = await cluster.leader()
    await cluster.run(leader, seconds=30)


async def quiet(cluster: Cluster) -> None:
    """Nothing unusual happens."""
    for _ in range(SCHEDULES):
        await cluster.schedule(**EVERY_TEN)
    leader = await cluster.leader()
    await cluster.run(leader, seconds=40)


ALL = (
    take_over,
    taken_in_mid_write,
    renewed_in_mid_take,
    joining,
    lost_answer,
    changed_meanwhile,
    paused,
    outage,
    quiet,
)
