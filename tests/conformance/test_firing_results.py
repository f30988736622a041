"""The result of a firing is stored with its settlement, also if no worker settles it."""

from typing import Any

import msgspec
import pytest

from tests.conformance.acts import ALL, claim_one, kill_holders, make_queue, pull, settle
from tests.conformance.schedule_acts import again, created_due, end_next, trigger
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.target import DELIVERIES_QUEUE, DELIVERIES_SETTINGS, read_envelope
from tickwork.core.message import decide
from tickwork.core.message.outcome import Failed, Outcome, Permanent, Snoozed, Succeeded
from tickwork.core.model import DEFAULT, LOST_CLAIMS_MAX, SYSTEM, Message, QueueSettings
from tickwork.core.schedule.firing import ResultTarget
from tickwork.core.schedule.model import Retry, Schedule
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

GOOD, BAD = "good", "bad"


async def told(store: Store, queue: str) -> list[Any]:
    found = await store.messages.peek(DEFAULT, queue, ALL)
    return [msgspec.json.decode(message.body) for message in found]


async def due(store: Store, clock: VirtualClock, **fields: Any) -> Schedule:
    """A schedule with a due slot, whose results go to two queues."""
    for name in ("work", GOOD, BAD):
        await make_queue(store, name)
    targets = {"on_success": ResultTarget(queue=GOOD), "on_failure": ResultTarget(queue=BAD)}
    return await created_due(store, clock, **targets | fields)


async def test_a_schedule_keeps_who_is_told(store: Store, clock: VirtualClock) -> None:
    made = await due(store, clock)
    stored = (await again(store, made)).definition
    assert (stored.on_success, stored.on_failure) == (ResultTarget(GOOD), ResultTarget(BAD))


async def test_a_success_is_told(store: Store, clock: VirtualClock) -> None:
    made = await due(store, clock)
    message = await end_next(store)
    (result,) = await told(store, GOOD)
    assert (result["schedule_id"], result["status"]) == (
        public_id(Prefix.SCHEDULE, made.id),
        "succeeded",
    )
    assert (result["attempts"], result["run"]) == (1, 0)
    (stored,) = await store.messages.peek(DEFAULT, GOOD, ALL)
    assert (stored.type, stored.correlation_id) == (
        "schedule.succeeded",
        public_id(Prefix.MESSAGE, message.id),
    )
    assert await told(store, BAD) == []


async def test_only_the_final_failure_is_told(store: Store, clock: VirtualClock) -> None:
    await due(store, clock, retry=Retry(max_attempts=2))
    first = await end_next(store, Failed("one"))
    assert await told(store, BAD) == []
    clock.advance(seconds=decide.settle(first, Failed("one"), QueueSettings()).delay_seconds)
    await end_next(store, Failed("two"))
    (result,) = await told(store, BAD)
    assert (result["status"], result["attempts"], result["error"]) == ("dead", 2, "two")


async def test_a_snooze_tells_nothing(store: Store, clock: VirtualClock) -> None:
    await due(store, clock)
    await end_next(store, Snoozed(5.0))
    assert (await told(store, GOOD), await told(store, BAD)) == ([], [])


async def test_a_stale_claim_tells_nothing(store: Store, clock: VirtualClock) -> None:
    await due(store, clock)
    (stale,) = await pull(store, lease_seconds=5.0)
    clock.advance(seconds=10)
    await store.reaper.reap(SYSTEM, ALL)
    ending = decide.settle(stale, Succeeded(), QueueSettings())
    assert (await settle(store, ending)).refused == (stale.current_claim,)
    assert await told(store, GOOD) == []


async def test_a_slot_that_kills_its_workers_is_told(store: Store, clock: VirtualClock) -> None:
    await due(store, clock)
    await kill_holders(store, clock, LOST_CLAIMS_MAX)
    (result,) = await told(store, BAD)
    assert (result["status"], result["reason"]) == ("dead", "worker_lost")
    assert result["attempts"] == 0


async def test_the_last_pull_lease_that_runs_out_is_told(store: Store, clock: VirtualClock) -> None:
    await due(store, clock, retry=Retry(max_attempts=1))
    await pull(store, lease_seconds=5.0)
    clock.advance(seconds=10)
    await store.reaper.reap(SYSTEM, ALL)
    (result,) = await told(store, BAD)
    assert (result["status"], result["attempts"]) == ("dead", 1)


async def test_results_of_many_slots_are_told_in_one_settlement(
    store: Store, clock: VirtualClock
) -> None:
    made = await due(store, clock)
    await trigger(store, made)
    await trigger(store, made)
    claimed: list[Message] = list(await pull(store, limit=ALL))
    assert len(claimed) == 3
    outcomes: list[Outcome] = [Succeeded(), Permanent("no"), Succeeded()]
    endings = [
        decide.settle(message, outcome, QueueSettings())
        for message, outcome in zip(claimed, outcomes, strict=True)
    ]
    assert (await settle(store, *endings)).refused == ()
    assert len(await told(store, GOOD)) == 2
    assert [result["error"] for result in await told(store, BAD)] == ["no"]


async def test_a_queue_that_was_deleted_refuses_no_settlement(
    store: Store, clock: VirtualClock
) -> None:
    await due(store, clock)
    await store.queues.delete(DEFAULT, GOOD)
    message = await claim_one(store)
    ending = decide.settle(message, Succeeded(), QueueSettings())
    assert (await settle(store, ending)).refused == ()
    assert await store.messages.peek(DEFAULT, "work", ALL) == ()


@pytest.mark.parametrize("target", [ResultTarget(queue=GOOD), ResultTarget(endpoint="nobody")])
async def test_a_result_without_a_receiver_is_kept_in_the_queue_of_deliveries(
    store: Store, clock: VirtualClock, target: ResultTarget
) -> None:
    await due(store, clock, on_success=target)
    await store.queues.put(SYSTEM, DELIVERIES_QUEUE, DELIVERIES_SETTINGS)
    await store.queues.delete(DEFAULT, GOOD)
    message = await end_next(store)
    (lost,) = await store.messages.peek(SYSTEM, DELIVERIES_QUEUE, ALL)
    envelope = read_envelope(lost.body)
    name = getattr(envelope.target, "queue", None) or getattr(envelope.target, "endpoint", None)
    assert (lost.tenant, lost.type, name) == (
        "default", "schedule.succeeded", target.queue or target.endpoint,
    )  # fmt: skip
    assert lost.correlation_id == public_id(Prefix.MESSAGE, message.id)
