"""Workflows in an app: steps are recorded once, waits take nothing, and runs end with a result."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tickwork import (
    Conflict,
    EventTimedOut,
    InvalidInput,
    NotFound,
    Permanent,
    Retries,
    RunFailed,
    Step,
    StepFailed,
)
from tickwork.facade.app import Tickwork
from tickwork.testing import harness


async def test_a_run_does_its_steps_once_and_returns(app: Tickwork, database: str | None) -> None:
    done: list[str] = []

    async def fetch(keyword: str) -> dict[str, str]:
        done.append("fetch")
        return {"about": keyword}

    def write(research: dict[str, str]) -> str:
        done.append("write")
        return f"an article about {research['about']}"

    @app.workflow(version="1")
    async def content(step: Step, params: dict[str, str]) -> str:
        research = await step.do("fetch", fetch, params["keyword"])
        await step.sleep("cool-down", 3_600)
        return await step.do("write", write, research)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(content, {"keyword": "tax"}, id="brand-7")
        await h.drain()
        assert done == ["fetch"]
        status = await run.status()
        assert (status.status, status.waits_for) == ("sleeping", ("step cool-down: it sleeps",))
        assert status.wake_at == h.now + timedelta(seconds=3_600)
        await h.advance(minutes=59)
        assert done == ["fetch"]
        await h.advance(minutes=1)
        assert done == ["fetch", "write"]
        assert await run.result() == "an article about tax"
        status = await app.workflows.get("brand-7").status()
        assert (status.status, status.version) == ("completed", "1")
        assert [step.key for step in status.steps] == ["fetch", "cool-down", "write"]
        with pytest.raises(Conflict, match="on_conflict"):
            await app.workflows.start(content, {"keyword": "tax"}, id="brand-7")


async def test_a_declared_workflow_has_a_name_and_calls_its_function(
    app: Tickwork, database: str | None
) -> None:
    async def double(step: Step, params: int) -> int:
        """Doubles a number."""
        return params * len([step, step])

    first = app.workflow(name="double", version="1")(double)
    second = Tickwork().workflow()(first)
    step: Any = object()
    assert (repr(first), first.name, first.__doc__) == (
        "Workflow('double')",
        "double",
        "Doubles a number.",
    )
    assert await first(step, 4) == await second(step, params=4) == 8
    async with harness(app, database=database) as h:
        runs = [
            await app.workflows.start(first, 5),
            await app.workflows.start(second, 5),  # The same function.
            await app.workflows.start("double", 5),
        ]
        await h.drain()
        assert [await run.result() for run in runs] == [10, 10, 10]
        assert len(await app.workflows.list(first)) == 3
        unknown = Tickwork().workflow()(_undeclared)
        with pytest.raises(InvalidInput, match=r"Workflow\('_undeclared'\) is not declared"):
            await app.workflows.start(unknown)


async def _undeclared(step: Step) -> None:
    await step.sleep("rest", 1)


async def test_a_failing_step_is_retried_at_its_time_and_its_error_is_recorded(
    app: Tickwork, database: str | None
) -> None:
    attempts: list[float] = []

    @app.workflow()
    async def flaky(step: Step, params: int) -> str:
        async def try_it() -> str:
            attempts.append((h.now - start).total_seconds())
            if len(attempts) <= params:
                raise ValueError(f"no luck {len(attempts)}")
            return "luck"

        try:
            return await step.do("try", try_it, retries=Retries(2, delay_seconds=10))
        except StepFailed as error:
            return f"{error.step} {error.error_type} {error.error_message}"

    async with harness(app, database=database) as h:
        start = h.now
        run = await app.workflows.start(flaky, 2)
        await h.advance(minutes=1)
        assert await run.result() == "luck"
        assert attempts == [0, 10, 30]
        attempts.clear()
        start = h.now
        run = await app.workflows.start(flaky, 9)
        await h.advance(minutes=1)
        assert await run.result() == "try ValueError no luck 3"
        assert attempts == [0, 10, 30]


async def test_a_permanent_error_and_a_result_that_is_no_json_are_not_retried(
    app: Tickwork, database: str | None
) -> None:
    calls: list[str] = []

    async def give_up() -> None:
        calls.append("give up")
        raise Permanent("never")

    async def make_no_json() -> object:
        calls.append("no json")
        return make_no_json

    async def make_too_much() -> str:
        calls.append("much")
        return "x" * 1_048_577

    @app.workflow()
    async def three(step: Step) -> list[str]:
        errors = []
        for name, function in (("a", give_up), ("b", make_no_json), ("c", make_too_much)):
            try:
                await step.do(name, function)
            except StepFailed as error:
                errors.append(str(error))
        return errors

    async with harness(app, database=database) as h:
        run = await app.workflows.start(three)
        await h.drain()
        first, second, third = await run.result()
        assert first == "step 'a' failed: Permanent: never"
        assert "the result of step 'b' cannot be recorded" in second
        assert "the result of step 'c' cannot be recorded" in third
        assert "at most 1048576" in third
    assert calls == ["give up", "no json", "much"]


@pytest.mark.parametrize("is_sent_before", [False, True])
async def test_an_event_reaches_its_wait_whether_it_comes_before_or_after(
    app: Tickwork, database: str | None, is_sent_before: bool
) -> None:
    @app.workflow()
    async def approve(step: Step) -> list[Any]:
        await step.sleep("first", 60)
        one = await step.wait_for_event("one", type="approved")
        two = await step.wait_for_event("two", type="approved", timeout_seconds=600)
        try:
            await step.wait_for_event("three", type="approved", timeout_seconds=600)
        except EventTimedOut as error:
            return [one, two, error.step]
        return []

    async with harness(app, database=database) as h:
        run = await app.workflows.start(approve)
        if not is_sent_before:
            await h.advance(minutes=2)
        await run.send_event("approved", {"by": "ann"}, id="1")
        await run.send_event("approved", {"by": "ann"}, id="1")
        await run.send_event("approved", {"by": "ben"})
        await run.send_event("other")
        await h.advance(minutes=2)
        status = await run.status()
        assert status.waits_for == ("step three: event 'approved'",)
        assert [event.consumed_by for event in status.events] == ["one", "two", None]
        await h.advance(minutes=11)
        assert await run.result() == [{"by": "ann"}, {"by": "ben"}, "three"]
        with pytest.raises(Conflict, match="takes no more events"):
            await run.send_event("approved")
        with pytest.raises(NotFound, match="no run nobody"):
            await app.workflows.get("nobody").send_event("approved")
        made = await app.workflows.send_event(approve, "new", "approved", 1)
        assert [event.type for event in (await made.status()).events] == ["approved"]


async def test_events_that_start_a_run_at_the_same_time_all_reach_it(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow()
    async def collect(step: Step) -> list[int]:
        return sorted([await step.wait_for_event(f"{at}", type="go") for at in range(5)])

    async with harness(app, database=database) as h:
        send = app.workflows.send_event
        await asyncio.gather(*(send(collect, "x", "go", number) for number in range(5)))
        await h.drain()
        assert await app.workflows.get("x").result(timeout_seconds=1) == [0, 1, 2, 3, 4]


WRONG: list[tuple[Any, str]] = [
    (lambda _, run: run.send_event(""), "type"),
    (lambda _, run: run.send_event(7), "type"),
    (lambda _, run: run.send_event("go", object()), "data"),
    (lambda _, run: run.send_event("go", "x" * 1_048_576), "data"),
    (lambda _, run: run.send_event("go", id=""), "id"),
    (lambda _, run: run.send_event("go", id=7), "id"),
    (lambda _, run: run.restart(from_step="nothing"), "from_step"),
    (lambda app, _: app.workflows.start("waits", id=""), "id"),
    (lambda app, _: app.workflows.start("waits", id=7), "id"),
    (lambda app, _: app.workflows.start("waits", id="y", on_conflict="no"), "on_conflict"),
    (lambda app, _: app.workflows.start("waits", id="y", deadline_seconds=-1), "deadline_seconds"),
    (lambda app, _: app.workflows.start("waits", object(), id="y"), "params"),
    (lambda app, _: app.workflows.start("waits", "x" * 1_048_576, id="y"), "params"),
]
VERBS: list[Any] = [
    lambda run: run.status(),
    lambda run: run.result(timeout_seconds=1),
    lambda run: run.send_event("go"),
    lambda run: run.pause(),
    lambda run: run.resume(),
    lambda run: run.cancel(),
    lambda run: run.terminate(),
    lambda run: run.restart(),
]


async def test_bad_input_is_refused_by_its_field_and_changes_nothing(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow()
    async def waits(step: Step, params: Any = None) -> Any:
        return params or await step.wait_for_event("event", type="go")

    async with harness(app, database=database) as h:
        run = await app.workflows.start(waits, id="x")
        await h.drain()
        before = await run.status()
        for wrong, field in WRONG:
            with pytest.raises(InvalidInput) as caught:
                await wrong(app, run)
            assert [error.field for error in caught.value.errors] == [field]
        for verb in VERBS:
            for unknown in ("nobody", "", "\0"):
                with pytest.raises(NotFound, match="no run"):
                    await verb(app.workflows.get(unknown))
        with pytest.raises(NotFound, match="no workflow wait; an app"):
            await app.workflows.start("wait")
        assert await run.status() == before
        assert [listed_run.id for listed_run in await app.workflows.list()] == ["x"]


async def test_parallel_steps_run_together_and_siblings_finish_before_an_error(
    app: Tickwork, database: str | None
) -> None:
    done: list[int] = []

    async def work(number: int) -> int:
        await asyncio.sleep(0.01 * number)
        if number == 1:
            raise Permanent("no")
        done.append(number)
        return number

    @app.workflow()
    async def fan_out(step: Step) -> list[int]:
        with pytest.raises(StepFailed):
            await step.gather(*(step.do("part", work, number) for number in (1, 2, 3)))
        assert done[:2] == [2, 3]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(step.do("task", work, number)) for number in (4, 5)]
        await step.sleep("a while", 60)
        return [task.result() for task in tasks] + await step.map("item", work, [6, 7])

    async with harness(app, database=database) as h:
        run = await app.workflows.start(fan_out)
        await h.advance(minutes=2)
        assert await run.result() == [4, 5, 6, 7]
        keys = [step.key for step in (await run.status()).steps]
        parts = ["part", "part#2", "part#3", "task", "task#2", "a while", "item"]
        assert sorted(keys) == sorted(parts)
    assert done == [2, 3, 4, 5, 6, 7]


async def test_a_failed_run_undoes_its_steps_in_reverse_order(
    app: Tickwork, database: str | None
) -> None:
    undone: list[tuple[Any, ...]] = []

    async def charge(amount: int) -> str:
        return f"charge {amount}"

    async def ship(_: int) -> str:
        raise Permanent("no stock")

    async def refund(output: Any, amount: int) -> None:
        undone.append((output, amount))
        if amount == 2 and len(undone) < 3:
            raise ValueError("the bank does not answer")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("one", charge, 1, compensate=refund)
        await step.do("two", charge, 2, compensate=refund)
        await step.do("ship", ship, 3, compensate=refund)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.advance(minutes=5)
        with pytest.raises(RunFailed, match="step 'ship' failed: Permanent: no stock"):
            await run.result()
        assert (await run.status()).status == "failed"
    assert undone == [(None, 3), ("charge 2", 2), ("charge 2", 2), ("charge 1", 1)]


async def test_a_paused_run_does_nothing_and_wakes_at_once_when_its_time_has_passed(
    app: Tickwork, database: str | None
) -> None:
    done: list[str] = []

    @app.workflow()
    async def two_steps(step: Step) -> str:
        await step.do("first", done.append, "first")
        await step.sleep("an hour", 3_600)
        await step.do("second", done.append, "second")
        return "ready"

    async with harness(app, database=database) as h:
        run = await app.workflows.start(two_steps)
        await run.pause()
        await h.advance(hours=3)
        assert done == []
        await run.resume()
        await h.drain()
        assert done == ["first"]
        await run.pause()
        assert (await run.status()).status == "paused"
        await h.advance(hours=5)
        assert done == ["first"]
        await run.resume()
        await h.drain()
        assert (await run.result(), done) == ("ready", ["first", "second"])


async def test_a_run_that_is_paused_during_a_step_records_it_and_stops_there(
    app: Tickwork, database: str | None
) -> None:
    done: list[str] = []

    async def pause() -> str:
        done.append("pauses")
        await run.pause()
        return "paused"

    @app.workflow()
    async def pausing(step: Step) -> str:
        try:
            result: str = await step.do("first", pause)
        except Exception:
            done.append("an error reached the body")
            raise
        await step.do("second", done.append, "second")
        return result

    async with harness(app, database=database) as h:
        run = await app.workflows.start(pausing)
        await h.advance(hours=1)
        assert done == ["pauses"]
        assert [step.state for step in (await run.status()).steps] == ["done"]
        await run.resume()
        await h.drain()
        assert (await run.result(), done) == ("paused", ["pauses", "second"])


@pytest.mark.parametrize("compensate", [False, True])
async def test_a_cancelled_run_ends_and_undoes_its_steps_if_asked_to(
    app: Tickwork, database: str | None, compensate: bool
) -> None:
    seen: list[Any] = []

    async def charge(amount: int) -> int:
        return amount * 10

    async def refund(output: int | None, amount: int) -> None:
        seen.append((output, amount))

    @app.workflow()
    async def order(step: Step) -> None:
        try:
            await step.do("charge", charge, 5, compensate=refund)
            await step.wait_for_event("wait", type="never")
        except Exception as error:
            seen.append(error)
            raise

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.drain()
        await run.cancel(compensate=compensate)
        assert (await run.status()).status == "cancelling"
        await h.drain()
        with pytest.raises(RunFailed) as ended:
            await run.result()
        assert ended.value.status == "cancelled"
    assert seen == ([(50, 5)] if compensate else [])


async def test_a_terminated_run_ends_at_once_and_a_restart_goes_on_from_a_step(
    app: Tickwork, database: str | None
) -> None:
    done: list[str] = []

    @app.workflow()
    async def three_steps(step: Step, params: str) -> str:
        for name in params:
            await step.do(name, done.append, name)
        await step.sleep("end", 60)
        return params

    async with harness(app, database=database) as h:
        run = await app.workflows.start(three_steps, "abc", id="x")
        await h.drain()
        await run.terminate()
        with pytest.raises(RunFailed, match="run x terminated"):
            await run.result()
        await h.advance(minutes=2)
        with pytest.raises(Conflict, match="been terminated"):
            await run.resume()
        with pytest.raises(InvalidInput, match="no step 'd'; it has recorded: a, b, c, end"):
            await run.restart(from_step="d")
        await run.restart(from_step="b")
        await h.drain()
        assert done == ["a", "b", "c", "b", "c"]
        await h.advance(minutes=2)
        assert await run.result() == "abc"
        await run.restart()
        await h.advance(minutes=2)
        assert await run.result() == "abc"
        assert done[5:] == ["a", "b", "c"]
        again = await app.workflows.start(
            three_steps, "z", id="x", on_conflict="restart_if_finished"
        )
        await h.advance(minutes=2)
        assert await again.result() == "z"
        used = await app.workflows.start(three_steps, "y", id="x", on_conflict="use_existing")
        assert await used.result() == "z"


async def test_a_run_past_its_deadline_fails_and_undoes_its_steps(
    app: Tickwork, database: str | None
) -> None:
    undone: list[Any] = []

    @app.workflow()
    async def slow(step: Step) -> None:
        await step.do("one", str, 1, compensate=lambda output, _: undone.append(output))
        await step.sleep("long", 86_400)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(slow, deadline_seconds=60)
        await h.advance(seconds=59)
        assert (await run.status()).status == "sleeping"
        await h.advance(seconds=1)
        with pytest.raises(RunFailed, match="did not end before its deadline"):
            await run.result()
    assert undone == ["1"]


async def test_a_run_without_an_end_continues_with_new_params(
    app: Tickwork, database: str | None
) -> None:
    seen: list[int] = []

    @app.workflow()
    async def endless(step: Step, params: int) -> int:
        await step.do("note", seen.append, params)
        event = await step.wait_for_event("go", type="go")
        if event == "stop":
            return params
        try:
            step.continue_as(params + 1)
        except Exception:
            return -1

    async with harness(app, database=database) as h:
        run = await app.workflows.start(endless, 1)
        for go in ("on", "on", "stop"):
            await run.send_event("go", go)
            await h.drain()
        assert await run.result() == 3
        assert (await run.status()).generation == 2
    assert seen == [1, 2, 3]


async def test_what_a_step_sends_commits_with_its_record_and_a_body_may_not_send(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")

    async def tell(number: int) -> None:
        await work.send(number)
        if number == 1:
            number = 2
            raise Permanent("nothing is sent")

    @app.workflow()
    async def teller(step: Step) -> str:
        with pytest.raises(StepFailed):
            await step.do("one", tell, 1)
        await step.do("two", tell, 2)
        try:
            await work.send(3)
        except InvalidInput as error:
            return str(error)
        return ""

    async with harness(app, database=database) as h:
        run = await app.workflows.start(teller, id="teller")
        await h.drain()
        assert "sends to work outside a step" in await run.result()
        (sent,) = await h.sent("work")
        assert sent.body == 2
        assert sent.message.causation_id is not None


async def test_old_versions_finish_on_their_code_and_a_patch_keeps_old_runs_on_the_old_way(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow(name="content", version="1")
    async def old(step: Step) -> str:
        await step.sleep("wait", 60)
        return "old"

    @app.workflow(name="content", version="2")
    async def new(step: Step) -> str:
        await step.sleep("wait", 60)
        return "new"

    ways: list[str] = []

    @app.workflow()
    async def changed(step: Step) -> str:
        if is_patched and await step.patched("new way"):
            ways.append("new")
        else:
            ways.append("old")
        await step.sleep("wait", 60)
        return ways[-1]

    is_patched = False
    async with harness(app, database=database) as h:
        on_old = await app.workflows.start(old)
        on_new = await app.workflows.start("content")
        assert (await on_old.status()).version == "1"
        assert (await on_new.status()).version == "2"
        before = await app.workflows.start(changed)
        await h.drain()
        is_patched = True
        after = await app.workflows.start(changed)
        await h.advance(minutes=2)
        assert (await before.result(), await after.result()) == ("old", "new")
        assert (await on_old.result(), await on_new.result()) == ("old", "new")


async def test_no_recorded_step_runs_again_after_a_crash_at_any_boundary(
    app: Tickwork, database: str | None
) -> None:
    ran_again: list[str] = []

    async def work(name: str) -> str:
        recorded = {step.key: step.state for step in (await run.status()).steps}
        if recorded.get(name) == "done":
            ran_again.append(name)
        return name.upper()

    async def undo(_output: str | None, name: str) -> None:
        ran_again.append(name)

    @app.workflow()
    async def content(step: Step) -> list[Any]:
        first = await step.do("a", work, "a", compensate=undo)
        pair = await step.gather(step.do("b", work, "b"), step.do("c", work, "c"))
        await step.sleep("rest", 5)
        event = await step.wait_for_event("event", type="go")
        return [first, *pair, event, await step.do("d", work, "d")]

    async with harness(app, database=database) as h:
        for crash_at in range(1, 100, 1 if database is None else 3):
            h.steps.boundaries.clear()
            crashes = h.steps.crashes
            h.steps.crash_after(crash_at)
            run = await app.workflows.start(content)
            await run.send_event("go", crash_at)
            await h.advance(seconds=10)
            assert await run.result() == ["A", "B", "C", crash_at, "D"]
            events = (await run.status()).events
            assert [event.consumed_by for event in events] == ["event"]
            if h.steps.crashes == crashes:
                break
        assert crash_at > 10
    assert ran_again == []


async def test_mocks_replace_steps(app: Tickwork, database: str | None) -> None:
    async def charge(amount: int) -> str:
        raise AssertionError(f"the bank is asked for {amount}")

    @app.workflow()
    async def order(step: Step) -> list[Any]:
        once = await step.do("charge", charge, 1)
        twice = await step.do("charge", charge, 2)
        return [once, twice, await step.do("other", charge, 3)]

    async with harness(app, database=database) as h:
        h.steps.mock("charge", "paid")
        h.steps.mock("other", lambda amount: amount * 2)
        run = await app.workflows.start(order)
        await h.drain()
        assert await run.result() == ["paid", "paid", 6]


async def test_a_cancelled_run_undoes_steps_after_a_sleep_too(
    app: Tickwork, database: str | None
) -> None:
    undone: list[str | None] = []

    def undo(output: str | None, _: str) -> None:
        undone.append(output)

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", str.upper, "charge", compensate=undo)
        await step.sleep("rest", 60)
        await step.do("ship", str.upper, "ship", compensate=undo)
        await step.wait_for_event("wait", type="never")

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.advance(minutes=2)
        await run.cancel(compensate=True)
        await h.drain()
        assert (await run.status()).status == "cancelled"
    assert undone == ["SHIP", "CHARGE"]


async def test_a_schedule_starts_runs_and_its_firings_end_with_them(
    app: Tickwork, database: str | None
) -> None:
    seen: list[Any] = []

    @app.workflow()
    async def report(step: Step, params: dict[str, Any]) -> str:
        await step.sleep("a while", 5_400)
        await step.do("note", seen.append, params)
        if len(seen) == 2:
            raise ValueError("no luck")
        return "done"

    async with harness(app, database=database) as h:
        schedule = await app.schedules.create(
            interval_minutes=60,
            target={"type": "workflow", "workflow": "report"},
            payload={"of": "brand"},
            overlap="skip",
        )
        assert schedule.target == {"type": "workflow", "workflow": "report"}
        await h.advance(hours=4, minutes=45)
        assert seen == [{"of": "brand"}, {"of": "brand"}]
        first, second, *_ = sorted(await app.workflows.list(), key=lambda run: run.created_at)
        assert (first.status, second.status) == ("completed", "failed")
        fired = await app.schedules.firings(schedule.id)
        states = [(firing.status, firing.reason) for firing in fired]
        assert ("succeeded", None) in states
        assert ("dead", "permanent") in states
        assert ("skipped", "skipped_overlap") in states
        with pytest.raises(InvalidInput, match="no workflow 'reports'; did you mean 'report'"):
            await app.schedules.create(
                interval_minutes=60, target={"type": "workflow", "workflow": "reports"}
            )
        with pytest.raises(InvalidInput, match="must be a text, not None"):
            target: Any = {"type": "workflow"}
            await app.schedules.create(interval_minutes=60, target=target)
