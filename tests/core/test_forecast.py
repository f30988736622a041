"""The forecast: counts of rules, spread schedules, and targets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from tickwork.core.schedule import forecast
from tickwork.core.schedule.due_times import due_times
from tickwork.core.schedule.forecast import AlikeSchedules, Tally, Target, target_of
from tickwork.core.when import Cron, Daily, Interval, Rule, first_slot

NOW = datetime(2026, 3, 2, 7, 59, 30, tzinfo=UTC)
MAIL = Target("queue", "mail")


def alike(rule: Rule, count: int = 1, number: int = 0, tenant: str = "default") -> AlikeSchedules:
    return AlikeSchedules(
        tenant=tenant,
        target=MAIL,
        rule=rule,
        next_slot=first_slot(rule, NOW),
        last_slot=None,
        fired=0,
        count=count,
        last_id=UUID(int=number),
    )


def seeded(rule: Rule, count: int) -> Iterator[AlikeSchedules]:
    """Schedules of a rule that depends on the id."""
    for number in range(count):
        seed = str(UUID(int=number))
        yield alike(structs.replace(rule, seed=seed), number=number)


def counted(*added: AlikeSchedules, hours: int = 24) -> forecast.Forecast:
    tally = Tally(NOW, hours)
    tally.add(added)
    return tally.forecast()


def test_alike_schedules_are_counted_once_and_multiplied() -> None:
    nine = Rule(timing=Daily(9, 0))
    found = counted(alike(nine, 600_000), alike(nine, 400_000, tenant="other"))
    assert (found.firings, found.peak_firings, found.schedules) == (1_000_000,) * 3
    assert found.peak_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    shares = {tenant.tenant: tenant.firings for tenant in found.tenants}
    assert shares == {"default": 600_000, "other": 400_000}


def test_due_times_beyond_a_budget_are_not_computed() -> None:
    every_second = Rule(timing=Interval(1))
    spread = Rule(timing=Interval(60), jitter_seconds=3_600)
    for rule, count, most in ((every_second, 1, 7_200), (spread, 2 * forecast.EXACT_MAX, 480)):
        for due_times_max, is_allowed in ((most, True), (most // 2, False)):
            tally = Tally(NOW, 2, due_times_max=due_times_max)
            tally.add([alike(rule, count)])
            # Those for another target are the same times, and cost nothing more.
            tally.add([structs.replace(alike(rule, count), target=Target("queue", "other"))])
            if is_allowed:
                assert tally.forecast().schedules == 2 * count
            else:
                with pytest.raises(forecast.TooManyDueTimes):
                    tally.forecast()


@pytest.mark.parametrize("is_exact", [True, False])
def test_spread_schedules_are_in_their_window(
    is_exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "EXACT_MAX", 5_000 if is_exact else 10)
    for rule in (
        Rule(timing=Daily(9, 0), fire_window_seconds=600),
        Rule(timing=Daily(9, 0), jitter_seconds=600),
    ):
        found = counted(*seeded(rule, 3_000))
        busy = [number for number in found.minutes if number]
        assert found.firings == 3_000
        assert len(busy) in (10, 11)
        assert all(abs(firings - 300) < 75 for firings in busy[:10])


def test_jitter_and_window_together_are_spread_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = Rule(timing=Daily(9, 0), fire_window_seconds=600, jitter_seconds=300)
    exact = counted(*seeded(rule, 1_000))
    monkeypatch.setattr(forecast, "EXACT_MAX", 10)
    even = counted(*seeded(rule, 1_000))
    assert exact.firings == even.firings == 1_000
    assert all(
        abs(one - other) < 30 for one, other in zip(exact.minutes, even.minutes, strict=True)
    )


def test_hashed_minutes_of_many_schedules_come_from_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "EXACT_MAX", 200)
    found = counted(*seeded(Rule(timing=Cron("H 9 * * *")), 1_000))
    assert found.firings == 1_000
    assert sum(found.minutes[61:121]) == 1_000


def test_intervals_are_counted_from_their_anchor_however_many_there_are() -> None:
    anchors = [datetime(2026, 1, 1, 0, 0, second, 7, tzinfo=UTC) for second in range(60)]
    rules = [Rule(timing=Interval(300), anchor=anchor) for anchor in anchors]
    found = counted(*(alike(rule, 10, number) for number, rule in enumerate(rules)), hours=1)
    assert found.firings == 60 * 10 * 12
    assert {number for number in found.minutes if number} == {600}


def test_overdue_slots_are_due_now_and_waiting_ones_at_their_time() -> None:
    overdue = alike(Rule(timing=Cron("0 7 * * *")))
    late = AlikeSchedules(
        tenant="default",
        target=MAIL,
        rule=Rule(timing=Cron("0 7 * * *"), fire_window_seconds=7_200, seed="a"),
        next_slot=datetime(2026, 3, 3, 7, tzinfo=UTC),
        last_slot=datetime(2026, 3, 2, 7, tzinfo=UTC),
        fired=1,
        count=1,
        last_id=UUID(int=1),
    )
    missed = structs.replace(overdue, next_slot=datetime(2026, 3, 2, 7, tzinfo=UTC))
    assert counted(missed, hours=2).minutes[0] == 1
    waiting = [
        at
        for seed in "abcdefgh"
        for at in due_times(
            structs.replace(late.rule, seed=seed),
            next_slot=late.next_slot,
            last_slot=late.last_slot,
            fired=1,
            now=NOW,
            end=NOW + timedelta(hours=2),
        )
    ]
    assert waiting
    assert all(NOW < at <= NOW + timedelta(hours=2) for at in waiting)


@pytest.mark.parametrize(
    ("given", "target"),
    [
        (("mail", None, None), Target("queue", "mail")),
        (("tickwork.entities.Brand", None, None), Target("entity", "Brand")),
        (("tickwork.workflows.ship", None, None), Target("workflow", "ship")),
        (
            ("d", "webhook", "https://a:b@Example.com:8443/x?y#z"),
            Target("host", "Example.com:8443"),
        ),
        (("d", "endpoint", "crm"), Target("endpoint", "crm")),
        (("d", "chat", "slack"), Target("chat", "slack")),
        (("d", "email", None), Target("email", "")),
    ],
)
def test_a_target_is_named_by_its_queue_or_host(
    given: tuple[str, str | None, str | None], target: Target
) -> None:
    assert target_of(*given) == target
