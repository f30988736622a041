"""Steps of workflows: their keys, rows and limits."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.kit.waiting import delay, eventually
from tickwork import InvalidInput, Retries, RunFailed, Step, StepFailed
from tickwork.core.model import DEFAULT
from tickwork.core.workflow.model import RUN_BYTES_MAX
from tickwork.core.workflow.queue import runs_queue
from tickwork.errors import StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.why import why_run
from tickwork.testing import harness
from tickwork.workflow import record

NO_RETRIES = Retries(0)


async def test_rows_of_a_step_commit_with_its_record_and_only_with_it(
    app: Tickwork, database: str | None
) -> None:
    mark = "?" if database is None else "$1"

    def save(rows: Any, value: str) -> str:
        rows.execute(f"INSERT INTO own_rows (value) VALUES ({mark})", value)
        return f"saved {value}"

    def save_badly(rows: Any) -> None:
        rows.execute("INSERT INTO no_such_table (value) VALUES (1)")

    @app.workflow()
    async def saving(step: Step) -> list[str]:
        first = await step.transaction("first", save, "x")
        try:
            await step.transaction("second", save_badly, retries=NO_RETRIES)
        except StepFailed as error:
            return [first, error.error_type]
        return []

    async with harness(app, database=database) as h:
        await run_sql(h.store, "CREATE TABLE own_rows (value TEXT)")
        try:
            run = await app.workflows.start(saving)
            await h.drain()
            first, error = await run.result()
            assert first == "saved x"
            assert error in ("OperationalError", "UndefinedTableError")
            assert await run_sql(h.store, "SELECT value FROM own_rows") == [("x",)]
        finally:
            await run_sql(h.store, "DROP TABLE own_rows")


async def run_sql(store: Any, statement: str) -> list[tuple[Any, ...]]:
    """Runs a statement of the app on the database of the store."""
    database = store._database
    if hasattr(database, "transact"):
        found = await database.transact(lambda connection: connection.fetch(statement))
        return [tuple(row.values()) for row in found]
    rows: list[tuple[Any, ...]] = await database.write(
        lambda transaction: transaction.execute(statement).fetchall()
    )
    return rows


async def test_a_name_that_two_tasks_use_is_refused_and_a_key_tells_them_apart(
    app: Tickwork, database: str | None
) -> None:
    @app.workflow()
    async def branches(step: Step, params: bool) -> list[int]:
        async def branch(number: int) -> int:
            key = str(number) if params else None
            result: int = await step.do("same", abs, number, key=key)
            return result

        return [*await asyncio.gather(branch(-1), branch(-2))]

    async with harness(app, database=database) as h:
        refused = await app.workflows.start(branches, False)
        with_keys = await app.workflows.start(branches, True)
        await h.drain()
        with pytest.raises(RunFailed, match="step 'same': is used by two tasks"):
            await refused.result()
        assert await with_keys.result() == [1, 2]
        keys = {step.key for step in (await with_keys.status()).steps}
        assert keys == {"same[-1]", "same[-2]"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda step: step.do("", abs, 1),
        lambda step: step.do(7, abs, 1),
        lambda step: step.do("x", "abs"),
        lambda step: step.do("x", abs, 1, retries=5),
        lambda step: step.do("x", abs, 1, timeout_seconds=0),
        lambda step: step.sleep("x", float("nan")),
        lambda step: step.sleep_until("x", "tomorrow"),
        lambda step: step.wait_for_event("x", type=""),
        lambda step: step.map("x", abs, [1], concurrency=0),
        lambda step: step.map("x", abs, range(10_001)),
        lambda step: step.do("x", abs, 1, retries=Retries(-1)),
    ],
)
async def test_a_wrong_call_is_refused_with_the_name_of_the_field(
    app: Tickwork, wrong: Any
) -> None:
    @app.workflow()
    async def careless(step: Step) -> str:
        try:
            await wrong(step)
        except InvalidInput as error:
            return str(error)
        return "nothing was refused"

    async with harness(app) as h:
        run = await app.workflows.start(careless)
        await h.drain()
        assert (
            "must" in (await run.result())
            or "is not" in (await run.result())
            or "maps" in (await run.result())
        )


@pytest.mark.parametrize(
    ("effect", "what"),
    [
        (lambda app: app.workflows.start("other"), "starts a run"),
        (lambda app: app.workflows.start_many("other", [1]), "starts runs"),
        (lambda app: app.workflows.get("x").send_event("go"), "sends an event"),
        (lambda app: app.workflows.get("x").cancel(), "cancels a run"),
        (lambda app: app.workflows.get("x").restart(), "restarts a run"),
    ],
)
async def test_what_a_body_does_to_runs_outside_a_step_is_refused(
    app: Tickwork, effect: Any, what: str
) -> None:
    @app.workflow()
    async def careless(step: Step) -> None:  # noqa: ARG001  what a body is given
        await effect(app)

    async with harness(app) as h:
        run = await app.workflows.start(careless)
        await h.drain()
        with pytest.raises(RunFailed, match=f"the body of the workflow: {what} outside a step"):
            await run.result()


@pytest.mark.parametrize("is_pinned", [True, False])
async def test_a_pinned_run_waits_for_its_version_and_another_goes_on_with_the_newest(
    database: str | None, is_pinned: bool
) -> None:
    old, new, again = Tickwork(), Tickwork(), Tickwork()

    async def one(step: Step) -> str:
        await step.sleep("rest", 600)
        return "one"

    for app in (old, again):
        app.workflow(name="content", version="1")(one)

    @new.workflow(name="content", version="2", pin=is_pinned)
    async def two(step: Step) -> str:
        await step.sleep("rest", 600)
        return "two"

    async with harness(old, database=database) as h:
        started = await old.workflows.start("content")
        await h.drain()
        async with h.deploy(new) as h2:
            run = new.workflows.get(started.id)
            await h2.advance(minutes=20)
            status = await run.status()
            assert (status.status, status.version) == ("running" if is_pinned else "completed", "1")
            if not is_pinned:
                assert await run.result() == "two"
                return
            why = await why_run(Context(h2.store, DEFAULT), run.id)
            assert why.code == "no_version"
            assert "version 1" in why.answer
            assert "takes it after version_grace_seconds" in why.next  # Nobody has pinned that one.
        async with h.deploy(again) as h3:
            await h3.drain()
            assert await again.workflows.get(run.id).result() == "one"


async def test_the_runs_of_a_pinned_version_wait_whatever_other_code_says(
    database: str | None,
) -> None:
    old, new, again = Tickwork(), Tickwork(), Tickwork()

    async def one(step: Step) -> str:
        await step.sleep("rest", 600)
        return "one"

    async def two(step: Step) -> str:
        await step.sleep("rest", 600)
        return "two"

    old.workflow(name="content", version="1", pin=True)(one)
    new.workflow(name="content", version="2")(two)
    again.workflow(name="content", version="1")(one)
    async with harness(old, database=database) as h:
        started = await old.workflows.start("content")
        await h.drain()
        async with h.deploy(new) as h2:
            run = new.workflows.get(started.id)
            await h2.advance(minutes=20)
            assert (await run.status()).status == "running"
            why = await why_run(Context(h2.store, DEFAULT), run.id)
            assert why.code == "no_version"
            assert "its version is pinned" in why.next
            (problem,) = (await new.status()).problems
            assert problem.name == runs_queue("content", "1")
        async with h.deploy(again) as h3:
            later = await again.workflows.start("content")
            await h3.drain()
            assert await again.workflows.get(run.id).result() == "one"
            async with h3.deploy(new) as h4:  # The version is no longer pinned.
                await h4.advance(minutes=20)
                assert await new.workflows.get(later.id).result() == "two"


async def test_a_step_that_nobody_awaits_ends_before_its_run(
    app: Tickwork, database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    async def slow() -> None:
        await asyncio.sleep(0.02)
        done.append("slow")

    @app.workflow()
    async def forgetful(step: Step) -> str:
        step.do("forgotten", slow)
        return "ready"

    async with harness(app, database=database) as h:
        run = await app.workflows.start(forgetful, id="f")
        await h.drain()
        assert (await run.result(), done) == ("ready", ["slow"])
    assert "run f: nobody awaits the steps forgotten" in caplog.text


async def test_a_run_has_a_limit_of_bytes_and_the_step_is_named(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RUN_BYTES_MAX == 104_857_600
    monkeypatch.setattr(record, "RUN_BYTES_MAX", 100)

    @app.workflow()
    async def growing(step: Step) -> None:
        for name in ("one", "two"):
            await step.do(name, str.upper, "x" * 60)

    async with harness(app) as h:
        run = await app.workflows.start(growing)
        await h.drain()
        with pytest.raises(RunFailed, match=r"step 'two'.*at most 100 bytes"):
            await run.result()


async def test_steps_that_end_together_have_the_limit_of_bytes_together(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "RUN_BYTES_MAX", 100)

    async def large() -> str:
        return "x" * 60

    @app.workflow()
    async def growing(step: Step) -> None:
        await step.gather(step.do("one", large), step.do("two", large))

    async with harness(app) as h:
        run = await app.workflows.start(growing)
        await h.drain()
        with pytest.raises(RunFailed, match="at most 100 bytes"):
            await run.result()


async def test_no_step_starts_while_the_lease_is_not_trusted(
    app: Tickwork, database: str | None
) -> None:
    """Another worker may have the run by then, and may have recorded the step."""
    ran: list[str] = []
    nodes: list[Any] = []

    async def lose_trust() -> None:
        ran.append("first")
        nodes[0].trusted_until = float("-inf")

    async def beside() -> str:
        ran.append("beside")
        return "recorded"

    @app.workflow()
    async def leased(step: Step) -> str:
        _, result = await step.gather(step.do("first", lose_trust), step.do("beside", beside))
        await step.do("second", ran.append, "second")
        return str(result)

    async with harness(app, database=database) as h:
        nodes.append(h._node)
        run = await app.workflows.start(leased)
        await h.drain()
        assert (await run.status()).status == "waiting"  # Until it is tried again.
        assert "second" not in ran
        nodes[0].trusted_until = float("inf")
        await h.advance(minutes=1)
        assert await run.result() == "recorded"
    assert sorted(ran) == ["beside", "first", "second"]


async def test_a_step_goes_on_while_the_database_does_not_tell_what_happens_to_its_run(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    has_failed = asyncio.Event()

    async def work() -> str:
        ran.append("work")
        await has_failed.wait()
        return "done"

    @app.workflow()
    async def both(step: Step) -> list[Any]:
        return [*await step.gather(step.do("work", work), step.wait_for_event("go", type="go"))]

    async with harness(app) as h:
        history = h.store.workflows.history

        async def fail(scope: Any, run_id: str, *, with_steps: bool = True) -> Any:
            if with_steps:
                return await history(scope, run_id)
            has_failed.set()
            raise StoreUnavailable("gone")

        monkeypatch.setattr("tickwork.workflow.execution.CHECK_SECONDS", 0.01)
        run = await app.workflows.start(both)
        with monkeypatch.context() as outage:
            outage.setattr(h.store.workflows, "history", fail)
            await h.drain()
        await run.send_event("go", 7)
        await h.advance(minutes=1)
        assert await run.result() == ["done", 7]
    assert ran == ["work"]


async def test_a_compensation_that_fails_is_a_dead_letter_and_the_others_go_on(
    app: Tickwork, database: str | None
) -> None:
    undone: list[int] = []

    def undo(_: Any, number: int) -> None:
        if number == 2:
            raise ValueError("cannot be undone")
        undone.append(number)

    @app.workflow()
    async def order(step: Step) -> None:
        for number in (1, 2, 3):
            await step.do(f"step {number}", abs, number, compensate=undo, retries=NO_RETRIES)
        raise ValueError("no luck")

    async with harness(app, database=database) as h:
        run = await app.workflows.start(order, id="x")
        await h.drain()
        assert (await run.status()).status == "failed"
        (dead,) = await h.dead(runs_queue("order"))
        assert dead.error is not None
        assert "run x: step 'compensate step 2' failed: ValueError: cannot be undone" in dead.error
    assert undone == [3, 1]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_replay_tries_failed_compensations_again_and_only_those(
    app: Tickwork, database: str | None, is_cancelled: bool
) -> None:
    undone, broken = list[int](), {2, 1}
    once = Retries(1, delay_seconds=60)

    def undo(_: Any, number: int) -> None:
        if number in broken:
            raise ValueError("cannot be undone")
        undone.append(number)

    @app.workflow()
    async def order(step: Step) -> None:
        for number in (1, 2, 3):
            await step.do(f"step {number}", abs, number, compensate=undo, retries=once)
        if not is_cancelled:
            raise ValueError("no luck")
        await step.wait_for_event("wait", type="never")

    queue, status = runs_queue("order"), "cancelled" if is_cancelled else "failed"
    async with harness(app, database=database) as h:
        run = await app.workflows.start(order, id="x")
        await h.drain()
        if is_cancelled:
            await run.cancel(compensate=True)
        await h.advance(minutes=10)
        assert undone == [3]
        assert [(await run.status()).status, len(await h.dead(queue))] == [status, 1]

        await app.dead_letters.replay(queue)
        await h.drain()  # The first attempt fails, the second one succeeds.
        broken.clear()
        await h.advance(minutes=10)
        assert undone == [3, 2, 1]
        assert [(await run.status()).status, await h.dead(queue)] == [status, []]


async def test_a_run_that_was_undone_starts_no_step_of_changed_code(
    app: Tickwork, database: str | None
) -> None:
    ran, is_fixed = list[str](), False

    def note(text: str) -> None:
        ran.append(text)

    def undo(_: Any, text: str) -> None:
        if not is_fixed:
            raise ValueError("cannot be undone")
        ran.append(f"undo {text}")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", note, "charge", compensate=undo, retries=NO_RETRIES)
        if not is_fixed:
            raise ValueError("no luck")
        await step.do("ship", note, "ship")

    queue = runs_queue("order")
    async with harness(app, database=database) as h:
        run = await app.workflows.start(order)
        await h.drain()
        is_fixed = True
        await app.dead_letters.replay(queue)
        await h.drain()
        assert [(await run.status()).status, await h.dead(queue)] == ["failed", []]
    assert ran == ["charge", "undo charge"]


async def test_the_replay_of_a_slot_tries_the_step_again_that_failed_its_run(
    app: Tickwork, database: str | None
) -> None:
    ran, is_fixed = list[str](), False

    def fetch() -> str:
        ran.append("fetch")
        return "page"

    def store(page: str) -> str:
        if not is_fixed:
            raise ValueError("no space")
        return f"{page} stored"

    @app.workflow()
    async def report(step: Step) -> str:
        with suppress(StepFailed):
            await step.do("cache", store, "?", retries=NO_RETRIES)
        return await step.do("store", store, await step.do("fetch", fetch), retries=NO_RETRIES)

    queue = runs_queue("report")
    async with harness(app, database=database) as h:
        made = await app.schedules.create(
            once_at=h.now + timedelta(hours=1), target={"type": "workflow", "workflow": "report"}
        )
        await h.advance(hours=2)
        is_fixed = True
        await app.dead_letters.replay(queue)
        await h.drain()
        assert await h.dead(queue) == []
        (run,) = await app.workflows.list()
        steps = {step.key: step.state for step in (await app.workflows.get(run.id).status()).steps}
        assert (run.status, run.result, ran) == ("completed", "page stored", ["fetch"])
        assert steps == {"cache": "failed", "fetch": "done", "store": "done"}
        fired = await app.schedules.firings(made.id)
        assert [firing.status for firing in fired] == ["succeeded", "dead"]


async def test_a_paused_run_is_not_read_again_and_again_while_its_last_step_runs(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, reads = asyncio.Event(), list[bool]()

    @app.workflow()
    async def both(step: Step) -> None:
        await step.gather(step.do("work", may_end.wait), step.wait_for_event("go", type="go"))

    monkeypatch.setattr("tickwork.workflow.execution.CHECK_SECONDS", 0.01)
    async with harness(app) as h:
        history = h.store.workflows.history

        async def read(scope: Any, run_id: str, *, with_steps: bool = True) -> Any:
            found = await history(scope, run_id, with_steps=with_steps)
            reads.append(found.run.paused)
            return found

        monkeypatch.setattr(h.store.workflows, "history", read)
        run = await app.workflows.start(both)
        draining = asyncio.create_task(h.drain())
        await eventually(lambda: len(reads) > 1)
        await run.pause()
        await eventually(lambda: any(reads))
        seen = len(reads)
        await delay(0.1)
        assert len(reads) - seen <= 20
        may_end.set()
        await draining


async def test_the_dead_letter_of_a_compensation_is_stored_with_the_end_of_its_run(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies after the one would not store the other."""

    def undo(_: Any) -> None:
        raise ValueError("cannot be undone")

    @app.workflow()
    async def order(step: Step) -> None:
        await step.do("charge", int, compensate=undo, retries=NO_RETRIES)
        raise ValueError("no luck")

    async with harness(app) as h:
        run = await app.workflows.start(order)
        seen: list[tuple[str, int]] = []
        for noun, verb in ((h.store.workflows, "end"), (h.store.messages, "settle")):
            write = getattr(noun, verb)

            async def look(*given: Any, write: Any = write) -> Any:
                answer = await write(*given)
                dead = await h.dead(runs_queue("order"))
                seen.append(((await run.status()).status, len(dead)))
                return answer

            monkeypatch.setattr(noun, verb, look)
        await h.drain()
    assert ("failed", 1) in seen
    assert ("failed", 0) not in seen


async def test_a_body_that_catches_everything_is_dropped_all_the_same(
    app: Tickwork, database: str | None
) -> None:
    seen: list[str] = []

    @app.workflow()
    async def stubborn(step: Step) -> str:
        try:
            await step.sleep("rest", 60)
        except Exception:
            seen.append("caught")
        finally:
            seen.append("cleaned up")
            await step.do("after", seen.append, "after")
        return "done"

    async with harness(app, database=database) as h:
        run = await app.workflows.start(stubborn)
        await h.drain()
        assert seen == ["cleaned up"]
        await h.advance(minutes=2)
        assert await run.result() == "done"
    assert "caught" not in seen
    assert seen.count("after") == 1


async def test_a_step_that_takes_too_long_is_stopped_and_a_timeout_of_its_own_is_its_error(
    app: Tickwork,
) -> None:
    async def hang() -> None:
        await asyncio.sleep(30)

    async def give_up() -> None:
        raise TimeoutError("the bank does not answer")

    @app.workflow()
    async def slow(step: Step) -> list[str]:
        errors = []
        for name, function in (("hang", hang), ("give up", give_up)):
            try:
                await step.do(name, function, retries=NO_RETRIES, timeout_seconds=0.01)
            except StepFailed as error:
                errors.append(error.error_message)
        return errors

    async with harness(app) as h:
        run = await app.workflows.start(slow)
        await h.drain()
        assert await run.result() == [
            "the step took longer than 0.01 seconds",
            "the bank does not answer",
        ]


NAN = float("nan")


async def test_nan_and_infinity_are_refused_in_arguments_and_params_with_their_path(
    app: Tickwork, database: str | None
) -> None:
    notes: list[str] = []

    async def charge(*_: Any) -> None:
        notes.append("charge")

    async def refund(*_: Any) -> None:
        notes.append("refund")

    @app.workflow()
    async def order(step: Step, params: Any) -> Any:
        match params:
            case "charge":
                await step.do("charge", charge, 7, {"price": [NAN, None]})
            case "refund":
                await step.do("charge", charge, NAN, compensate=refund)
            case "store":
                await step.transaction("store", charge, -float("inf"))
            case "what is not JSON":
                await step.do("other", charge, object(), {1: None}, {None})
            case "result of a step":
                await step.do("give", lambda: {"price": [NAN]}, retries=NO_RETRIES)
            case "item":
                await step.map("all", charge, [1, {"price": NAN}])
            case "result":
                return {"price": NAN}
            case "continue":
                await step.do("charge", charge, 7, compensate=refund)
                step.continue_as({"price": NAN})
        return None

    wanted = {
        "charge": r"step 'charge': has nan at args\[1\]\.price\[0\]",
        "refund": r"step 'charge': has nan at args\[0\]",
        "store": r"step 'store': has -inf at args\[0\]",
        "result of a step": r"step 'give' cannot be recorded: .* has nan at result\.price\[0\]",
        "item": r"step 'all': items\[1\]: has nan at items\[1\]\.price",
        "result": r"the result of the run: has nan at result\.price",
        "continue": r"step\.continue_as cannot go on with these .* has nan at params\.price",
    }
    async with harness(app, database=database) as h:
        for params, text in wanted.items():
            run = await app.workflows.start(order, params)
            await h.drain()
            with pytest.raises(RunFailed, match=text):
                await run.result()
        assert notes == ["charge", "refund"]
        run = await app.workflows.start(order, "what is not JSON")
        await h.drain()
        assert (await run.status()).status == "completed"
