"""Scenarios in which one safeguard decides whether a law holds."""

import asyncio

from tests.conformance import barriers
from tests.conformance.schedule_acts import again, pause, resume, rule_of, update
from tests.mutants.bed import STEP_SECONDS, TTL_SECONDS, Bed, Leader
from tickwork.core.when import just_before

EVERY_TEN = {"cron_expr": "*/10 * * * * *"}
SCHEDULES = 4


async def take_over(bed: Bed) -> None:
    """A leader is frozen after its decision, another takes its shards, the first one wakes up."""
    for _ in range(SCHEDULES):
        await bed.schedule(**EVERY_TEN)
    first = await bed.leader()
    await first.scheduler.hold()
    others: list[Leader] = []

    async def frozen() -> None:
        bed.clock.advance(seconds=TTL_SECONDS + 1)
        others.append(await bed.leader())
        await others[0].scheduler.hold()

    first.plans.meanwhile = frozen
    await first.scheduler.plan_due()
    (second,) = others
    await bed.run(second, seconds=10)
    await bed.run(first, second, seconds=20)


async def taken_in_mid_write(bed: Bed) -> None:
    """A leader's plan is running in the server when its lease expires and another takes over."""
    await bed.schedule(**EVERY_TEN)
    first = await bed.leader()
    await first.scheduler.hold()
    held = "UPDATE ON tickwork_schedules FOR EACH ROW"
    async with barriers.barrier(bed.home.url, before=held) as barrier:
        planning = asyncio.create_task(first.scheduler.plan_due())
        await barrier.reached()
        bed.clock.advance(seconds=TTL_SECONDS + 1)
        second = await bed.leader()
        taking = asyncio.create_task(second.scheduler.hold())
        await barrier.is_passed_by(taking)
        await barrier.opens()
        await asyncio.gather(planning, taking)
    await bed.run(first, second, seconds=30)


async def renewed_in_mid_take(bed: Bed) -> None:
    """A leader's last heartbeat is in time but not committed yet when another node reaps it."""
    await bed.schedule(**EVERY_TEN)
    first = await bed.leader()
    await bed.run(first, seconds=STEP_SECONDS)
    bed.clock.advance(seconds=TTL_SECONDS - 2 * STEP_SECONDS)
    second = await bed.leader()
    await second.beat()
    held = "UPDATE ON tickwork_nodes FOR EACH ROW"
    async with barriers.barrier(bed.home.url, before=held) as barrier:
        beating = asyncio.create_task(first.beat())
        await barrier.reached()
        bed.clock.advance(seconds=2 * STEP_SECONDS)
        taking = asyncio.create_task(second.scheduler.hold())
        await barrier.is_passed_by(taking)
        await barrier.opens()
        await asyncio.gather(beating, taking)
    await bed.run(first, second, seconds=30)


async def joining(bed: Bed) -> None:
    """A second node joins while the first one lives and works."""
    for _ in range(SCHEDULES):
        await bed.schedule(**EVERY_TEN)
    first = await bed.leader()
    await bed.run(first, seconds=10)
    second = await bed.leader()
    await second.scheduler.hold()
    await bed.run(first, second, seconds=30)


async def lost_answer(bed: Bed) -> None:
    """A plan is written, its response is lost, its slots are handled, and then it is repeated."""
    await bed.schedule(**EVERY_TEN)
    leader = await bed.leader()
    await leader.scheduler.hold()

    async def handled() -> None:
        bed.clock.advance(seconds=12)
        await bed.handle()

    leader.plans.repeat_after = handled
    await leader.scheduler.plan_due()
    await bed.run(leader, seconds=30)


async def changed_meanwhile(bed: Bed) -> None:
    """A schedule gets another rule with the same next slot between decision and write."""
    bed.clock.advance(seconds=55)
    made = await bed.schedule(**EVERY_TEN)
    leader = await bed.leader()
    await leader.scheduler.hold()

    async def changed() -> None:
        rule = rule_of(bed.clock, made.id, cron_expr="0 * * * * *")
        new = await update(bed.store, made, rule)
        assert new.next_slot == made.next_slot, "the two rules must agree on the next slot"
        bed.watched.clear()
        bed.watch(new, since=just_before(made.next_slot or bed.clock.now()))

    leader.plans.meanwhile = changed
    await leader.scheduler.plan_due()
    await bed.run(leader, seconds=120)


async def paused(bed: Bed) -> None:
    """A schedule is paused and resumed while one of its slots is being handled."""
    made = await bed.schedule(**EVERY_TEN)
    leader = await bed.leader()
    await bed.run(leader, seconds=10)
    messages = await bed.claim()
    assert messages, "a slot is due"
    bed.clock.advance(seconds=2)
    await pause(bed.store, await again(bed.store, made))
    await resume(bed.store, await again(bed.store, made))
    await bed.run(leader, seconds=5)
    await bed.handle(messages)
    await bed.run(leader, seconds=30)


async def outage(bed: Bed) -> None:
    """No node leads for ten minutes, then one does."""
    for _ in range(SCHEDULES):
        await bed.schedule(**EVERY_TEN)
    bed.clock.advance(seconds=600)
    leader = await bed.leader()
    await bed.run(leader, seconds=30)


async def quiet(bed: Bed) -> None:
    """Nothing unusual happens."""
    for _ in range(SCHEDULES):
        await bed.schedule(**EVERY_TEN)
    leader = await bed.leader()
    await bed.run(leader, seconds=40)


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
