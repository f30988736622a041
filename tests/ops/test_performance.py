"""The performance of each queue and type is the count of everything that ended, on both stores."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from tests.conformance.acts import ack, dead, make_queue, make_tenants, pull, send, settle
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.answers.performance import PerformanceAnswer, TypePerformance
from tickwork.core.model import DEFAULT, Scope
from tickwork.core.queue.performance import Width, period_of
from tickwork.errors import InvalidInput
from tickwork.ops import performance
from tickwork.ops.context import Context
from tickwork.ops.performance import show_performance
from tickwork.store.contract import Store

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

QUEUES, TYPES = ("emails", "images"), ("small", "large")


async def _asked(
    store: Store, by: Width, *, scope: Scope = DEFAULT, **filters: object
) -> PerformanceAnswer:
    now = await store.now()
    time = {"since": now - timedelta(days=3), "until": now + timedelta(minutes=1)}
    return await show_performance(Context(store, scope), by=by, **{**time, **filters})  # type: ignore[arg-type]


async def test_the_answer_is_a_count_of_everything(store: Store, clock: VirtualClock) -> None:
    """By minute, hour and day, each period and the whole time: 24 messages in three days."""
    for queue in QUEUES:
        await make_queue(store, queue)
    ended = Counter[tuple[Width, object, str, str | None, str]]()
    for step in range(6):
        for number, (queue, type_) in enumerate((q, t) for q in QUEUES for t in TYPES):
            await send(store, queue=queue, type=type_)
            (message,) = await pull(store, queue=queue)
            failed = (step + number) % 3 == 0
            await settle(store, dead(message, reason="x") if failed else ack(message))
            for by in Width:
                period = period_of(clock.now(), by)
                ended[by, period, queue, type_, "failed" if failed else "done"] += 1
        clock.advance(seconds=36_000)

    def counted(by: Width, rows: tuple[TypePerformance, ...]) -> Counter[object]:
        found = Counter[object]()
        for row in rows:
            assert row.messages == row.done + row.failed + row.discarded
            found[by, row.period, row.queue, row.type, "done"] += row.done
            found[by, row.period, row.queue, row.type, "failed"] += row.failed
        return +found

    for by in Width:
        answer = await _asked(store, by)
        expected = Counter({name: count for name, count in ended.items() if name[0] is by})
        assert counted(by, answer.periods) == expected
        whole = Counter[object]()
        for (_, _, *name), count in expected.items():
            whole[by, answer.since, *name] += count
        assert counted(by, answer.totals) == whole
    one = await _asked(store, Width.DAY, queue="emails", type="small")
    assert {(row.queue, row.type) for row in one.periods} == {("emails", "small")}
    assert sum(row.messages for row in one.totals) == 6


async def test_a_tenant_is_shown_only_what_is_its_own(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    await make_queue(store, "emails", scope=one)
    await send(store, queue="emails", scope=one)
    await settle(store, *map(ack, await pull(store, queue="emails", scope=one)), scope=one)
    for scope, messages in ((one, 1), (two, 0), (DEFAULT, 0)):
        answer = await _asked(store, Width.HOUR, scope=scope)
        assert sum(row.messages for row in answer.totals) == messages


async def test_a_time_is_whole_and_not_too_long(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = await show_performance(Context(store, DEFAULT), by=Width.DAY)
    assert usual.since == period_of(clock.now(), Width.DAY) - timedelta(days=29)
    now = clock.now()
    for since, until, field in (
        (now, now, "since"),
        (now.replace(tzinfo=None), None, "since"),
        (None, now.replace(tzinfo=None), "until"),
    ):
        with pytest.raises(InvalidInput) as refused:
            await _asked(store, Width.DAY, since=since, until=until)
        assert [fault.field for fault in refused.value.errors] == [field]
    await make_queue(store, "emails")
    await send(store, queue="emails")
    await settle(store, *map(ack, await pull(store, queue="emails")))
    monkeypatch.setattr(performance, "PERIODS_MAX", 1)
    with pytest.raises(InvalidInput, match="leaves 1 rows or more"):
        await _asked(store, Width.HOUR)
