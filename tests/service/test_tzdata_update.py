"""New tzdata: wall-clock schedules follow it, others stay, and no slot is lost or fires twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from tests.conformance.acts import ALL, make_queue
from tests.conformance.schedule_acts import again, create, in_shard, join_scheduler, lead, slots
from tests.service.zone_files import TOWN, Changes, ZoneFiles, zone_files
from tests.stores.clock import VirtualClock
from tickwork import tzdata_version as zone_data
from tickwork.core.answers.schedule import MovedSchedule
from tickwork.core.limits import TTL_SECONDS_MAX
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule import tzdata_change as rezoning
from tickwork.core.schedule.model import SHARDS, Schedule, ScheduleStatus
from tickwork.errors import StoreUnavailable
from tickwork.ops.context import Context
from tickwork.ops.schedules import change as schedules
from tickwork.ops.schedules.change import rezone
from tickwork.service.observe.schedule_metrics import ScheduleMetrics
from tickwork.service.scheduler import tzdata
from tickwork.service.scheduler.leadership import Leadership
from tickwork.service.scheduler.scheduler import Scheduler
from tickwork.service.scheduler.tzdata import TzdataUpdater
from tickwork.store.contract import Store

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NOON = datetime(2026, 1, 7, 12, tzinfo=UTC)
"""From here on the town has another offset, as the newer zone data says."""

BEFORE: dict[str, tuple[int, Changes]] = {TOWN: (1, ())}
NINE: dict[str, Any] = {"daily_time": {"hour": 9, "minute": 0}, "timezone": TOWN}


def after(hours: int, since: datetime = NOON) -> dict[str, tuple[int, Changes]]:
    return {TOWN: (1, [(since, hours)])}


class Noted(ScheduleMetrics):
    """Remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[tuple[int, tuple[str, str], int, list[UUID]]] = []
        self.warned: list[tuple[str, str]] = []
        self.left: list[tuple[UUID, str]] = []

    def tzdata_applied(
        self, shard: int, versions: tuple[str, str], moved: int, first: Sequence[MovedSchedule]
    ) -> None:
        super().tzdata_applied(shard, versions, moved, first)
        self.moved.append((shard, versions, moved, [schedule.id.uuid for schedule in first]))

    def tzdata_failed(self, tenant: str, schedule_id: UUID, error: str) -> None:
        super().tzdata_failed(tenant, schedule_id, error)
        self.left.append((schedule_id, error))

    def tzdata_outdated(self, own: str, newer: str) -> None:
        super().tzdata_outdated(own, newer)
        self.warned.append((own, newer))

    def error_occurred(self, activity: str, error: Exception) -> None:
        raise AssertionError(activity) from error


class Post:
    """A process that leads, with the zone data that is in use when it begins."""

    def __init__(self, store: Store, clock: VirtualClock, node: UUID) -> None:
        self.store, self.node, self.noted = store, node, Noted()
        version = zone_data.version()
        assert version is not None
        leadership = Leadership(store, lambda: self.node, is_trusted=lambda: True, tzdata=version)
        start = clock.now()

        def monotonic() -> float:
            return (clock.now() - start).total_seconds()

        self.scheduler = Scheduler(store, leadership, self.noted, monotonic=monotonic)
        self.zones = TzdataUpdater(
            store, leadership, self.noted, version=version, monotonic=monotonic
        )

    async def run(self) -> None:
        """One turn of its loops."""
        await self.store.nodes.heartbeat(SYSTEM, self.node, TTL_SECONDS_MAX)
        await self.scheduler.hold()
        await self.zones.update_shards()
        while await self.scheduler.plan_due():
            pass


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ZoneFiles]:
    with zone_files(tmp_path) as found:
        yield found


async def begin(store: Store, clock: VirtualClock, former: Post | None = None) -> Post:
    """A process begins, after the former one has ended."""
    if former is not None:
        await store.nodes.leave(SYSTEM, former.node)
    return Post(store, clock, await join_scheduler(store))


async def versions(store: Store) -> set[str | None]:
    return {shard.tzdata for shard in await store.shards.list(SYSTEM)}


async def test_new_zone_data_moves_what_it_touches_and_nothing_else(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030a", BEFORE)
    await make_queue(store)
    await store.calendars.put(DEFAULT, "feasts", [(NOON + 3 * DAY).date()])
    moving = {
        "daily": await create(store, clock, **NINE, start_at="2026-01-08T00:00:00"),
        "once": await create(store, clock, once_at="2026-01-08T09:00:00", timezone=TOWN),
        "yearly": await create(store, clock, cron_expr="0 9 8 7 *", timezone=TOWN, name="july"),
        "weekly": await create(
            store, clock, weekly_time={"day_of_week": 4, "hour": 9, "minute": 0}, timezone=TOWN
        ),
        "rolled": await create(
            store, clock, cron_expr="0 9 8 * *", timezone=TOWN, calendar="feasts", roll="next_day"
        ),
        "recurring": await create(
            store, clock, rrule="FREQ=MONTHLY;BYMONTHDAY=8;BYHOUR=9", timezone=TOWN,
            start_at="2026-01-01T00:00:00",
        ),
    }  # fmt: skip
    staying = {
        "sooner": await create(store, clock, **NINE),
        "hourly": await create(store, clock, cron_expr="0 * * * *", timezone=TOWN),
        "elsewhere": await create(store, clock, cron_expr="0 9 8 * *", timezone="Europe/Berlin"),
        "utc": await create(store, clock, cron_expr="0 9 8 * *"),
        "elapsed": await create(store, clock, interval_seconds=7 * 86_400, timezone=TOWN),
        "delayed": await create(
            store, clock, interval_seconds=86_400, interval_mode="fixed_delay", timezone=TOWN
        ),
        "offset": await create(store, clock, once_at="2026-01-08T09:00:00+01:00", timezone=TOWN),
    }
    first = await begin(store, clock)
    assert await versions(store) == {None}
    await first.run()
    assert await versions(store) == {"2030a"}

    files.use("2030b", after(3))
    second = await begin(store, clock, first)
    await second.run()
    assert await versions(store) == {"2030b"}
    for name, made in staying.items():
        assert await again(store, made) == made, name
    for name, made in moving.items():
        now = await again(store, made)
        assert made.next_slot is not None, name
        assert now.next_slot == made.next_slot - 2 * HOUR, name
        assert now.due_at == now.next_slot, name
        assert now.look_at == now.next_slot - timedelta(seconds=30), name
        assert now.version == made.version + 1, name
    assert {id_ for *_, ids in second.noted.moved for id_ in ids} == {
        schedule.id for schedule in moving.values()
    }
    assert {version_pair for _, version_pair, *_ in second.noted.moved} == {("2030a", "2030b")}
    assert second.noted.moved_by_tzdata == len(moving)
    assert first.noted.moved == []
    assert first.noted.warned == second.noted.warned == []

    told = len(second.noted.moved)
    third = await begin(store, clock, second)
    await second.zones.update_shards()
    await third.run()
    assert (len(second.noted.moved), third.noted.moved) == (told, [])


@pytest.mark.parametrize("hours", [0, 2, -3], ids=["later", "earlier", "much later"])
@pytest.mark.parametrize(
    "seconds",
    [
        *(-5, 5),
        *(
            pytest.param(offset_seconds, marks=pytest.mark.one_store("sqlite"))
            for offset_seconds in (-7_200, -3_700, -1_800, -25, 0, 1_800, 3_700, 7_200)
        ),
    ],
)
async def test_around_the_change_each_day_has_its_one_firing(
    store: Store, clock: VirtualClock, files: ZoneFiles, seconds: int, hours: int
) -> None:
    """Whenever it is learnt about: the country changed its clocks a day ago, and we hear of it now,
    around the time at which we thought that it is nine."""
    files.use("2030a", BEFORE)
    await make_queue(store)
    made = await create(store, clock, **NINE, missed={"policy": "fire_late"})
    post = await begin(store, clock)
    nine = datetime(2026, 1, 8, 8, tzinfo=UTC)
    await _pass(clock, post, nine + timedelta(seconds=seconds))
    files.use("2030b", after(hours))
    post = await begin(store, clock, post)
    await _pass(clock, post, datetime(2026, 1, 11, 18, tzinfo=UTC))
    found = [slot for slot in await slots(store, made) if slot is not None]
    assert len(found) == len({*found})
    real = timedelta(hours=hours)
    assert found[-1] == datetime(2026, 1, 11, 9, tzinfo=UTC) - real
    days = [(slot + real).date() for slot in found]
    assert days == [NOON.date() - DAY + n * DAY for n in range(len(days))]
    assert (await again(store, made)).fired == len(found)


@pytest.mark.one_store("sqlite")
async def test_a_rule_with_many_slots_a_day_gets_all_that_are_still_to_come(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030a", BEFORE)
    await make_queue(store)
    made = await create(store, clock, cron_expr="*/30 9-17 * * *", timezone=TOWN)
    post = await begin(store, clock)
    night = datetime(2026, 1, 8, 2, tzinfo=UTC)
    await _pass(clock, post, night)
    files.use("2030b", after(3))
    post = await begin(store, clock, post)
    await _pass(clock, post, night + DAY)
    found = [slot for slot in await slots(store, made) if slot is not None and slot > night]
    assert found == [datetime(2026, 1, 8, 6, tzinfo=UTC) + n * HOUR / 2 for n in range(18)]


async def test_what_was_paused_goes_on_where_its_next_slot_is_now(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030a", BEFORE)
    await make_queue(store)
    clock.advance(seconds=2 * 86_400)
    made = await create(store, clock, **NINE)
    once = await create(store, clock, once_at="2026-01-09T09:00:00", timezone=TOWN)
    for schedule in (made, once):
        await schedules.pause(Context(store, DEFAULT), schedule.id)
    files.use("2030b", after(3))
    await (await begin(store, clock)).run()
    for schedule in (made, once):
        assert schedule.next_slot is not None
        now = await schedules.resume(Context(store, DEFAULT), schedule.id)
        assert now.next_slot == schedule.next_slot - 2 * HOUR


async def test_a_move_that_stops_half_way_is_begun_again(
    store: Store, clock: VirtualClock, files: ZoneFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tzdata, "PAGE", 2)
    files.use("2030a", BEFORE)
    await make_queue(store)
    clock.advance(seconds=2 * 86_400)
    made = [await create(store, clock, schedule_id=in_shard(7), **NINE) for _ in range(7)]
    await (first := await begin(store, clock)).run()
    files.use("2030b", after(2))

    class Dying:
        """Dies after some changes."""

        def __init__(self) -> None:
            self.left = 3

        def __getattr__(self, name: str) -> Any:
            return (
                self
                if name == "schedules"
                else getattr(store, name, None) or getattr(store.schedules, name)
            )

        async def change(self, *args: Any, **named: Any) -> Schedule:
            if not self.left:
                raise StoreUnavailable("gone")
            self.left -= 1
            return await store.schedules.change(*args, **named)

    second = await begin(cast(Store, Dying()), clock, first)
    with pytest.raises(StoreUnavailable):
        await second.run()
    assert "2030a" in await versions(store)
    moved = [(await again(store, schedule)).next_slot != schedule.next_slot for schedule in made]
    assert moved.count(True) == 3
    third = await begin(store, clock, second)
    await third.run()
    assert third.noted.moved_by_tzdata == 4
    for schedule in made:
        assert schedule.next_slot is not None
        assert (await again(store, schedule)).next_slot == schedule.next_slot - HOUR
    assert await versions(store) == {"2030b"}


async def test_a_zone_that_is_gone_does_not_stop_its_neighbours(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030a", {**BEFORE, "Test/Gone": (2, ())})
    await make_queue(store)
    gone = await create(
        store, clock, cron_expr="0 9 8 1 *", timezone="Test/Gone", schedule_id=in_shard(3)
    )
    stays = [
        await create(store, clock, cron_expr=rule, timezone=TOWN, schedule_id=in_shard(3))
        for rule in ("0 9 8 7 *", "0 4 8 1 *")  # One is looked at before, and one after.
    ]
    first = await begin(store, clock)
    await first.run()
    files.use("2030b", after(2))
    second = await begin(store, clock, first)
    await second.run()
    for stay in stays:
        assert stay.next_slot is not None
        assert (await again(store, stay)).next_slot == stay.next_slot - HOUR
    assert second.noted.moved_by_tzdata == len(stays)
    assert [schedule_id for schedule_id, _ in second.noted.left] == [gone.id]
    assert "Test/Gone" in second.noted.left[0][1]
    assert await versions(store) == {"2030b"}
    assert await again(store, gone) == gone
    await second.run()
    assert len(second.noted.left) == 1

    assert gone.next_slot is not None
    await _pass(clock, second, gone.next_slot)
    parked = await again(store, gone)
    assert parked.status is ScheduleStatus.PARKED
    assert "Test/Gone" in (parked.last_error or "")


async def test_a_fleet_of_two_versions_goes_one_way_only(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030b", after(2))
    await make_queue(store)
    clock.advance(seconds=2 * 86_400)
    made = await create(store, clock, cron_expr="0 9 * * *", timezone=TOWN)
    far = await create(store, clock, cron_expr="0 9 1 7 *", timezone=TOWN)
    new = await begin(store, clock)
    await new.run()
    files.use("2030a", BEFORE)
    old = await begin(store, clock, new)
    await old.run()
    await old.run()
    assert await again(store, made) == made
    assert await again(store, far) == far
    assert old.noted.warned == [("2030a", "2030b")]
    # From here on its times are from before: it plans with what it knows.
    assert await versions(store) == {"2030a"}
    await _pass(clock, old, clock.now() + DAY)
    late = await again(store, made)
    assert made.next_slot is not None
    assert late.next_slot == made.next_slot + DAY + HOUR

    files.use("2030b", after(2))
    newer = await begin(store, clock, old)
    await newer.run()
    assert (await again(store, made)).next_slot == made.next_slot + DAY
    assert await again(store, far) == far
    assert newer.noted.moved_by_tzdata == 1
    assert await versions(store) == {"2030b"}
    assert len({*await slots(store, made)}) == len(await slots(store, made))


async def test_who_lost_the_shard_moves_nothing(
    store: Store, clock: VirtualClock, files: ZoneFiles
) -> None:
    files.use("2030a", BEFORE)
    await make_queue(store)
    clock.advance(seconds=2 * 86_400)
    made = await create(store, clock, **NINE)
    first = await begin(store, clock)
    await first.scheduler.hold()
    files.use("2030b", after(2))
    (found,) = [
        schedule
        for shard in range(SHARDS)
        for schedule in await store.schedules.of_shard(SYSTEM, shard, 9)
    ]
    assert rezoning.has_moved(found, found.rule, clock.now())
    stale = first.scheduler.leadership.grants
    await store.nodes.leave(SYSTEM, first.node)
    await lead(store)
    for grant in stale:
        assert await rezone(store, grant, [found], clock.now()) == ()
    assert await store.shards.note_zones(SYSTEM, stale, "2030b") == 0
    assert await again(store, made) == made
    assert await versions(store) == {None}


async def test_the_pages_of_a_shard_hold_each_active_schedule_once(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    made = [
        await create(store, clock, schedule_id=in_shard(3), interval_seconds=60 * (n % 3 + 1))
        for n in range(10)
    ]
    await create(store, clock, schedule_id=in_shard(4))
    found: list[rezoning.WaitingSchedule] = []
    while page := await store.schedules.of_shard(
        SYSTEM, 3, 3, after=(found[-1].look_at, found[-1].id) if found else None
    ):
        found += page
    assert [schedule.id for schedule in found] == [
        schedule.id for schedule in sorted(made, key=lambda one: (one.look_at, one.id))
    ]
    one = found[0]
    (same,) = [schedule for schedule in made if schedule.id == one.id]
    assert (one.next_slot, one.rule) == (same.next_slot, same.definition.rule)
    assert await store.schedules.of_shard(SYSTEM, 5, ALL) == ()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("tzdata.zi", "# version 2031c\n# redo posix_only\n", "2031c"),
        ("tzdata.zi", "# version 2031c-dirty\n", "2031c"),
        ("+VERSION", "2031d\n", "2031d"),
        ("Europe/London", "no zone", None),
    ],
)
def test_the_version_is_that_of_the_folder_that_zones_are_read_from(
    files: ZoneFiles, tmp_path: Path, name: str, text: str, expected: str | None
) -> None:
    files.use("2030a", {})
    assert zone_data.version() == "2030a"
    (tmp_path / "2030a" / "tzdata.zi").unlink()
    path = tmp_path / "2030a" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert zone_data.version() == expected


async def _pass(clock: VirtualClock, post: Post, until: datetime) -> None:
    """Lets time pass; the leader looks when it has to, and now and then."""
    while clock.now() < until:
        await post.run()
        look = await post.store.schedules.next_look_at(SYSTEM, range(SHARDS)) or until
        step = min(until, look, clock.now() + DAY / 3) - clock.now()
        clock.advance(seconds=max(step.total_seconds(), 0.001))
    await post.run()
