"""Maps of workflows: each item is a child run, a batch counts them, and the parent waits for it."""

from __future__ import annotations

import asyncio
import dataclasses
import tracemalloc
import typing
from typing import Any
from uuid import UUID

import msgspec
import pytest

from tickwork import InvalidInput, Permanent, Retries, RunFailed, Step, StepFailed
from tickwork.core.model import DEFAULT
from tickwork.core.workflow.model import RunSelection, RunStatus
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness
from tickwork.workflow.maps import MapFunctions

NO_RETRIES = Retries(0)


class Page(msgspec.Struct):
    """An item with a key of its own."""

    id: str
    size: int


async def children_of(h: Harness, run_id: str) -> list[Any]:
    found = await h.store.workflows.list(DEFAULT, RunSelection(parent_id=run_id), 1_000)
    return sorted(found, key=lambda child: str(child.parent_step))


async def test_the_items_of_a_map_are_child_runs_that_a_batch_counts(
    app: Tickwork, database: str | None
) -> None:
    out = app.queue("out")

    async def publish(page: Page) -> int:
        assert isinstance(page, Page)
        await out.send(page.id)
        return page.size * 2

    @app.workflow()
    async def publishing(step: Step) -> list[int]:
        pages = [Page(letter, size) for size, letter in enumerate("abcde")]
        sizes: list[int] = await step.map("publish", publish, pages, key=lambda page: page.id)
        return sizes + await step.map("none", publish, [])

    async with harness(app, database=database) as h:
        run = await app.workflows.start(publishing, id="parent")
        await h.drain()
        assert await run.result() == [0, 2, 4, 6, 8]
        status = await run.status()
        assert [(step.key, step.kind, step.state) for step in status.steps] == [
            ("publish", "map", "done"),
            ("none", "map", "done"),
        ]
        found = await children_of(h, "parent")
        assert [child.parent_step for child in found] == [f"publish[{key}]" for key in "abcde"]
        assert {child.status for child in found} == {RunStatus.COMPLETED}
        batch = await h.store.batches.get(DEFAULT, UUID(status.steps[0].output["batch_id"]))
        assert (batch.total, batch.completed, batch.failed) == (5, 5, 0)
        assert sorted(message.body for message in await h.sent("out")) == [*"abcde"]
        assert [listed_run.id for listed_run in await app.workflows.list()] == ["parent"]
        assert len(await app.workflows.list(parent="parent", status="completed")) == 5


@dataclasses.dataclass
class Scaler:
    """An object that is called. It has no hash, and a field named as the parameter."""

    item: int

    async def __call__(self, item: Any) -> Any:
        return self.item * item["size"]


@pytest.mark.one_store("sqlite")
async def test_a_map_calls_any_callable_and_evaluates_its_types_once(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[Any] = []
    read_hints = typing.get_type_hints

    async def double(page: Page) -> int:
        return page.size * 2

    @app.workflow()
    async def scaling(step: Step) -> list[int]:
        pages = [Page(str(size), size) for size in range(50)]
        doubled: list[int] = await step.map("double", double, pages)
        return doubled + await step.map("scale", Scaler(3), pages)

    def count(function: Any, **options: Any) -> dict[str, Any]:
        evaluated.append(function)
        return read_hints(function, **options)

    monkeypatch.setattr(typing, "get_type_hints", count)
    async with harness(app, database=database) as h:
        run = await app.workflows.start(scaling, id="parent")
        await h.drain()
        expected = [size * 2 for size in range(50)] + [size * 3 for size in range(50)]
        assert await run.result() == expected
    assert len([function for function in evaluated if function is double]) <= 2


async def test_at_most_concurrency_items_of_a_map_run_at_a_time(
    app: Tickwork, database: str | None
) -> None:
    running = most = 0

    async def work(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        return number

    @app.workflow()
    async def narrow(step: Step) -> list[int]:
        found: list[int] = await step.map("work", work, range(12), concurrency=3)
        return found

    async with harness(app, database=database) as h:
        run = await app.workflows.start(narrow)
        await h.drain()
        assert await run.result() == [*range(12)]
    assert 1 <= most <= 3


async def test_a_failed_item_fails_the_map_after_the_others_have_ended(
    app: Tickwork, database: str | None
) -> None:
    done: list[int] = []

    async def work(number: int) -> int:
        if number == 1:
            raise Permanent("no")
        done.append(number)
        return number

    @app.workflow()
    async def careful(step: Step) -> str:
        try:
            await step.map("work", work, range(4))
        except StepFailed as error:
            return f"{error.step} {error.error_type} {error.error_message}"
        return ""

    async with harness(app, database=database) as h:
        run = await app.workflows.start(careful)
        await h.drain()
        assert await run.result() == "work[1] Permanent no"
        assert sorted(done) == [0, 2, 3]


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_item_is_retried_and_finds_its_function_in_a_process_that_never_ran_its_parent(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    failed: list[int] = []
    if not is_known:
        monkeypatch.setattr(MapFunctions, "get", lambda *_: None)

    @app.workflow()
    async def retrying(step: Step, params: int) -> list[int]:
        factor: int = await step.do("factor", abs, params)

        async def work(number: int) -> int:
            if number not in failed:
                failed.append(number)
                raise ValueError("not yet")
            return number * factor

        found: list[int] = await step.map("work", work, [1, 2], retries=Retries(1))
        return found

    async with harness(app, database=database) as h:
        run = await app.workflows.start(retrying, -3)
        await h.advance(minutes=1)
        assert await run.result() == [3, 6]


@pytest.mark.one_store("sqlite")
async def test_a_run_with_a_map_survives_a_crash_at_every_boundary(
    app: Tickwork, database: str | None
) -> None:
    out = app.queue("out")

    async def work(number: int) -> int:
        await out.send(number)
        return number + 1

    @app.workflow()
    async def mapped(step: Step) -> int:
        found = await step.map("work", work, [1, 2], concurrency=1)
        return await step.do("sum", sum, found)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(mapped)
        await h.drain()
        boundaries = len(h.steps.boundaries)
        assert await run.result() == 5
        for number in range(1, boundaries + 1):
            h.steps.crash_after(number)
            run = await app.workflows.start(mapped)
            await h.drain()
            assert await run.result() == 5, number
        assert h.steps.crashes == boundaries
        assert len(await h.sent("out")) == 2 * (boundaries + 1)


async def test_items_stop_with_their_run_and_wait_while_it_is_paused(
    app: Tickwork, database: str | None
) -> None:
    done: list[str] = []

    async def work(name: str) -> None:
        done.append(name)
        if name == "stop":
            await app.workflows.get("one").terminate()
        if name == "pause":
            await app.workflows.get("two").pause()

    @app.workflow()
    async def mapped(step: Step, params: list[str]) -> str:
        await step.map("work", work, params, concurrency=1, retries=NO_RETRIES)
        return "done"

    async with harness(app, database=database) as h:
        await app.workflows.start(mapped, ["a", "stop", "b", "c"], id="one")
        await h.drain()
        assert done == ["a", "stop"]
        statuses = [child.status for child in await children_of(h, "one")]
        assert statuses == ["completed", "completed", "cancelled", "cancelled"]

        run = await app.workflows.start(mapped, ["pause", "d"], id="two")
        await h.advance(minutes=10)
        assert done[2:] == ["pause"]
        waits = (await run.status()).waits_for
        assert waits[0].startswith("step work: 2 items; batch ")
        await run.resume()
        await h.advance(minutes=1)
        assert (await run.result(), done[3:]) == ("done", ["d"])


async def test_a_purged_item_fails_its_map_instead_of_leaving_the_run_to_wait(
    app: Tickwork, database: str | None
) -> None:
    async def work(number: int) -> int:
        if number == 0:
            status = await app.workflows.get("parent").status()
            await h.store.batches.cancel(DEFAULT, UUID(status.steps[0].output["batch_id"]))
        return number

    @app.workflow()
    async def mapped(step: Step) -> Any:
        return await step.map("work", work, range(3), concurrency=1)

    async with harness(app, database=database) as h:
        run = await app.workflows.start(mapped, id="parent")
        await h.drain()
        with pytest.raises(RunFailed, match=r"step 'work\[1\]' failed: ItemLost"):
            await run.result()


@pytest.mark.parametrize(
    ("items", "key", "text"),
    [
        ([object()], None, "items[0]"),
        (["x" * 200_000], None, "at most 120000"),
        ([1, 1], str, "has the key '1' of another item"),
        ([1], lambda _: 7, "must be a text, not 7"),
    ],
)
async def test_an_item_that_cannot_be_stored_is_refused_with_its_number(
    app: Tickwork, items: Any, key: Any, text: str
) -> None:
    @app.workflow()
    async def careless(step: Step) -> str:
        try:
            await step.map("work", abs, items, key=key)
        except InvalidInput as error:
            return str(error)
        return ""

    async with harness(app) as h:
        run = await app.workflows.start(careless)
        await h.drain()
        assert text in await run.result()


@pytest.mark.soak
async def test_a_map_of_ten_thousand_items_takes_little_memory(
    app: Tickwork, database: str | None
) -> None:
    async def work(number: int) -> int:
        return number

    @app.workflow()
    async def wide(step: Step) -> int:
        return sum(await step.map("work", work, range(10_000), concurrency=100))

    async with harness(app, database=database) as h:
        run = await app.workflows.start(wide)
        tracemalloc.start()
        try:
            await h.drain()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert await run.result() == sum(range(10_000))
        assert most < 100_000_000


def paged(notes: list[str], code: str) -> Tickwork:
    """An app whose workflow maps three pages, one at a time; and the same with one edit."""
    made = Tickwork()

    async def publish(page: int) -> int:
        notes.append(f"page {page}")
        if notes == ["page 0"]:
            raise ValueError("not yet")
        return page

    async def print_out(page: int) -> int:
        notes.append(f"printed {page}")
        return page

    @made.workflow(name="report")
    async def report(step: Step) -> list[int]:
        if code != "removed":
            await step.do("first", len, "ab")
        function = print_out if code == "other function" else publish
        items = [0, 1, 2, 3] if code == "another item" else [0, 1, 2]
        again = Retries(1, delay_seconds=60)
        return await step.map("pages", function, items, concurrency=1, retries=again)

    return made


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("code", ["removed", "other function", "another item"])
async def test_no_item_of_a_map_runs_on_code_from_which_its_run_diverges(
    database: str | None, code: str
) -> None:
    notes: list[str] = []
    old, new, back = paged(notes, "old"), paged(notes, code), paged(notes, "old")
    async with harness(old, database=database) as h:
        await old.workflows.start("report", id="r-1")
        await h.drain()
        async with h.deploy(new) as h2:
            await h2.advance(minutes=10)
            status = await new.workflows.get("r-1").status()
            assert (status.status, notes) == ("diverged", ["page 0"])
        async with h.deploy(back) as h3:
            await h3.advance(minutes=10)
            assert await back.workflows.get("r-1").result() == [0, 1, 2]
    assert notes == ["page 0", "page 0", "page 1", "page 2"]


@pytest.mark.one_store("sqlite")
async def test_the_items_of_a_map_go_on_when_somebody_accepts_the_code_of_their_run(
    database: str | None,
) -> None:
    notes: list[str] = []
    old, new = paged(notes, "old"), paged(notes, "removed")
    async with harness(old, database=database) as h:
        await old.workflows.start("report", id="r-1")
        await h.drain()
        async with h.deploy(new) as h2:
            await h2.advance(minutes=10)
            run = new.workflows.get("r-1")
            await run.accept()
            await h2.advance(minutes=1)
            assert await run.result() == [0, 1, 2]
    assert notes == ["page 0", "page 0", "page 1", "page 2"]
