"""A bulk create stores the same as single creates."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from msgspec import structs

from tests.conformance.acts import make_queue
from tests.conformance.schedule_acts import MINUTE, new_schedule
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.model import DEFAULT, ContentType
from tickwork.core.schedule.model import (
    NewSchedule,
    OnDead,
    OverlapPolicy,
    Retry,
    Schedule,
    ScheduleStatus,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

SAID: list[dict[str, Any]] = [
    {"queue": "elsewhere"},
    {"body": b"", "content_type": ContentType.BYTES},
    {"body": bytes(range(256)), "content_type": ContentType.BYTES},
    {"body": "Grüße, 世界".encode(), "content_type": ContentType.TEXT},
    {"type": "tägliche.grüße"},
    {"priority": 0},
    {"overlap": OverlapPolicy.BUFFER_ONE},
    {"on_dead": OnDead.PAUSE},
    {"retry": Retry(max_attempts=7)},
    {"expires_after_seconds": 0.25},
    {"metadata": '{"für":"alle"}'.encode()},
]
OWN: list[dict[str, Any]] = [
    {"name": "jeden Tag: Grüße"},
    {"idempotency_key": "once", "fingerprint": bytes(16)},
    {"status": ScheduleStatus.PAUSED},
    {"status": ScheduleStatus.COMPLETED, "next_slot": None, "due_at": None, "look_at": None},
    {"look_at": None},
]


def twin(new: NewSchedule) -> NewSchedule:
    """Another schedule with equal values."""
    own = {"name": new.name and f"{new.name}, too", "id": new_id()}
    key = new.idempotency_key and f"{new.idempotency_key}, too"
    return structs.replace(new, idempotency_key=key, **own)


def but_for_its_own(schedule: Schedule) -> Schedule:
    return structs.replace(schedule, id=UUID(int=0), name=None, idempotency_key=None)


async def stored(store: Store, new: NewSchedule) -> Schedule:
    return await store.schedules.get(DEFAULT, new.id)


async def test_a_bulk_create_stores_the_same_as_single_creates(
    store: Store, clock: VirtualClock
) -> None:
    for queue in ("work", "elsewhere"):
        await make_queue(store, queue)
    plain = new_schedule(clock, start_at=(clock.now() + MINUTE).isoformat(), interval_seconds=90)
    ones = [structs.replace(plain, id=new_id())]
    # All share the same rule object, so only the other fields differ.
    for said in SAID:
        definition = structs.replace(plain.definition, **said)
        ones.append(structs.replace(plain, id=new_id(), definition=definition))
    ones += [structs.replace(plain, id=new_id(), **own) for own in OWN]
    later = {name: clock.now() + timedelta(days=3) for name in ("next_slot", "due_at", "look_at")}
    ones += [structs.replace(plain, id=new_id(), **{field: at}) for field, at in later.items()]
    missed = {"policy": "fire_late", "cap": 5, "grace_seconds": 17}
    ones.append(new_schedule(clock, calendar="holidays", name="off", missed=missed))
    twins = [twin(schedule) for schedule in ones]
    for schedule in ones:
        await store.schedules.create(DEFAULT, [schedule])
    # A plain one before each: the next differs from it in one field only.
    mixed = [new for schedule in twins for new in (twin(plain), schedule)]
    assert await store.schedules.create_bulk(DEFAULT, iter(mixed)) == len(mixed)
    for one, other in zip(ones, twins, strict=True):
        got = await stored(store, other)
        assert (got.id, got.name, got.idempotency_key) == (
            other.id, other.name, other.idempotency_key,
        )  # fmt: skip
        assert but_for_its_own(got) == but_for_its_own(await stored(store, one))
        assert (got.definition, got.next_slot, got.due_at, got.look_at) == (
            other.definition, other.next_slot, other.due_at, other.look_at,
        )  # fmt: skip


async def test_a_repeated_bulk_create_stores_the_missing_schedules(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    plain = new_schedule(clock)
    new = [structs.replace(plain, id=new_id(), name=f"number {n}") for n in range(300)]
    assert await store.schedules.create_bulk(DEFAULT, iter(new[::3])) == 100
    assert await store.schedules.create_bulk(DEFAULT, iter(new)) == 200
    for schedule in new:
        got = await stored(store, schedule)
        assert (got.name, got.next_slot) == (schedule.name, schedule.next_slot)
