"""What operators do to runs: accept, restart, pause, terminate; and what a run says of itself."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from tests.conformance.acts import claim
from tests.kit.waiting import eventually
from tickwork import (
    Conflict,
    EventTimedOut,
    InvalidInput,
    Permanent,
    Retries,
    RunFailed,
    Step,
    Tickwork,
)
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, SYSTEM
from tickwork.core.workflow.queue import runs_queue
from tickwork.ops.context import Context
from tickwork.ops.why import why_run
from tickwork.store.ids import new_id
from tickwork.testing import harness
from tickwork.workflow.replay import replay_runs

NO_RETRIES = Retries(0)


def noting(notes: list[str], what: str) -> Any:
    async def work(*_: Any) -> str:
        notes.append(what)
        return what

    work.__qualname__ = what
    return work


async def test_branches_that_raced_go_on_as_they_went(app: Tickwork, database: str | None) -> None:
    """The result that came first decides; after a crash it is the same one."""
    order: list[list[str]] = []
    may_end = {"a": asyncio.Event(), "b": asyncio.Event()}

    async def work(name: str) -> str:
        await may_end[name].wait()
        may_end["a"].set()  # The other one ends next.
        return name

    @app.workflow()
    async def racing(step: Step) -> list[str]:
        came: list[str] = []

        async def branch(name: str) -> None:
            for _ in range(3):  # Some turns of the event loop.
                await asyncio.sleep(0)
            came.append(await step.do(name, work, name))

        await asyncio.gather(branch("a"), branch("b"))
        order.append([*came])
        await step.sleep("rest", 60)
        return came

    may_end["b"].set()
    async with harness(app, database=database) as h:
        run = await app.workflows.start(racing)
        await h.advance(minutes=2)
        assert await run.result() == ["b", "a"]
    assert order == [["b", "a"], ["b", "a"]]


async def test_a_body_may_take_a_thousand_turns_between_two_steps(app: Tickwork) -> None:
    @app.workflow()
    async def turning(step: Step) -> int:
        for _ in range(1_000):
            await asyncio.sleep(0)
        first = await step.do("first", len, "ab")
        await step.sleep("rest", 60)
        ready = asyncio.Event()

        async def later() -> None:
            for _ in range(1_000):
                await asyncio.sleep(0)
            ready.set()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(later())
            await ready.wait()
        return first + await step.do("second", len, "abc")

    async with harness(app) as h:
        run = await app.workflows.start(turning)
        await h.advance(minutes=2)
        assert await run.result() == 5


async def test_a_body_that_does_more_than_call_steps_fails_and_says_so(app: Tickwork) -> None:
    @app.workflow()
    async def threading(step: Step) -> None:  # noqa: ARG001  what a body is given
        await asyncio.to_thread(len, "ab")

    @app.workflow()
    async def reading(step: Step) -> None:  # noqa: ARG001
        await app.workflows.list()

    @app.workflow()
    async def sleeping(step: Step) -> None:  # noqa: ARG001
        await asyncio.sleep(0.01)

    wanted = {
        threading: "awaits only its steps",
        reading: "uses the database",
        sleeping: r"cannot await asyncio\.sleep.*use step\.sleep",
    }
    async with harness(app) as h:
        runs = [await app.workflows.start(workflow) for workflow in wanted]
        await h.drain()
        for run, text in zip(runs, wanted.values(), strict=True):
            with pytest.raises(RunFailed, match=f"the body of .* workflow.*{text}"):
                await run.result()


def shop(notes: list[str], name: str, **options: Any) -> Tickwork:
    """An app whose workflow charges in a step of this name, waits and ships."""
    made = Tickwork()

    @made.workflow(name="order", **options)
    async def order(step: Step, params: str) -> str:
        await step.do(name, noting(notes, "charge"), params, compensate=noting(notes, "refund"))
        await step.sleep("rest", 600)
        await step.do("ship", noting(notes, "ship"), params)
        return "shipped"

    return made


@pytest.mark.one_store("sqlite")
async def test_a_diverged_run_says_so_everywhere_and_goes_on_when_somebody_accepts_it(
    database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []
    old, new = shop(notes, "charge"), shop(notes, "bill")
    new.queue("alerts")
    async with harness(old, database=database) as h:
        await old.workflows.start("order", "lamp", id="o-1")
        await h.drain()
        async with h.deploy(new) as h2:
            run = new.workflows.get("o-1")
            await new.subscriptions.create("workflow.diverged", "alerts")
            await h2.advance(minutes=20)
            status = await run.status()
            assert status.status == "diverged"
            assert "charge (do charge)" in str(status.divergence)
            assert "bill (do charge)" in str(status.divergence)
            assert [found.id for found in await new.workflows.list(status="diverged")] == ["o-1"]
            why = await why_run(Context(h2.store, DEFAULT), "o-1")
            assert (why.code, "charge" in why.answer) == ("diverged", True)
            assert caplog.text.count("diverged") == 1  # However often it was tried.
            (event,) = await h2.sent("alerts")
            assert event.body["run_id"] == "o-1"
            assert notes == ["charge"]
            await run.accept()
            await h2.advance(minutes=20)
            assert await run.result() == "shipped"
            # Today's code charges under another name, and was told to go on with that.
            assert notes == ["charge", "charge", "ship"]
            with pytest.raises(Conflict, match="has completed"):
                await run.accept()


async def test_a_step_that_accepted_code_no_longer_has_is_named_when_it_cannot_be_undone(
    database: str | None,
) -> None:
    notes: list[str] = []
    old, new = shop(notes, "charge"), Tickwork()

    async def fail(_: str) -> None:
        raise Permanent("the truck is gone")

    @new.workflow(name="order")
    async def order(step: Step, params: str) -> None:
        await step.sleep("rest", 600)
        await step.do("ship", fail, params)

    async with harness(old, database=database) as h:
        await old.workflows.start("order", "lamp", id="o-1")
        await h.drain()
        async with h.deploy(new) as h2:
            run = new.workflows.get("o-1")
            await run.cancel(compensate=True)
            await h2.drain()
            assert (await run.status()).status == "diverged"
            assert (await why_run(Context(h2.store, DEFAULT), "o-1")).code == "diverged"
            assert notes == ["charge"]
            await run.accept()
            await h2.drain()
            (dead,) = await h2.dead(runs_queue("order"))
            assert "step 'charge' cannot be undone" in str(dead.error)
            assert (await run.status()).status == "cancelled"


async def test_a_workflow_may_go_on_with_a_warning_when_it_diverges(
    database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    notes: list[str] = []
    old, new = shop(notes, "charge"), shop(notes, "charge", on_divergence="accept")

    @new.workflow(name="order", version="2", on_divergence="accept")
    async def order(step: Step, params: str) -> str:
        await step.do("check", noting(notes, "check"), params)
        await step.do("charge", noting(notes, "charge"), params)
        await step.sleep("rest", 600)
        return "checked"

    async with harness(old, database=database) as h:
        await old.workflows.start("order", "lamp", id="o-1")
        await h.drain()
        del new._engine.registry.workflows["order"][None]
        async with h.deploy(new) as h2:
            await h2.advance(minutes=20)
            assert await new.workflows.get("o-1").result() == "checked"
    assert notes == ["charge", "check"]
    assert "goes on although it diverges" in caplog.text


async def test_a_restart_runs_what_was_undone_again_and_says_so_before(
    app: Tickwork, database: str | None
) -> None:
    notes: list[str] = []
    is_broken = True

    async def ship(_: str) -> str:
        if is_broken:
            raise Permanent("the truck is gone")
        notes.append("ship")
        return "shipped"

    @app.workflow()
    async def order(step: Step, params: str) -> str:
        await step.do("charge", noting(notes, "charge"), params, compensate=noting(notes, "refund"))
        await step.do("mail", noting(notes, "mail"), params)
        return await step.do("ship", ship, params)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order, "lamp")
        await h.drain()
        assert notes == ["charge", "mail", "refund"]
        with pytest.raises(InvalidInput, match="undoes a step"):
            await run.restart(from_step="compensate charge")
        plan = await run.restart(from_step="ship", dry_run=True)
        assert (plan.runs, plan.repeats, plan.keeps) == (("charge", "ship"), (), ("mail",))
        assert (await run.restart(from_step="mail", dry_run=True)).repeats == ("mail",)
        is_broken = False
        assert await run.restart(from_step="ship") == plan
        await h.drain()
        assert await run.result() == "shipped"
        assert notes == ["charge", "mail", "refund", "charge", "ship"]


async def test_a_run_that_kills_its_workers_is_undone(app: Tickwork, database: str | None) -> None:
    notes: list[str] = []

    @app.workflow()
    async def deadly(step: Step) -> None:
        await step.do("charge", noting(notes, "charge"), compensate=noting(notes, "refund"))
        await step.sleep("rest", 60)
        await step.do("kill", noting(notes, "kill"))

    async with harness(app, database=database) as h:
        run = await app.workflows.start(deadly)
        await h.drain()
        h._clock.advance(seconds=120)
        for _ in range(LOST_CLAIMS_MAX):  # Each node claims the run, and dies.
            node = new_id()
            await h.store.nodes.join(SYSTEM, node, name="doomed", roles=(), ttl_seconds=1)
            for separate in (False, True):
                await claim(
                    h.store, node, queue=runs_queue("deadly"), scope=SYSTEM, separate=separate
                )
            h._clock.advance(seconds=2)
            await h.maintain()
        await h.drain()
        with pytest.raises(RunFailed, match="worker_lost: its workers died"):
            await run.result()
    assert notes == ["charge", "refund"]


async def test_the_dead_letter_of_a_run_goes_on_after_a_failed_item_of_a_map(
    app: Tickwork, database: str | None
) -> None:
    notes: list[str] = []
    is_broken = True

    async def publish(page: int) -> str:
        notes.append(f"page {page}")
        if page == 1 and is_broken:
            raise Permanent("the site is down")
        return f"page {page}"

    @app.workflow()
    async def report(step: Step) -> list[str]:
        return await step.map("pages", publish, [0, 1, 2], retries=NO_RETRIES)

    async with harness(app, database=database) as h:
        await app.schedules.create(
            once_at="2026-01-05T10:00:00Z", target={"type": "workflow", "workflow": "report"}
        )
        await h.advance(hours=2)
        (dead,) = await h.dead(runs_queue("report"))
        assert "the site is down" in str(dead.error)
        is_broken = False
        await app.dead_letters.replay(runs_queue("report"), ids=[dead.letter.id])
        await h.advance(hours=1)
        (found,) = await app.workflows.list("report")
        assert (found.status, found.result) == ("completed", ["page 0", "page 1", "page 2"])
    assert sorted(notes) == ["page 0", "page 1", "page 1", "page 2"]


async def test_the_dead_letter_of_a_run_waits_again_for_an_event_that_did_not_come(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow()
    async def approval(step: Step) -> str:
        data = await step.wait_for_event("approval", type="approved", timeout_seconds=60)
        return str(data["by"])

    async with harness(app, database=database) as h:
        await app.schedules.create(
            once_at="2026-01-05T10:00:00Z", target={"type": "workflow", "workflow": "approval"}
        )
        await h.advance(hours=2)
        (dead,) = await h.dead(runs_queue("approval"))
        await app.dead_letters.replay(runs_queue("approval"), ids=[dead.letter.id])
        await h.drain()
        (found,) = await app.workflows.list("approval")
        assert found.status == "waiting"
        await app.workflows.get(found.id).send_event("approved", {"by": "ann"})
        await h.drain()
        assert await app.workflows.get(found.id).result() == "ann"


async def test_terminate_stops_the_step_that_runs(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.workflow.execution.CHECK_SECONDS", 0.02)
    seen: list[str] = []

    async def endless() -> None:
        seen.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("stopped")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("endless", endless)

    async with harness(app) as h:
        run = await app.workflows.start(order)
        draining = asyncio.create_task(h.drain())
        await eventually(lambda: seen == ["started"])
        await run.terminate()
        await eventually(lambda: seen == ["started", "stopped"])
        await draining
        assert (await run.status()).status == "terminated"


async def test_a_run_is_pausing_until_its_step_has_ended(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.workflow.execution.CHECK_SECONDS", 0.02)
    has_started, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        has_started.set()
        await may_end.wait()

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("slow", slow)
        await step.do("next", len, "ab")

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        draining = asyncio.create_task(h.drain())
        await has_started.wait()
        await run.pause()
        status = await run.status()
        assert status.status == "pausing"
        assert status.waits_for == ("the step that runs on harness",)
        (listed,) = await app.workflows.list()
        assert listed.status == "pausing"
        assert (await why_run(Context(h.store, DEFAULT), run.id)).code == "pausing"
        may_end.set()
        await draining
        assert (await run.status()).status == "paused"
        await run.cancel()
        await h.drain()
        assert (await run.status()).status == "cancelled"


async def test_why_names_the_event_and_those_that_were_sent_under_another_name(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow()
    async def sale(step: Step) -> None:
        await step.wait_for_event("approval", type="sale.approved", timeout_seconds=3_600)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(sale)
        await h.drain()
        for _ in range(2):
            await run.send_event("sale.aproved")
        await h.drain()
        why = await why_run(Context(h.store, DEFAULT), run.id)
        assert why.code == "event"
        assert "event 'sale.approved' (step approval)" in why.answer
        assert (
            "event 'sale.aproved' was sent twice, and no step has received it; "
            "it waits for 'sale.approved'" in why.details
        )
        assert (await run.status()).waits_for == ("step approval: event 'sale.approved'",)


async def test_a_run_that_was_paused_and_resumed_while_a_step_ran_goes_on(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.workflow.execution.CHECK_SECONDS", 0.02)
    has_started, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        has_started.set()
        await may_end.wait()
        return "done"

    @app.workflow()
    async def order(step: Step) -> str:
        return await step.do("slow", slow)

    async with harness(app, database=database) as h:
        history, seen = h.store.workflows.history, list[bool]()

        async def read(scope: Any, run_id: str, *, with_steps: bool = True) -> Any:
            found = await history(scope, run_id, with_steps=with_steps)
            seen.append(found.run.paused)
            return found

        monkeypatch.setattr(h.store.workflows, "history", read)
        run = await app.workflows.start(order)
        draining = asyncio.create_task(h.drain())
        await has_started.wait()
        await run.pause()
        await eventually(lambda: seen[-1:] == [True])
        await run.resume()
        await eventually(lambda: seen[-1:] == [False])
        may_end.set()
        await draining
        await h.drain()
        assert await run.result() == "done"


async def test_an_accepted_step_of_another_kind_is_replaced(database: str | None) -> None:
    notes: list[str] = []
    old, new = Tickwork(), Tickwork()

    @old.workflow(name="order")
    async def first(step: Step) -> None:
        await step.do("pause", noting(notes, "pause"))
        await step.sleep("rest", 60)

    @new.workflow(name="order")
    async def second(step: Step) -> str:
        await step.sleep("pause", 60)
        await step.sleep("rest", 60)
        return "rested"

    async with harness(old, database=database) as h:
        await old.workflows.start("order", id="o-1")
        await h.drain()
        async with h.deploy(new) as h2:
            run = new.workflows.get("o-1")
            await h2.advance(minutes=3)
            assert (await run.status()).status == "diverged"
            await run.accept()
            await h2.advance(minutes=5)
            assert await run.result() == "rested"
    assert notes == ["pause"]


@pytest.mark.one_store("sqlite")
async def test_what_was_accepted_holds_for_that_record_only(database: str | None) -> None:
    notes: list[str] = []

    def code(name: str) -> Tickwork:
        made = Tickwork()

        async def loop(step: Step, params: int) -> None:
            await step.do(name, noting(notes, f"{name}{params}"))
            await step.sleep("rest", 600)
            step.continue_as(params + 1)

        made.workflow(name="loop")(loop)
        return made

    first, second, third = code("a"), code("b"), code("c")
    async with harness(first, database=database) as h:
        await first.workflows.start("loop", 0, id="l")
        await h.drain()
        async with h.deploy(second) as h2:
            await h2.advance(minutes=11)
            await second.workflows.get("l").accept()
            await h2.advance(minutes=5)
            assert notes == ["a0", "b0", "b1"]
            async with h2.deploy(third) as h3:
                await h3.advance(minutes=30)
                assert (await third.workflows.get("l").status()).status == "diverged"
    assert notes == ["a0", "b0", "b1"]


async def test_a_body_starts_nothing_while_it_is_undone(
    app: Tickwork, database: str | None
) -> None:
    notes: list[str] = []
    undoing = asyncio.Event()

    async def refund(*_: Any) -> None:
        undoing.set()
        await asyncio.sleep(0.1)
        notes.append("refund")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", noting(notes, "charge"), compensate=refund)
        try:
            async with asyncio.timeout(0.05):
                await step.wait_for_event("approval", type="approved")
        except TimeoutError:
            await step.do("late", noting(notes, "late"))

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.drain()
        await run.cancel(compensate=True)
        await h.drain()
        assert (await run.status()).status == "cancelled"
    assert notes == ["charge", "refund"]


@pytest.mark.one_store("sqlite")
async def test_the_replay_of_a_dead_letter_repeats_nothing_that_changed_code_renames(
    database: str | None,
) -> None:
    notes: list[str] = []

    def code(name: str, *, is_broken: bool) -> Tickwork:
        made = Tickwork()

        async def ship() -> str:
            if is_broken:
                raise Permanent("the truck is gone")
            return "shipped"

        async def order(step: Step, _: Any) -> str:
            await step.do(name, noting(notes, "charge"))
            return await step.do("ship", ship)

        made.workflow(name="order")(order)
        return made

    old, new = code("charge", is_broken=True), code("bill", is_broken=False)
    async with harness(old, database=database) as h:
        await old.schedules.create(
            once_at="2026-01-05T10:00:00Z", target={"type": "workflow", "workflow": "order"}
        )
        await h.advance(hours=2)
        (dead,) = await h.dead(runs_queue("order"))
        async with h.deploy(new) as h2:
            await new.dead_letters.replay(runs_queue("order"), ids=[dead.letter.id])
            await h2.advance(hours=1)
            (found,) = await new.workflows.list("order")
            assert found.status == "diverged"
    assert notes == ["charge"]


class Charge(msgspec.Struct):
    """What a paid step returns."""

    id: str
    cents: int


async def test_a_compensation_gets_the_result_as_its_type(
    app: Tickwork, database: str | None
) -> None:
    refunded: list[tuple[str, int]] = []

    async def charge(cents: int) -> Charge:
        return Charge("ch_1", cents)

    async def refund(made: Charge | None, cents: int) -> None:
        assert made is not None
        refunded.append((made.id, cents))

    async def ship() -> None:
        raise Permanent("the truck is gone")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", charge, 700, compensate=refund)
        await step.do("ship", ship)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.drain()
        assert (await run.status()).status == "failed"
        assert refunded == [("ch_1", 700)]
        assert await h.dead(runs_queue("order")) == []


@pytest.mark.parametrize("compensates", [True, False])
async def test_a_run_that_is_cancelled_before_it_goes_on_does_not_complete(
    app: Tickwork, database: str | None, compensates: bool
) -> None:
    """All that its body needs is recorded, so that it could end at once."""
    notes: list[str] = []

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", noting(notes, "charge"), compensate=noting(notes, "refund"))
        await step.sleep("rest", 600)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.drain()
        await run.pause()
        await h.advance(minutes=20)
        await run.cancel(compensate=compensates)
        await h.drain()
        assert (await run.status()).status == "cancelled"
        assert notes == ["charge", *["refund"] * compensates]


async def test_runs_of_a_workflow_that_nobody_declares_any_more_are_told(
    database: str | None,
) -> None:
    old, new = shop([], "charge"), Tickwork()

    @new.workflow()
    async def purchase(step: Step) -> None:
        await step.sleep("rest", 1)

    async with harness(old, database=database) as h:
        await old.workflows.start("order", "lamp", id="o-1")
        await h.drain()
        async with h.deploy(new) as h2:
            await h2.advance(minutes=60)
            told = await why_run(Context(h2.store, DEFAULT), "o-1")
            assert told.code == "no_workflow"
            assert "no live node declares the workflow order" in told.answer
            (problem,) = (await new.status()).problems
            assert (problem.code, problem.name) == ("no_consumer", runs_queue("order"))


async def test_arguments_with_other_keys_than_texts_are_compared(database: str | None) -> None:
    notes: list[str] = []

    def coded(amount: int) -> Tickwork:
        app = Tickwork()
        pay = noting(notes, "pay")

        @app.workflow(name="order")
        async def order(step: Step) -> None:
            await step.do("pay", pay, {7: amount})
            await step.sleep("rest", 60)

        return app

    old, new = coded(10), coded(20)
    async with harness(old, database=database) as h:
        run = await old.workflows.start("order")
        await h.drain()
        async with h.deploy(new) as h2:
            await h2.advance(minutes=2)
            assert (await new.workflows.get(run.id).status()).status == "diverged"
    assert notes == ["pay"]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("result", "the recorded result of step 'charge' does not fit this code: .*`cents`"),
        ("results of a map", r"the recorded result of step 'pages' does not fit this code: "),
        ("params", "the params of the run do not fit this code; .*: .*`cents`"),
        ("error", "not asked for by this code: charge .*; this code raises KeyError: 'lamp'"),
        ("end", "not asked for by this code: charge .*; this code ends before"),
    ],
)
async def test_a_run_diverges_instead_of_failing_if_the_code_cannot_read_what_is_recorded(
    database: str | None, change: str, text: str
) -> None:
    notes: list[str] = []
    old, new = receipts(notes, "nothing"), receipts(notes, change)
    back = receipts(notes, "nothing")
    async with harness(old, database=database) as h:
        await old.workflows.start("order", Receipt("lamp"), id="o-1")
        await h.drain()
        async with h.deploy(new) as h2:
            await h2.advance(minutes=20)
            status = await new.workflows.get("o-1").status()
            assert status.status == "diverged"
            assert re.search(text, str(status.divergence))
            (found,) = await replay_runs(
                h2.store, DEFAULT, new._engine.registry.workflows, is_running=True
            )
            assert found.divergence == status.divergence
        assert notes == ["charge", "page"]
        async with h.deploy(back) as h3:
            await h3.advance(minutes=20)
            assert await back.workflows.get("o-1").result() == "shipped"
    assert notes == ["charge", "page", "ship"]


class Receipt(msgspec.Struct):
    id: str


class NewReceipt(msgspec.Struct):
    id: str
    cents: int


def receipts(notes: list[str], change: str) -> Tickwork:
    """An app whose workflow has recorded its results, and cannot ship yet; and one changed type of
    it, or an error."""
    made = Tickwork()

    async def charge(id_: str) -> Receipt:
        notes.append("charge")
        return Receipt(id_)

    async def page(_: int) -> int:
        notes.append("page")
        return 1

    async def ship() -> str:
        notes.append("ship")
        return "shipped"

    if change == "result":
        charge.__annotations__["return"] = NewReceipt
    if change == "results of a map":
        page.__annotations__["return"] = list[str]

    async def order(step: Step, params: Any) -> str:
        if change == "error":
            raise KeyError("lamp")
        if change == "end":
            return "nothing to do"
        await step.do("charge", charge, params.id, compensate=noting(notes, "refund"))
        await step.map("pages", page, [1])
        with_event = step.wait_for_event("approval", type="approved", timeout_seconds=600)
        with suppress(EventTimedOut):
            await with_event
        return await step.do("ship", ship)

    order.__annotations__["params"] = NewReceipt if change == "params" else Receipt
    made.workflow(name="order")(order)
    return made


@pytest.mark.one_store("sqlite")
async def test_why_says_which_version_a_run_needs_and_who_has_it(database: str | None) -> None:
    notes: list[str] = []
    old, new = Tickwork(), Tickwork()

    @old.workflow(name="order", version="1")
    async def order(step: Step) -> None:
        await step.do("charge", noting(notes, "charge"))
        await step.sleep("rest", 60)

    @new.workflow(name="order", version="2")
    async def renamed(step: Step) -> None:
        await step.do("bill", noting(notes, "charge"))
        await step.sleep("rest", 60)

    async with harness(old, database=database) as h:
        await old.workflows.start("order", id="o-1")
        await h.drain()
        async with h.deploy(new, beside=True) as h2:
            await h2.advance(minutes=2)  # Its own node has the run, and does nothing here.
            why = await why_run(Context(h2.store, DEFAULT), "o-1")
            assert why.code == "ready"
            who = "node harness has version 1; node harness has version 2"
            assert f"it needs version 1: {who}" in why.details
        await h.stop()
        await h.store.nodes.leave(SYSTEM, h._node.id)
        async with h.deploy(new) as h3:
            await h3.advance(minutes=20)
            why = await why_run(Context(h3.store, DEFAULT), "o-1")
            assert why.code == "diverged"
            assert why.details[-1].startswith("it needs version 1: node harness has version 2")
    assert notes == ["charge"]
