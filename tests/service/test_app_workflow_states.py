"""What lists say of runs, and what a deploy and a replay make of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tickwork import InvalidInput, Retries, RunFailed, Step, StepFailed, Tickwork
from tickwork.core.model import DEFAULT
from tickwork.core.workflow.queue import runs_queue
from tickwork.testing import harness
from tickwork.workflow.replay import replay_runs

NO_RETRIES = Retries(0)


async def test_a_list_says_what_each_run_waits_for(app: Tickwork, database: str | None) -> None:
    async def fail() -> None:
        raise ValueError("not now")

    @app.workflow()
    async def waiting(step: Step, params: str) -> None:
        match params:
            case "sleeps":
                await step.do("first", int)
                await step.sleep("over", 1)
                await step.sleep("rest", 600)
            case "sleeps and waits":
                await asyncio.gather(
                    step.sleep("rest", 600), step.wait_for_event("approval", type="go")
                )
            case "waits for an event":
                await step.wait_for_event("approval", type="go", timeout_seconds=600)
            case "waits for a retry":
                await step.do("fail", fail, retries=Retries(9, delay_seconds=600))
            case "waits for items":
                await step.map("items", fail_item, [1], retries=Retries(9, delay_seconds=600))
            case "is paused":
                await step.sleep("rest", 600)

    async def fail_item(_: int) -> None:
        raise ValueError("not now")

    wanted = {
        "sleeps": "sleeping",
        "sleeps and waits": "waiting",
        "waits for an event": "waiting",
        "waits for a retry": "waiting",
        "waits for items": "waiting",
        "is paused": "paused",
        "ends": "completed",
    }
    async with harness(app, database=database) as h:
        for params in wanted:
            await app.workflows.start(waiting, params, id=params)
        assert {run.status for run in await app.workflows.list()} == {"running"}  # A worker is due.
        await h.advance(seconds=2)
        await app.workflows.get("is paused").pause()
        assert {run.id: run.status for run in await app.workflows.list()} == wanted
        for params, status in wanted.items():
            assert (await app.workflows.get(params).status()).status == status
            states = {node.id: node.state for node in (await app.trace(params)).nodes}
            assert states[params] == status, states
            assert params in {run.id for run in await app.workflows.list(status=status)}
        assert len(await app.workflows.list(status="running")) == 6
        assert [run.id for run in await app.workflows.list(status="sleeping")] == ["sleeps"]
        assert len(await app.workflows.list(status="waiting")) == 4
        (child,) = await app.workflows.list(parent="waits for items", status="waiting")
        assert child.parent_step == "items[0]"
        await app.workflows.get("sleeps and waits").send_event("go")
        assert (await app.workflows.get("sleeps and waits").status()).status == "running"
        await h.drain()
        assert (await app.workflows.get("sleeps and waits").status()).status == "sleeping"
        with pytest.raises(InvalidInput, match="sleeping"):
            await app.workflows.list(status="asleep")


@pytest.mark.parametrize("way", ["gather", "branches", "task group", "asyncio.gather"])
async def test_the_replay_of_a_slot_tries_all_steps_again_that_failed_together(
    app: Tickwork, database: str | None, way: str
) -> None:
    ran, is_fixed = list[str](), False

    async def work(name: str) -> str:
        ran.append(name)
        if name != "middle" and not is_fixed:
            raise ValueError(f"no {name}")
        return name

    @app.workflow()
    async def report(step: Step) -> str:
        def call(name: str) -> Any:
            return step.do(name, work, name, retries=NO_RETRIES)

        async def branch() -> None:  # It fails after another step has started.
            await call("middle")
            await call("right")

        match way:
            case "gather":
                await step.gather(call("left"), call("right"), call("middle"))
            case "branches":
                await step.gather(branch(), call("left"))
            case "task group":
                async with asyncio.TaskGroup() as tasks:
                    for name in ("left", "right", "middle"):
                        tasks.create_task(call(name))
            case "asyncio.gather":
                await asyncio.gather(call("left"), call("right"), call("middle"))
        return "done"

    async with harness(app, database=database) as h:
        await app.schedules.create(
            once_at=h.now + timedelta(hours=1), target={"type": "workflow", "workflow": "report"}
        )
        await h.advance(hours=2)
        assert sorted(ran) == ["left", "middle", "right"]
        is_fixed = True
        await app.dead_letters.replay(runs_queue("report"))
        await h.drain()
        (run,) = await app.workflows.list()
        assert (run.status, run.result, await h.dead(runs_queue("report"))) == (
            "completed",
            "done",
            [],
        )
    assert sorted(ran) == ["left", "left", "middle", "right", "right"]


@pytest.mark.parametrize("way", ["raises", "raises its own", "raises because of"])
async def test_a_step_after_the_failed_one_does_not_block_the_replay(
    app: Tickwork, database: str | None, way: str
) -> None:
    """What the body did because of the failure is done once, and keeps nothing from going on."""
    ran, is_fixed, excuse = list[str](), False, "sorry"

    async def charge() -> str:
        ran.append("charge")
        if not is_fixed:
            raise ValueError("the bank is closed")
        return "paid"

    async def tell(text: str) -> str:
        ran.append(text)
        return text

    @app.workflow()
    async def order(step: Step) -> list[str]:
        try:
            paid = await step.do("charge", charge, retries=NO_RETRIES)
        except StepFailed as error:
            await step.do("tell", tell, excuse)
            await step.do("warn", tell, "warned")
            if way == "raises":
                raise
            if way == "raises its own":
                raise LookupError("no money") from error
            raise LookupError("no money")  # noqa: B904  It has the other one as its context.
        await step.sleep("rest", 600)
        return [paid, await step.do("tell", tell, "thanks"), await step.do("warn", tell, "warned")]

    queue = runs_queue("order")
    async with harness(app, database=database) as h:
        await app.schedules.create(
            once_at=h.now + timedelta(hours=1), target={"type": "workflow", "workflow": "order"}
        )
        await h.advance(hours=2)
        excuse = "sorry again"  # It may be a sum that is paid back.
        await app.dead_letters.replay(queue)
        await h.advance(hours=1)
        assert ran == ["charge", "sorry", "warned", "charge"]
        is_fixed = True
        await app.dead_letters.replay(queue)
        await h.advance(hours=1)
        (run,) = await app.workflows.list()
        assert (run.status, run.divergence) == ("completed", None)
        assert (run.result, await h.dead(queue)) == (["paid", "thanks", "warned"], [])
    assert ran == ["charge", "sorry", "warned", "charge", "charge", "thanks"]


async def test_after_a_replay_only_what_followed_the_failure_may_be_left_out(
    database: str | None,
) -> None:
    ran, is_fixed = list[str](), False

    async def note(text: str) -> None:
        ran.append(text)
        if text == "ship" and not is_fixed:
            raise ValueError("no truck")

    def shop(reserve: str) -> Tickwork:
        made = Tickwork()

        @made.workflow(name="order")
        async def order(step: Step) -> None:
            await step.do(reserve, note, "reserve")
            try:
                await step.do("ship", note, "ship", retries=NO_RETRIES)
            except StepFailed:
                await step.do("tell", note, "sorry")
                raise

        return made

    old, renamed, back = shop("reserve"), shop("hold"), shop("reserve")
    async with harness(old, database=database) as h:
        await old.schedules.create(
            once_at=h.now + timedelta(hours=1), target={"type": "workflow", "workflow": "order"}
        )
        await h.advance(hours=2)
        is_fixed, before = True, [*ran]
        async with h.deploy(renamed) as deployed:
            await renamed.dead_letters.replay(runs_queue("order"))
            await deployed.advance(hours=1)
            (run,) = await renamed.workflows.list()
            assert (run.status, ran) == ("diverged", before)
        async with h.deploy(back) as deployed:
            await deployed.advance(hours=1)
            (run,) = await back.workflows.list()
            assert (run.status, ran) == ("completed", [*before, "ship"])


def order(function: Any) -> Tickwork:
    """An app whose workflow calls this function in its first step, and sleeps now and then."""
    made = Tickwork()
    made.queue("events")

    @made.workflow(name="order")
    async def order(step: Step) -> None:
        await step.do("charge", function)
        for number in range(10):
            await step.sleep(f"rest {number}", 300)

    return made


async def test_a_run_that_diverges_again_in_the_same_way_sends_another_event(
    database: str | None,
) -> None:
    async def charge() -> None: ...

    async def bill() -> None: ...

    old, new, back, again = order(charge), order(bill), order(charge), order(bill)
    async with harness(old, database=database) as h:
        await old.subscriptions.create("workflow.diverged", "events")
        await old.workflows.start("order", id="o-1")
        await h.drain()
        seen = list[tuple[str, int]]()
        for app in (new, back, again):
            async with h.deploy(app) as deployed:
                await deployed.advance(minutes=10)
                status = await app.workflows.get("o-1").status()
                seen.append((status.status, len(await deployed.sent("events"))))
        assert seen == [("diverged", 1), ("sleeping", 1), ("diverged", 2)]


class Order(msgspec.Struct):
    id: str


class NewOrder(msgspec.Struct):
    id: str
    cents: int


def shop(notes: list[str], params: type) -> Tickwork:
    """An app whose workflow takes params of this type."""
    made = Tickwork()

    async def sell(step: Step, params: Any) -> str:
        return await step.do("charge", charge, params.id)

    async def charge(id_: str) -> str:
        notes.append(id_)
        return id_

    sell.__annotations__["params"] = params
    made.workflow(name="sell")(sell)
    return made


async def test_a_run_whose_params_new_code_cannot_read_waits_for_code_that_can(
    database: str | None,
) -> None:
    notes = list[str]()
    old, new, back = shop(notes, Order), shop(notes, NewOrder), shop(notes, Order)
    async with harness(old, database=database) as h:
        for run_id in ("waits", "accepted", "cancelled", "undone"):
            await old.workflows.start("sell", Order(run_id), id=run_id)
        async with h.deploy(new) as h2:
            found = await replay_runs(
                h2.store, DEFAULT, new._engine.registry.workflows, is_running=True
            )
            assert all(
                "the params of the run do not fit this code" in str(run.divergence) for run in found
            )
            await h2.advance(minutes=2)
            assert {run.status for run in await new.workflows.list()} == {"diverged"}
            (divergence,) = {run.divergence for run in await new.workflows.list()}
            assert "missing required field `cents`" in str(divergence)
            await new.workflows.get("accepted").accept()
            await new.workflows.get("cancelled").cancel()
            await new.workflows.get("undone").cancel(compensate=True)
            await h2.advance(minutes=2)
            for run_id, status in (
                ("accepted", "failed"),
                ("cancelled", "cancelled"),
                ("undone", "cancelled"),
            ):
                assert (await new.workflows.get(run_id).status()).status == status
            with pytest.raises(RunFailed, match="do not fit this code"):
                await new.workflows.get("accepted").result()
        async with h.deploy(back) as h3:
            await h3.advance(minutes=2)
            assert await back.workflows.get("waits").result() == "waits"
    assert notes == ["waits"]


async def test_params_are_checked_where_the_app_is_known(app: Tickwork) -> None:
    @app.workflow()
    async def sell(_: Step, params: Order) -> str:
        return params.id

    async with harness(app) as h:
        for payload in ({"no": 1}, None):
            with pytest.raises(InvalidInput, match=r"`id`|null"):
                await app.schedules.create(
                    once_at=h.now + timedelta(hours=1),
                    target={"type": "workflow", "workflow": "sell"},
                    payload=payload,
                )
        with pytest.raises(InvalidInput, match="`id`"):
            await app.workflows.start("sell", {"no": 1})
