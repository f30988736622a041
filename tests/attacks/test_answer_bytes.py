"""A single answer ends after four megabytes, as a page of a list does, and says where to read on:
the steps and events of a run, and the attempts at a delivery."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.client.kit import InProcess
from tests.conformance.acts import claim, join
from tests.conformance.endpoint_acts import (
    attempt,
    claimed_one,
    make_endpoint,
    publish,
    the_delivery,
)
from tests.kit.api import new_key
from tests.stores.clock import VirtualClock
from tickwork import Client
from tickwork.api.pages import PAGE_BYTES_MAX
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.workflow import control
from tickwork.core.workflow.model import Checkpoint, NewEvent, RunStep, StepKind, StepState
from tickwork.core.workflow.queue import runs_queue
from tickwork.ops.context import Context
from tickwork.ops.workflows import ensure_workflow, read_starts, start_runs
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

RUN = "/v1/workflows/content/runs/a"
STEPS, STEP_BYTES = 12, 500_000
EVENTS, EVENT_BYTES = 9, 600_000
HEADROOM_BYTES = 10_000
"""Bytes of an answer besides its steps and events."""


async def recorded(store: Store, clock: VirtualClock) -> None:
    """A run with six megabytes of results, and more of events."""
    await ensure_workflow(store, "content")
    context = Context(store, DEFAULT)
    starts, on_conflict = read_starts(context, "content", [{"id": "a"}], new_id())
    await start_runs(context, starts, on_conflict)
    (message,) = await claim(store, await join(store), queue=runs_queue("content"), scope=SYSTEM)
    run = await store.workflows.get(DEFAULT, "a")
    for number in range(STEPS):
        step = RunStep(
            key=f"step {number}",
            position=number,
            kind=StepKind.DO,
            state=StepState.DONE,
            output=msgspec.json.encode("x" * STEP_BYTES),
            started_at=clock.now(),
            finished_at=clock.now(),
        )
        checkpoint = Checkpoint(run.uid, step, None)
        assert (
            await store.workflows.checkpoint(SYSTEM, message.current_claim, checkpoint) is not None
        )
    for number in range(EVENTS):
        data = msgspec.json.encode("y" * EVENT_BYTES)
        event = NewEvent(type=f"type {number}", data=data)
        await store.workflows.change(DEFAULT, "a", control.send_event(event))


async def part(http: httpx.AsyncClient, **query: int) -> dict[str, Any]:
    response = await http.get(RUN, params=query)
    assert response.status_code == 200, response.text
    assert len(response.content) <= PAGE_BYTES_MAX + HEADROOM_BYTES
    answer: dict[str, Any] = response.json()
    return answer


async def test_the_steps_and_events_of_a_run_come_in_parts_of_four_megabytes(
    http: httpx.AsyncClient, store: Store, clock: VirtualClock
) -> None:
    await recorded(store, clock)
    answers = [await part(http)]
    first = answers[0]
    assert (len(first["steps"]), first["steps_total"]) == (PAGE_BYTES_MAX // STEP_BYTES - 1, STEPS)
    assert (first["steps_next"], first["events"], first["events_next"]) == (7, [], 0)
    while (steps_from := answers[-1]["steps_next"]) is not None:
        answers.append(await part(http, steps_from=steps_from))
    steps = [step for answer in answers for step in answer["steps"]]
    assert [step["key"] for step in steps] == [f"step {number}" for number in range(STEPS)]
    assert {len(step["output"]) for step in steps} == {STEP_BYTES}
    # The last part of the steps has room for events.
    assert answers[-1]["events"] != []
    types = list[str]()
    following: dict[str, Any] = {"events_next": 0}
    while following["events_next"] is not None:
        following = await part(http, steps_limit=0, events_from=following["events_next"])
        assert following["steps_next"] is None
        types += [event["type"] for event in following["events"]]
    assert types == [f"type {number}" for number in range(EVENTS)]


async def test_a_caller_who_asks_for_few_steps_gets_them_and_where_to_read_on(
    http: httpx.AsyncClient, store: Store, clock: VirtualClock
) -> None:
    await recorded(store, clock)
    answer = await part(http, steps_from=2, steps_limit=3)
    assert [step["key"] for step in answer["steps"]] == ["step 2", "step 3", "step 4"]
    assert answer["steps_next"] == 5
    last = await part(http, steps_from=STEPS - 1)
    assert (len(last["steps"]), last["steps_next"]) == (1, None)
    beyond = await part(http, steps_from=STEPS)
    assert (beyond["steps"], beyond["steps_next"]) == ([], None)
    # Verbs answer with the run without steps, however many events it has.
    paused = await http.post(f"{RUN}/pause")
    assert len(paused.content) <= PAGE_BYTES_MAX + HEADROOM_BYTES
    assert paused.json()["steps"] == []


async def test_a_single_step_is_in_an_answer_whatever_its_size(
    http: httpx.AsyncClient, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.api.routes.workflows.PAGE_BYTES_MAX", 1_000)
    await recorded(store, clock)
    answer = await part(http)
    assert (len(answer["steps"]), answer["steps_next"], answer["events_next"]) == (1, 1, 0)
    answer = await part(http, steps_limit=0, events_from=2)
    assert ([event["type"] for event in answer["events"]], answer["events_next"]) == (["type 2"], 3)


async def test_a_client_reads_all_parts(
    http: httpx.AsyncClient, store: Store, clock: VirtualClock
) -> None:
    await recorded(store, clock)
    client = Client("http://t", key=await new_key(store), transport=InProcess(http))
    run = await client.workflows.get("a").status()
    assert [step.key for step in run.steps] == [f"step {number}" for number in range(STEPS)]
    assert [event.type for event in run.events] == [f"type {number}" for number in range(EVENTS)]
    assert (run.steps_next, run.events_next) == (None, None)
    some = await client.workflows.get("a").status(steps_from=1, steps_limit=9)
    assert [step.key for step in some.steps] == [f"step {number}" for number in range(1, 10)]
    assert (some.steps_next, some.events_next, len(some.events)) == (10, None, EVENTS)
    none = await client.workflows.get("a").status(steps_limit=0)
    assert (none.steps, none.steps_next, len(none.events)) == ((), None, EVENTS)


async def test_the_attempts_at_a_delivery_come_in_pages(
    http: httpx.AsyncClient, store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.api.pages.PAGE_BYTES_MAX", 400)
    await make_endpoint(store)
    await publish(store)
    for _ in range(6):
        await attempt(store, await claimed_one(store), code=500)
        clock.advance(seconds=86_400)
    found = await the_delivery(store)
    name = public_id(Prefix.DELIVERY, found.id)
    path = f"/v1/deliveries/{name}/attempts"
    numbers = list[int]()
    query: dict[str, Any] = {}
    while query.get("cursor", "") is not None:
        response = await http.get(path, params=query)
        assert len(response.content) < 1_000
        answer = response.json()
        assert 1 <= len(answer["items"]) < 4
        numbers += [made["number"] for made in answer["items"]]
        query = {"cursor": answer["next_cursor"]}
    assert numbers == [1, 2, 3, 4, 5, 6]
    client = Client("http://t", key=await new_key(store), transport=InProcess(http))
    delivery = await client.deliveries.get(name)
    assert [made.number for made in delivery.history] == numbers
    limited = (await http.get(path, params={"limit": 1})).json()
    assert (len(limited["items"]), limited["next_cursor"] is None) == (1, False)
