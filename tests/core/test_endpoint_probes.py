"""What follows for a message that the breaker pulled forward: its own time, and no lost attempt."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.core.messages import claimed_message
from tickwork.core.delivery.breaker import open_seconds
from tickwork.core.delivery.endpoint import Endpoint, EndpointSettings, Health, PulledProbe
from tickwork.core.delivery.endpoint_request import (
    gate,
    outcome_of,
    seconds_until_own_time,
    spread,
)
from tickwork.core.delivery.outcome import Delivery, ErrorKind, failed
from tickwork.core.message.outcome import (
    Delivered,
    Failed,
    Permanent,
    RetryRequested,
    RetryTerms,
    Snoozed,
    Succeeded,
)
from tickwork.store.ids import new_id

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
SETTINGS = EndpointSettings(url="https://example.com", types=("*",), retry_seconds=(60.0,))
DOWN = failed(ErrorKind.HTTP, "answered 503")
NEVER = failed(ErrorKind.HTTP, "answered 422", is_permanent=True)
RETENTION = 86_400.0


def failing(message_id: UUID, back_seconds: float, *, openings: int, open_for: float) -> Endpoint:
    """An endpoint whose breaker pulled a message forward."""
    return Endpoint(
        id=new_id(),
        tenant="default",
        name="shop",
        settings=SETTINGS,
        health=Health(
            failures_in_row=5, open_until=NOW + timedelta(seconds=open_for), openings=openings
        ),
        pulled=PulledProbe(message_id, NOW + timedelta(seconds=back_seconds)),
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_failed_probe_before_its_own_time_waits_for_it_and_costs_no_attempt(attempt: int) -> None:
    assert outcome_of(DOWN, SETTINGS, attempt, own_seconds=7_000.0) == Snoozed(7_000.0)
    refused = Permanent("answered 422")
    assert outcome_of(NEVER, SETTINGS, attempt, own_seconds=7_000.0) == refused
    delivered = Delivery(is_delivered=True, code=200)
    assert outcome_of(delivered, SETTINGS, attempt, own_seconds=7_000.0) == Succeeded()


def test_a_failed_probe_that_was_due_by_itself_counts() -> None:
    assert outcome_of(DOWN, SETTINGS, 1) == RetryRequested(60.0, "answered 503")
    last = Delivered(Failed("answered 503"), retry=RetryTerms(max_attempts=2))
    assert outcome_of(DOWN, SETTINGS, 2) == last
    assert outcome_of(NEVER, SETTINGS, 1) == Permanent("answered 422")


def test_only_the_pulled_message_has_a_time_of_its_own() -> None:
    message_id = new_id()
    endpoint = failing(message_id, 7_000, openings=1, open_for=0)
    assert seconds_until_own_time(endpoint, message_id, NOW) == 7_000
    assert seconds_until_own_time(endpoint, new_id(), NOW) == 0
    later = NOW + timedelta(seconds=8_000)
    assert seconds_until_own_time(endpoint, message_id, later) == 0


@given(st.integers(1, 12), st.floats(0, 1))
def test_a_message_that_waited_only_for_the_breaker_was_due_by_itself(
    openings: int, share: float
) -> None:
    message_id, seconds = new_id(), open_seconds(openings)
    # It came while the breaker was open, and is pulled forward when that may be probed.
    waited = share * seconds
    back = spread(waited, message_id) - waited
    endpoint = failing(message_id, back, openings=openings, open_for=0)
    assert seconds_until_own_time(endpoint, message_id, NOW) == 0


def test_a_pulled_message_that_finds_the_breaker_open_waits_for_its_own_time() -> None:
    message = claimed_message()
    for back, least in ((7_000, 7_000), (90, 60)):
        endpoint = failing(message.id, back, openings=7, open_for=60)
        waits = gate(endpoint, message, NOW, RETENTION).wait_seconds
        assert least <= waits <= least + 6


def test_a_message_of_a_disabled_endpoint_asks_once_a_day_and_when_its_time_is_over() -> None:
    message, days, asked = claimed_message(), 14, 0
    endpoint = structs.replace(failing(message.id, 0, openings=0, open_for=0), disabled_at=NOW)
    now, over = message.sent_at, message.sent_at + timedelta(days=days)
    while (found := gate(endpoint, message, now, days * 86_400.0)).error is None:
        now, asked = now + timedelta(seconds=found.wait_seconds), asked + 1
    assert over <= now <= over + timedelta(seconds=1)
    assert asked <= days
