"""The breaker: when it opens, for how long, what it reports, and when an endpoint is disabled."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tickwork.core.delivery.breaker import (
    DISABLED_AFTER,
    FAILED_FOR_DAYS,
    FAILURES_IN_ROW_MAX,
    GONE,
    NOTICES_AFTER,
    OPEN_SECONDS_MAX,
    OPEN_SECONDS_MIN,
    WISH_SECONDS_MAX,
    HealthEvent,
    after_attempt,
    after_attempts,
    by_endpoint,
)
from tickwork.core.delivery.endpoint import (
    HEALTHY,
    Attempt,
    AttemptRecord,
    Endpoint,
    EndpointSettings,
    Health,
)
from tickwork.core.delivery.outcome import ErrorKind
from tickwork.core.message.system_events import SYSTEM_TYPES, endpoint_events
from tickwork.core.model import Claim
from tickwork.store.ids import new_id

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
DAY = timedelta(days=1)

GAPS = st.lists(st.integers(0, 7_200), max_size=60)
"""Seconds between attempts."""


def fail(health: Health, at: datetime, *, is_probe: bool = False) -> Health:
    return after_attempt(health, at, is_delivered=False, is_probe=is_probe).health


def failed_times(number: int, at: datetime = NOW) -> Health:
    health = HEALTHY
    for _ in range(number):
        health = fail(health, at)
    return health


def seconds_open(health: Health, at: datetime) -> float:
    assert health.open_until is not None
    return (health.open_until - at).total_seconds()


def endpoint(health: Health = HEALTHY, disabled_reason: str | None = None) -> Endpoint:
    return Endpoint(
        id=new_id(),
        tenant="default",
        name="shop",
        settings=EndpointSettings(url="https://example.com", types=("*",)),
        health=health,
        disabled_at=None if disabled_reason is None else NOW,
        disabled_reason=disabled_reason,
        created_at=NOW,
        updated_at=NOW,
    )


def recorded(
    receiver: Endpoint, *, is_delivered: bool = False, is_gone: bool = False
) -> AttemptRecord:
    kind = None if is_delivered else ErrorKind.HTTP
    return AttemptRecord(
        claim=Claim(receiver.tenant, new_id(), 1, new_id()),
        delivery_id=new_id(),
        endpoint_id=receiver.id,
        attempt=Attempt(number=1, at=NOW, took_seconds=0.1, kind=kind),
        is_gone=is_gone,
    )


def test_the_breaker_opens_at_the_fifth_failure_in_a_row() -> None:
    few = failed_times(FAILURES_IN_ROW_MAX - 1)
    assert (few.open_until, few.failing_since) == (None, None)
    opened = fail(few, NOW + DAY)
    assert (seconds_open(opened, NOW + DAY), opened.openings) == (OPEN_SECONDS_MIN, 1)
    assert opened.failing_since == NOW + DAY


def test_failed_probes_double_the_time_up_to_an_hour() -> None:
    health, at, times = failed_times(FAILURES_IN_ROW_MAX), NOW, list[float]()
    for _ in range(9):
        assert health.open_until is not None
        at = health.open_until
        health = fail(health, at, is_probe=True)
        times.append(seconds_open(health, at))
    assert times == [120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600]


@given(GAPS, st.data())
def test_the_breaker_is_never_open_for_longer_than_an_hour(
    gaps: list[int], data: st.DataObject
) -> None:
    health, at = HEALTHY, NOW
    for gap in gaps:
        at += timedelta(seconds=gap)
        before = health
        is_delivered = data.draw(st.booleans()) and data.draw(st.booleans())
        change = after_attempt(
            health, at, is_delivered=is_delivered, is_probe=data.draw(st.booleans())
        )
        health = change.health
        if is_delivered:
            assert change.health == HEALTHY
            assert change.events == ()
            continue
        assert health.failures_in_row == before.failures_in_row + 1
        assert (health.open_until is None) == (health.failures_in_row < FAILURES_IN_ROW_MAX)
        if health.open_until not in (None, before.open_until):
            assert OPEN_SECONDS_MIN <= seconds_open(health, at) <= OPEN_SECONDS_MAX


@given(st.lists(st.integers(0, 59), min_size=1, max_size=20))
def test_attempts_under_way_do_not_open_the_breaker_for_longer(after: list[int]) -> None:
    opened = failed_times(FAILURES_IN_ROW_MAX)
    health = opened
    for seconds in sorted(after):
        health = fail(health, NOW + timedelta(seconds=seconds))
    assert (health.open_until, health.openings) == (opened.open_until, 1)
    assert health.failures_in_row == FAILURES_IN_ROW_MAX + len(after)


@given(st.integers(1, 12))
def test_a_failing_endpoint_is_reported_after_days_and_then_disabled(hours: int) -> None:
    health, at, noticed = HEALTHY, NOW, list[timedelta]()
    disabled_after = None
    while disabled_after is None:
        change = after_attempt(health, at, is_delivered=False)
        health = change.health
        noticed += [at - NOW for event in change.events if event is HealthEvent.FAILING]
        if change.disabled_reason is not None:
            assert (change.disabled_reason, change.events) == (
                FAILED_FOR_DAYS, (HealthEvent.DISABLED,),
            )  # fmt: skip
            disabled_after = at - NOW
        at += timedelta(hours=hours)
    every = timedelta(hours=hours)
    first = (FAILURES_IN_ROW_MAX - 1) * every
    for at_least, passed in zip(NOTICES_AFTER, noticed, strict=True):
        assert at_least <= passed - first < at_least + every
    assert DISABLED_AFTER <= disabled_after - first < DISABLED_AFTER + every


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.sampled_from((0, 0, 0, 0, 0, 0, 0, 1)), st.booleans()),
        max_size=40,
    )
)
def test_no_endpoint_is_disabled_without_a_notice_five_days_before(
    attempts: list[tuple[int, int, bool]],
) -> None:
    health, at, noticed = HEALTHY, NOW, list[datetime]()
    for hours, delivered, is_probe in attempts:
        at += timedelta(hours=hours)
        change = after_attempt(health, at, is_delivered=delivered == 1, is_probe=is_probe)
        health = change.health
        if delivered:
            noticed.clear()
        if HealthEvent.FAILING in change.events:
            noticed.append(at)
        if HealthEvent.DISABLED in change.events:
            assert noticed
            assert at - noticed[0] >= DISABLED_AFTER
            return


def test_rare_failures_report_an_endpoint_long_before_they_disable_it() -> None:
    health, events = HEALTHY, list[tuple[int, HealthEvent]]()
    for days in range(0, 24, 2):
        change = after_attempt(health, NOW + days * DAY, is_delivered=False)
        health = change.health
        events += [(days, event) for event in change.events]
        if change.disabled_reason is not None:
            break
    failing, disabled = HealthEvent.FAILING, HealthEvent.DISABLED
    assert events == [(8, failing), (10, failing), (12, failing), (14, disabled)]


def test_a_success_starts_the_days_anew() -> None:
    health = failed_times(FAILURES_IN_ROW_MAX)
    health = after_attempt(health, NOW + 4 * DAY, is_delivered=True).health
    assert health == HEALTHY
    late = NOW + 5 * DAY
    change = after_attempt(failed_times(4, late), late, is_delivered=False)
    assert (change.events, change.disabled_reason) == ((HealthEvent.FAILING,), None)


def test_the_breaker_is_open_as_long_as_the_receiver_wishes() -> None:
    health = failed_times(4, NOW)
    for wish, seconds in ((0, 60), (30, 60), (7_200, 7_200), (10**9, WISH_SECONDS_MAX)):
        change = after_attempt(health, NOW, is_delivered=False, wish_seconds=wish)
        assert change.health.open_until == NOW + timedelta(seconds=seconds)


def test_a_few_failures_disable_no_endpoint_however_long_they_last() -> None:
    health = fail(HEALTHY, NOW)
    for days in range(10, 13):
        change = after_attempt(health, NOW + days * DAY, is_delivered=False)
        health = change.health
        assert (change.events, change.disabled_reason) == ((), None)


def test_a_receiver_that_is_gone_disables_the_endpoint_at_once() -> None:
    change = after_attempt(HEALTHY, NOW, is_delivered=False, is_gone=True)
    assert (change.events, change.disabled_reason) == ((HealthEvent.DISABLED,), GONE)


def test_several_attempts_are_decided_in_their_order() -> None:
    receiver = endpoint()
    failure, success = recorded(receiver), recorded(receiver, is_delivered=True)
    change = after_attempts(receiver, [failure] * 5, NOW)
    assert change.health == failed_times(5, NOW)
    assert change.events == (HealthEvent.FAILING,)
    assert after_attempts(receiver, [*[failure] * 5, success], NOW).health == HEALTHY
    assert after_attempts(receiver, [success, failure], NOW).health.failures_in_row == 1
    assert after_attempts(receiver, [], NOW).health == HEALTHY


def test_an_endpoint_is_disabled_and_reported_once() -> None:
    receiver = endpoint()
    gone = [recorded(receiver, is_gone=True)] * 3
    change = after_attempts(receiver, gone, NOW)
    assert (change.events, change.disabled_reason) == ((HealthEvent.DISABLED,), GONE)
    disabled = endpoint(change.health, GONE)
    again = after_attempts(disabled, [*gone, *[recorded(disabled)] * 5], NOW)
    assert (again.events, again.disabled_reason) == ((), None)
    assert (again.health.failures_in_row, again.health.open_until) == (11, None)


def test_attempts_are_grouped_by_tenant_and_endpoint() -> None:
    one, other = endpoint(), endpoint()
    records = [recorded(receiver) for receiver in (one, other, one)]
    assert by_endpoint(records) == {
        ("default", one.id): [records[0], records[2]],
        ("default", other.id): [records[1]],
    }


def test_events_of_one_failure_are_the_same_and_those_of_the_next_are_others() -> None:
    receiver = endpoint(failed_times(4))
    change = after_attempt(receiver.health, NOW, is_delivered=False)
    (event,) = endpoint_events(receiver, change)
    assert event.type in SYSTEM_TYPES
    assert endpoint_events(receiver, change) == (event,)
    enabled = structs.replace(receiver, updated_at=NOW + DAY)
    later = after_attempt(change.health, NOW + DAY, is_delivered=False)
    others = {endpoint_events(enabled, change)[0].id, endpoint_events(receiver, later)[0].id}
    assert len(others | {event.id}) == 3
