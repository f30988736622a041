"""Runs of workflows: what a worker records is fenced, no signal is lost, and verbs change a run
whole."""

import asyncio
from datetime import timedelta
from itertools import product
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.conformance.acts import (
    ALL,
    ack,
    claim,
    counts,
    dead,
    die,
    join,
    letters,
    make_queue,
    make_tenants,
    release,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_MAX,
    REASON_WORKER_LOST,
    SYSTEM,
    Ending,
    Fate,
    Message,
    Scope,
    Settlement,
    SettleResult,
)
from tickwork.core.workflow import control
from tickwork.core.workflow.model import (
    EVENT_RETENTION_SECONDS,
    NO_STEPS,
    RUN_RETENTION_SECONDS,
    STEPS_MAX,
    Checkpoint,
    ConflictPolicy,
    Control,
    NewEvent,
    NewRun,
    Run,
    RunEnd,
    RunHistory,
    RunSelection,
    RunStatus,
    RunStep,
    RunWindow,
    SignalWait,
    StepKind,
    StepState,
)
from tickwork.core.workflow.queue import RUNS_SETTINGS, runs_queue
from tickwork.errors import ClaimLost, Conflict, EventDone, NotFound
from tickwork.ops import workflows
from tickwork.ops.context import Context
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

QUEUE = runs_queue("content")


def new_run(run_id: str = "a", **fields: Any) -> NewRun:
    return NewRun(id=run_id, uid=new_id(), message_id=new_id(), workflow="content", **fields)


async def start(
    store: Store,
    *runs: NewRun,
    scope: Scope = DEFAULT,
    on_conflict: ConflictPolicy = ConflictPolicy.ERROR,
) -> tuple[Run, ...]:
    for queue in {QUEUE, *(runs_queue("content", run.version) for run in runs)}:
        await store.queues.put(SYSTEM, queue, RUNS_SETTINGS)
    return await store.workflows.start(scope, runs or (new_run(),), on_conflict)


async def claim_run(store: Store) -> Message:
    (message,) = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    return message


def step(clock: VirtualClock, key: str = "fetch", **fields: Any) -> RunStep:
    known: dict[str, Any] = {
        "position": 1,
        "kind": StepKind.DO,
        "state": StepState.DONE,
        "output": b'"done"',
        "started_at": clock.now(),
    }
    return RunStep(key=key, **{**known, **fields})


async def record(
    store: Store, message: Message, run: Run, recorded: RunStep, event: int | None = None
) -> int | None:
    checkpoint = Checkpoint(run.uid, recorded, event)
    return await store.workflows.checkpoint(SYSTEM, message.current_claim, checkpoint)


async def keys(store: Store, run_id: str = "a") -> list[str]:
    return [run_step.key for run_step in (await store.workflows.history(DEFAULT, run_id)).steps]


def event(type_: str = "approved", **fields: Any) -> control.Decision:
    return control.send_event(NewEvent(type=type_, **fields))


async def test_a_run_and_its_message_are_stored_together(store: Store, clock: VirtualClock) -> None:
    new = new_run(params=b'{"a":1}', version="2", deadline_seconds=60, correlation_id="story")
    (run,) = await start(store, new)
    assert (run.id, run.uid, run.status) == ("a", new.uid, RunStatus.RUNNING)
    assert (run.params, run.version, run.correlation_id) == (b'{"a":1}', "2", "story")
    assert run.created_at == clock.now()
    assert run.deadline_at is not None
    assert (run.deadline_at - clock.now()).total_seconds() == 60
    assert await store.workflows.get(DEFAULT, "a") == run
    queue = runs_queue("content", "2")
    (message,) = await claim(store, await join(store), queue=queue, scope=SYSTEM)
    assert (message.id, message.correlation_id) == (run.message_id, "story")
    assert msgspec.json.decode(message.body) == "a"
    with pytest.raises(NotFound, match="no run b"):
        await store.workflows.get(DEFAULT, "b")
    with pytest.raises(NotFound):
        unknown = NewRun(id="x", uid=new_id(), message_id=new_id(), workflow="unknown")
        await start(store, unknown)
    with pytest.raises(NotFound):
        await store.workflows.get(DEFAULT, "x")


async def test_a_start_is_repeated_refused_used_or_restarted_as_its_policy_says(
    store: Store, clock: VirtualClock
) -> None:
    new = new_run()
    (run,) = await start(store, new)
    assert await start(store, new) == (run,)
    with pytest.raises(Conflict, match="there is a run a"):
        await start(store, new_run("b"), new_run())
    with pytest.raises(NotFound):
        await store.workflows.get(DEFAULT, "b")
    used = await start(store, new_run(), on_conflict=ConflictPolicy.USE_EXISTING)
    assert used == (run,)
    again = ConflictPolicy.RESTART_IF_FINISHED
    with pytest.raises(Conflict, match="has not ended"):
        await start(store, new_run(), on_conflict=again)
    message = await claim_run(store)
    await record(store, message, run, step(clock))
    end = RunEnd(uid=run.uid, status=RunStatus.COMPLETED, result=b"1")
    assert await store.workflows.end(SYSTEM, message.current_claim, end)
    await settle(store, ack(message), scope=SYSTEM)
    new = new_run(params=b"7")
    (restarted,) = await start(store, new, on_conflict=again)
    assert (restarted.status, restarted.params, restarted.result) == ("running", b"7", None)
    assert await start(store, new, on_conflict=again) == (restarted,)
    assert await keys(store) == []
    assert (await claim_run(store)).id == restarted.message_id != run.message_id
    other = NewRun(id="a", uid=new_id(), message_id=new_id(), workflow="other")
    await store.queues.put(SYSTEM, runs_queue("other"), RUNS_SETTINGS)
    with pytest.raises(Conflict, match="belongs to the workflow content"):
        await start(store, other, on_conflict=ConflictPolicy.USE_EXISTING)


async def test_a_stale_claim_records_and_ends_nothing(store: Store, clock: VirtualClock) -> None:
    (run,) = await start(store)
    stale = await claim_run(store)
    assert await record(store, stale, run, step(clock)) == 0
    await die(store, clock)
    held = await claim_run(store)
    assert held.lost == 1
    end = RunEnd(uid=run.uid, status=RunStatus.COMPLETED)
    effects = Ending(
        claim=stale.current_claim,
        fate=Fate.KEEP,
        effects=(Checkpoint(run.uid, step(clock, "late")),),
        sends=(sending("work"),),
    )
    await make_queue(store)
    assert await record(store, stale, run, step(clock, "late")) is None
    assert not await store.workflows.end(SYSTEM, stale.current_claim, end)
    assert not await store.workflows.assign_version(SYSTEM, stale.current_claim, run.uid, "2")
    ended = Ending(claim=stale.current_claim, fate=Fate.ACK, effects=(end,))
    dead_run = Ending(claim=stale.current_claim, fate=Fate.DEAD, reason="permanent", effects=(end,))
    waiting = release(stale, effects=(SignalWait(0),))
    for ending in (effects, ended, dead_run, waiting):
        assert (await settle(store, ending, scope=SYSTEM)).refused == (stale.current_claim,)
    with pytest.raises(ClaimLost):
        await store.messages.settle_jointly(SYSTEM, Settlement((effects,)), lambda _: None)
    assert await keys(store) == ["fetch"]
    assert (await counts(store)).ready == 0
    assert (await store.workflows.get(DEFAULT, "a")).status is RunStatus.RUNNING
    await die(store, clock)
    (again,) = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM, separate=True)
    assert again.lost == 2


async def test_a_checkpoint_and_a_wait_clear_the_lost_claims(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    await claim_run(store)
    await die(store, clock)
    held = await claim_run(store)
    assert held.lost == 1
    assert await record(store, held, run, step(clock)) == 0
    await die(store, clock)
    held = await claim_run(store)
    assert held.lost == 1
    await settle(store, release(held, effects=(SignalWait(0),)), scope=SYSTEM)
    assert (await claim_run(store)).lost == 0


async def test_a_run_ends_with_the_ack_of_its_message(store: Store, clock: VirtualClock) -> None:
    runs = await start(store, *(new_run(str(number)) for number in range(3)))
    found = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    clock.advance(seconds=5)
    by_id = {message.id: message for message in found}
    ends = [
        RunEnd(uid=runs[0].uid, status=RunStatus.COMPLETED, result=b"7", failed_step="fetch"),
        RunEnd(uid=runs[1].uid, status=RunStatus.FAILED, error="broken"),
    ]
    await settle(
        store,
        *(
            Ending(claim=by_id[run.message_id].current_claim, fate=Fate.ACK, effects=(end,))
            for run, end in zip(runs, ends, strict=False)
        ),
        ack(by_id[runs[2].message_id]),
        scope=SYSTEM,
    )
    assert (await counts(store, QUEUE)).claimed == 0
    stored = [await store.workflows.get(DEFAULT, run.id) for run in runs]
    assert [(run.status, run.result, run.error, run.failed_step) for run in stored] == [
        ("completed", b"7", None, "fetch"),
        ("failed", None, "broken", None),
        ("running", None, None, None),
    ]
    assert [run.finished_at for run in stored] == [clock.now(), clock.now(), None]


async def test_a_run_ends_with_the_dead_letter_of_its_message(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    end = RunEnd(uid=run.uid, status=RunStatus.CANCELLED, error="as asked")
    await settle(
        store, dead(message, reason="x", error="cannot be undone", effects=(end,)), scope=SYSTEM
    )
    ended = await store.workflows.get(DEFAULT, "a")
    assert (ended.status, ended.error, ended.finished_at) == ("cancelled", "as asked", clock.now())
    (letter,) = await letters(store, QUEUE)
    assert letter.error == "cannot be undone"


async def test_a_run_wakes_at_its_time_however_late_it_is_released(
    store: Store, clock: VirtualClock
) -> None:
    await start(store)
    message, wake_at = await claim_run(store), clock.now() + timedelta(seconds=60)
    clock.advance(seconds=50)
    waits = release(message, delay_seconds=60.0, effects=(SignalWait(0),), visible_at=wake_at)
    await settle(store, waits, scope=SYSTEM)
    assert await store.messages.next_visible_at(SYSTEM, QUEUE) == wake_at
    clock.advance(seconds=10)
    again = await claim_run(store)
    clock.advance(seconds=5)
    past = release(again, effects=(SignalWait(0),), visible_at=wake_at)
    async with store.wakeups.watch([again.queue_id]) as watch:
        await settle(store, past, scope=SYSTEM)
        assert await watch.wait(5.0)
    assert (await claim_run(store)).id == message.id


async def test_runs_read_together_have_each_their_own_steps_and_events(
    store: Store, clock: VirtualClock
) -> None:
    runs = await start(store, *(new_run(str(number)) for number in range(20)))
    found = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    by_id = {message.id: message for message in found}
    for run in runs[::2]:
        await record(store, by_id[run.message_id], run, step(clock, f"step {run.id}"))
        await store.workflows.change(DEFAULT, run.id, event(run.id))
    workflows = store.workflows
    asked = [*map(str, range(20)), "0"]
    read = await asyncio.gather(
        *(workflows.history(DEFAULT, run_id) for run_id in asked),
        *(workflows.history(DEFAULT, run_id, with_steps=False) for run_id in asked),
        *(workflows.get(DEFAULT, run_id) for run_id in asked),
        *(workflows.get(Scope("other"), run_id) for run_id in asked),
        workflows.get(DEFAULT, "unknown"),
        return_exceptions=True,
    )
    whole, bare, alone, missing = (read[at : at + 21] for at in (0, 21, 42, 63))
    for at, one, less, only in zip(asked, whole, bare, alone, strict=True):
        is_even = int(at) % 2 == 0
        assert isinstance(one, RunHistory)
        assert isinstance(less, RunHistory)
        assert one.run == less.run == only
        assert (one.run.id, one.now) == (at, clock.now())
        assert [run_step.key for run_step in one.steps] == ([f"step {at}"] if is_even else [])
        assert [run_event.type for run_event in one.events] == ([at] if is_even else [])
        assert (less.steps, less.events) == ((), one.events)
    assert all(isinstance(answer, NotFound) for answer in (*missing, read[-1]))


async def test_a_page_has_a_window_of_steps_and_all_that_are_open(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    times = [None, *(clock.now() + timedelta(seconds=seconds) for seconds in (-1, 0, 1))]
    every = [*product(StepKind, StepState, times)]
    for at, (kind, state, wake_at) in enumerate(every):
        done = step(clock, f"step {at}", position=-at // 2, kind=kind, state=state, wake_at=wake_at)
        await record(store, message, run, done)
    await store.workflows.change(DEFAULT, "a", event())
    whole = await store.workflows.history(DEFAULT, "a")
    assert len(whole.steps) == len(every)
    open_steps = tuple(run_step for run_step in whole.steps if run_step.is_open(clock.now()))
    assert {open_step.state.is_final for open_step in open_steps} == {False}
    for offset, limit in ((0, 7), (7, 1), (90, 100), (100, 5), (3, 0), (0, STEPS_MAX)):
        page = await store.workflows.page(DEFAULT, "a", RunWindow(offset, limit))
        assert page.steps == whole.steps[offset : offset + limit]
        assert (page.steps_total, page.open_steps) == (len(every), open_steps)
        assert (page.run, page.events, page.now) == (whole.run, whole.events, whole.now)
    for scope, run_id in ((DEFAULT, "b"), (Scope("other"), "a"), (DEFAULT, "\0")):
        with pytest.raises(NotFound):
            await store.workflows.page(scope, run_id, NO_STEPS)


async def test_many_checkpoints_together_are_each_fenced(store: Store, clock: VirtualClock) -> None:
    runs = await start(store, *(new_run(str(number)) for number in range(20)))
    found = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    by_id = {message.id: message for message in found}
    messages = [by_id[run.message_id] for run in runs]
    await settle(store, *map(ack, messages[::5]), scope=SYSTEM)
    recorded = await asyncio.gather(
        *(record(store, *pair, step(clock)) for pair in zip(messages, runs, strict=True))
    )
    assert recorded == [None if at % 5 == 0 else 0 for at in range(20)]
    for at, run in enumerate(runs):
        assert await keys(store, run.id) == (["fetch"] if at % 5 else [])


async def test_a_step_and_what_it_sends_commit_together_and_keep_the_claim(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    (run,) = await start(store)
    message = await claim_run(store)
    kept = Ending(
        claim=message.current_claim,
        fate=Fate.KEEP,
        effects=(Checkpoint(run.uid, step(clock)),),
        sends=(sending("work"),),
    )
    assert (await settle(store, kept, scope=SYSTEM)).refused == ()
    assert (await counts(store)).ready == 1
    assert await keys(store) == ["fetch"]
    assert await record(store, message, run, step(clock, "more", position=2)) == 0


async def test_steps_that_end_together_are_all_recorded_with_what_they_send(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    (run,) = await start(store)
    message = await claim_run(store)
    endings = [
        Ending(
            claim=message.current_claim,
            fate=Fate.KEEP,
            effects=(Checkpoint(run.uid, step(clock, name)),),
            sends=(sending("work"),),
        )
        for name in ("left", "right")
    ]
    settled = await asyncio.gather(*(settle(store, ending, scope=SYSTEM) for ending in endings))
    assert settled == [SettleResult(), SettleResult()]
    assert await keys(store) == ["left", "right"]
    assert (await counts(store)).ready == 2


async def test_a_step_that_is_recorded_again_after_a_lost_answer_sends_nothing_again(
    store: Store, clock: VirtualClock
) -> None:
    """Also when what it sent is handled, and gone, by then."""
    await make_queue(store)
    (run,) = await start(store)
    message = await claim_run(store)
    ending = Ending(
        claim=message.current_claim,
        fate=Fate.KEEP,
        sends=(sending("work"),),
        effects=(Checkpoint(run.uid, step(clock)),),
    )
    assert (await settle(store, ending, scope=SYSTEM)) == SettleResult()
    (sent,) = await claim(store, await join(store))
    await settle(store, ack(sent))
    again = await settle(store, ending, scope=SYSTEM)
    assert again == SettleResult(duplicates=(message.current_claim,))
    written: list[object] = []
    with pytest.raises(EventDone):
        await store.messages.settle_jointly(SYSTEM, Settlement((ending,)), written.append)
    assert (await counts(store)).ready == 0
    assert written == []
    assert await record(store, message, run, step(clock, "next", position=2)) == 0


@pytest.mark.parametrize("is_first", [True, False], ids=["event first", "release first"])
async def test_a_signal_wakes_a_run_whichever_of_both_commits_first(
    store: Store, is_first: bool
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    waits = release(message, delay_seconds=1_000.0, effects=(SignalWait(run.signals),))
    if is_first:
        await store.workflows.change(DEFAULT, "a", event())
    await settle(store, waits, scope=SYSTEM)
    if not is_first:
        node = await join(store)
        assert await claim(store, node, queue=QUEUE, scope=SYSTEM) == ()
        await store.workflows.change(DEFAULT, "a", event())
    again = await claim_run(store)
    assert (await store.workflows.get(DEFAULT, "a")).signals == 1
    seen = release(again, delay_seconds=1_000.0, effects=(SignalWait(1),))
    await settle(store, seen, scope=SYSTEM)
    assert await claim(store, await join(store), queue=QUEUE, scope=SYSTEM) == ()


async def test_signals_and_releases_at_once_lose_no_wake_up(store: Store) -> None:
    await start(store)
    for number in range(10):
        message = await claim_run(store)
        waits = release(message, delay_seconds=1_000.0, effects=(SignalWait(number),))
        await asyncio.gather(
            settle(store, waits, scope=SYSTEM), store.workflows.change(DEFAULT, "a", event())
        )
    assert (await claim_run(store)).claim == 11
    assert len((await store.workflows.history(DEFAULT, "a")).events) == 10


async def test_an_event_is_kept_in_order_and_consumed_once(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    for number, id_ in ((1, "x"), (2, "x"), (3, None), (4, None)):
        await store.workflows.change(DEFAULT, "a", event(data=str(number).encode(), id=id_))
    history = await store.workflows.history(DEFAULT, "a", with_steps=False)
    assert [run_event.data for run_event in history.events] == [b"1", b"3", b"4"]
    assert history.run.signals == 3
    message = await claim_run(store)
    first = history.events[0]
    waited = step(clock, "one", kind=StepKind.EVENT)
    assert await record(store, message, run, waited, first.number) == 3
    events = (await store.workflows.history(DEFAULT, "a")).events
    assert [run_event.consumed_by for run_event in events] == ["one", None, None]


async def test_pause_cancel_and_resume_are_seen_at_the_next_checkpoint(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    paused = await store.workflows.change(DEFAULT, "a", control.pause)
    assert (paused.paused, paused.signals) == (True, 1)
    assert await record(store, message, run, step(clock)) == 1
    await settle(store, release(message, delay_seconds=9.0, effects=(SignalWait(1),)), scope=SYSTEM)
    resumed = await store.workflows.change(DEFAULT, "a", control.resume)
    assert not resumed.paused
    await claim_run(store)
    cancelled = await store.workflows.change(DEFAULT, "a", control.cancel(compensates=True))
    assert cancelled.control is Control.COMPENSATE


@pytest.mark.parametrize("verb", ["terminate", "restart"])
async def test_a_run_that_is_ended_or_restarted_is_taken_from_its_worker(
    store: Store, clock: VirtualClock, verb: str
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    await record(store, message, run, step(clock))
    decide = control.terminate if verb == "terminate" else control.restart(new_id())
    changed = await store.workflows.change(DEFAULT, "a", decide)
    assert changed.message_id == run.message_id
    assert await record(store, message, run, step(clock, "late")) is None
    assert (await settle(store, ack(message), scope=SYSTEM)).refused == (message.current_claim,)
    again = await claim_run(store)
    assert again.id == message.id
    if verb == "terminate":
        assert changed.status is RunStatus.TERMINATED
        assert changed.finished_at == clock.now()
        assert await keys(store) == ["fetch"]
        with pytest.raises(Conflict, match="been terminated"):
            await store.workflows.change(DEFAULT, "a", control.pause)
        with pytest.raises(Conflict, match="takes no more events"):
            await store.workflows.change(DEFAULT, "a", event())
    else:
        assert await keys(store) == []
        assert await record(store, again, run, step(clock)) == 1


async def test_a_restart_from_a_step_keeps_what_is_before_it(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    for number, key in enumerate("xyz", start=1):
        await record(store, message, run, step(clock, key, position=number))
    await store.workflows.change(DEFAULT, "a", event())
    end = RunEnd(uid=run.uid, status=RunStatus.FAILED, error="no luck")
    await store.workflows.end(SYSTEM, message.current_claim, end)
    await settle(store, ack(message), scope=SYSTEM)
    steps = (await store.workflows.history(DEFAULT, "a")).steps
    again = control.restart(new_id(), plan=control.plan_restart(steps, "y"))
    restarted = await store.workflows.change(DEFAULT, "a", again)
    assert (restarted.status, restarted.error) == (RunStatus.RUNNING, None)
    assert await keys(store) == ["x"]
    assert len((await store.workflows.history(DEFAULT, "a")).events) == 1
    assert (await claim_run(store)).id == restarted.message_id != run.message_id
    await store.workflows.change(DEFAULT, "a", control.restart(new_id()))
    assert await keys(store) == []
    assert (await store.workflows.history(DEFAULT, "a")).events == ()


@pytest.mark.parametrize("state", [StepState.STARTED, StepState.DONE])
async def test_a_restart_is_not_carried_out_if_the_run_is_undone_meanwhile(
    store: Store, clock: VirtualClock, state: StepState
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    for number, key in enumerate("xyz", start=1):
        await record(store, message, run, step(clock, key, position=number))
    undoing = step(clock, "compensate x", position=4, state=StepState.STARTED)
    if state is StepState.DONE:
        await record(store, message, run, undoing)
    steps = (await store.workflows.history(DEFAULT, "a")).steps
    stale = control.restart(new_id(), plan=control.plan_restart(steps, "y"))
    await record(store, message, run, structs.replace(undoing, state=state))
    with pytest.raises(control.RecordMoved, match="run a is being undone"):
        await store.workflows.change(DEFAULT, "a", stale)
    assert await keys(store) == ["x", "y", "z", "compensate x"]
    plan = await workflows.restart_run(Context(store, DEFAULT), "a", from_step="y")
    assert plan.runs == (("x", "y", "z") if state is StepState.DONE else ("y", "z"))
    assert await keys(store) == ([] if state is StepState.DONE else ["x"])


async def test_a_run_continues_with_new_params_and_an_empty_record(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    message = await claim_run(store)
    await record(store, message, run, step(clock))
    for number, id_ in enumerate(("old", None, "new", "unseen"), start=1):
        await store.workflows.change(DEFAULT, "a", event(id=id_))
        if id_ != "unseen":
            await record(store, message, run, step(clock, f"wait {number}"), number)
        clock.advance(seconds=EVENT_RETENTION_SECONDS if id_ == "old" else 1)
    goes_on = RunEnd(uid=run.uid, params=b"2")
    assert await store.workflows.end(SYSTEM, message.current_claim, goes_on)
    changed = await store.workflows.get(DEFAULT, "a")
    assert (changed.status, changed.params, changed.generation) == ("running", b"2", 1)
    assert await keys(store) == []
    kept = (await store.workflows.history(DEFAULT, "a")).events
    assert [run_event.id for run_event in kept] == ["new", "unseen"]
    assert changed.finished_at is None


async def test_a_run_whose_message_died_has_failed_and_is_revived_by_a_replay(
    store: Store, clock: VirtualClock
) -> None:
    await start(store, new_run("a"), new_run("b"))
    found = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    await settle(store, dead(found[0], reason="x", error="boom"), scope=SYSTEM)
    run = await store.workflows.get(DEFAULT, "a")
    assert (run.status, run.error, run.finished_at) == ("failed", "x: boom", clock.now())
    assert (await store.workflows.get(DEFAULT, "b")).status == "running"
    assert len(await letters(store, QUEUE, scope=DEFAULT)) == 1
    revived = await store.workflows.change(DEFAULT, "a", control.revive(new_id()))
    assert (revived.status, revived.error) == ("running", None)


async def test_a_run_that_kills_its_workers_fails(store: Store, clock: VirtualClock) -> None:
    await start(store)

    async def kill_workers() -> Run:
        for _ in range(LOST_CLAIMS_MAX):
            node = await join(store)
            for separate in (False, True):
                await claim(store, node, queue=QUEUE, scope=SYSTEM, separate=separate)
            await die(store, clock)
        return await store.workflows.get(DEFAULT, "a")

    run = await kill_workers()
    assert (run.status, run.control) == (RunStatus.RUNNING, Control.FAIL)
    assert (run.error or "").startswith(REASON_WORKER_LOST)
    # Its compensations may kill workers, too.
    run = await kill_workers()
    assert run.status is RunStatus.FAILED
    assert (run.error or "").startswith(REASON_WORKER_LOST)


async def test_tenants_have_runs_of_their_own(store: Store, clock: VirtualClock) -> None:
    ann, ben = await make_tenants(store, "ann", "ben")
    (of_ann,) = await start(store, scope=ann)
    (of_ben,) = await start(store, scope=ben)
    assert (of_ann.tenant, of_ben.tenant) == ("ann", "ben")
    for _ in range(2):
        clock.advance(seconds=1)
        await start(store, new_run(f"more {_}"), scope=ann)
    listed = await store.workflows.list(ann, RunSelection(workflow="content"), ALL)
    assert [run.id for run in listed] == ["more 1", "more 0", "a"]
    newest = listed[0]
    page = await store.workflows.list(
        ann,
        RunSelection(status=RunStatus.RUNNING),
        1,
        before=(newest.created_at, newest.uid),
    )
    assert [run.id for run in page] == ["more 0"]
    assert await store.workflows.list(ann, RunSelection(status=RunStatus.FAILED), ALL) == ()
    assert await store.workflows.list(DEFAULT, RunSelection(), ALL) == ()
    with pytest.raises(NotFound):
        await store.workflows.change(DEFAULT, "a", control.pause)
    messages = await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
    own = next(message for message in messages if message.id == of_ann.message_id)
    checkpoint = Checkpoint(of_ann.uid, step(clock))
    assert await store.workflows.checkpoint(ben, own.current_claim, checkpoint) is None
    crossed = Checkpoint(of_ben.uid, step(clock))
    assert await store.workflows.checkpoint(SYSTEM, own.current_claim, crossed) is None


async def test_runs_are_pruned_with_their_steps_and_events_after_their_retention(
    store: Store, clock: VirtualClock
) -> None:
    (run,) = await start(store)
    await start(store, new_run("b"))
    message = next(
        claimed_message
        for claimed_message in await claim(store, await join(store), queue=QUEUE, scope=SYSTEM)
        if claimed_message.id == run.message_id
    )
    await record(store, message, run, step(clock))
    await store.workflows.change(DEFAULT, "a", event())
    end = RunEnd(uid=run.uid, status=RunStatus.COMPLETED)
    assert await store.workflows.end(SYSTEM, message.current_claim, end)
    clock.advance(seconds=RUN_RETENTION_SECONDS - 1)
    assert (await store.pruner.prune(SYSTEM, ALL)).runs == 0
    clock.advance(seconds=1)
    assert (await store.pruner.prune(SYSTEM, ALL)).runs == 1
    with pytest.raises(NotFound):
        await store.workflows.get(DEFAULT, "a")
    (again,) = await start(store, new_run("a"))
    assert await keys(store) == []
    assert again.signals == 0
    assert (await store.workflows.get(DEFAULT, "b")).status == "running"


async def test_a_run_never_expires_by_retention(store: Store, clock: VirtualClock) -> None:
    await start(store)
    clock.advance(seconds=1_000 * 86_400)
    await store.reaper.reap(SYSTEM, ALL)
    assert (await claim_run(store)).attempts == 0
