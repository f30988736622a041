"""What an answer means: the table of statuses, `Retry-After`, and what is kept of the text."""

from datetime import timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.messages import NOON
from tickwork.core.delivery.outcome import (
    EXCERPT_CHARACTERS_MAX,
    RETRY_AFTER_SECONDS_MAX,
    Delivery,
    ErrorKind,
    answered,
    excerpt,
    failed,
    retry_after,
)


def answer(status: int, **headers: str) -> Delivery:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answered(status, named, "text", NOON, permanent_statuses=frozenset({204, 404, 410}))


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226, 299])
def test_2xx_is_delivered(status: int) -> None:
    assert answer(status) == Delivery(is_delivered=True, code=status, excerpt="text")


@pytest.mark.parametrize(
    "status", [100, 101, 199, 300, 301, 302, 304, 307, 308, 400, 401, 403, 429, 500, 503, 599, 999]
)
def test_a_delivery_answered_with_another_status_is_retried(status: int) -> None:
    result = answer(status)
    assert not result.is_delivered
    assert (result.is_permanent, result.is_gone) == (False, False)
    assert (result.kind, result.code) == (ErrorKind.HTTP, status)
    assert result.error == f"the receiver answered {status}"


def test_only_what_the_endpoint_calls_permanent_is_permanent() -> None:
    assert answer(404).is_permanent
    assert not answered(404, {}, "", NOON).is_permanent
    assert not answered(410, {}, "", NOON).is_permanent


def test_410_says_that_the_receiver_wants_no_more() -> None:
    assert answer(410).is_gone
    assert not answer(404).is_gone


def test_retry_after_is_kept_of_a_failure_only() -> None:
    assert answer(503, Retry_After="120").retry_after_seconds == 120.0
    assert answer(404, Retry_After="120").retry_after_seconds == 120.0
    assert answer(200, Retry_After="120").retry_after_seconds is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("86400", 86_400.0),
        ("86401", RETRY_AFTER_SECONDS_MAX),
        ("9" * 5_000, RETRY_AFTER_SECONDS_MAX),
        (format_datetime(NOON + timedelta(minutes=2), usegmt=True), 120.0),
        (format_datetime(NOON - timedelta(minutes=2), usegmt=True), 0.0),
        (format_datetime(NOON + timedelta(days=900), usegmt=True), RETRY_AFTER_SECONDS_MAX),
        ("Mon, 05 Jan 2026 14:01:00 +0200", 60.0),
        ("Mon, 05 Jan 2026 12:01:00", 60.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("1e3", None),
        ("٥", None),
        ("31 Feb 2026 00:00:00 GMT", None),
        (f"Mon, 01 Jan {'9' * 30} 00:00:00 GMT", None),
        (f"{'9' * 30} Jan 2026 00:00:00 GMT", None),
        (f"Mon, 01 Jan 2026 00:00:00 +{'9' * 30}", None),
    ],
)
def test_retry_after_is_a_number_or_a_date_and_nothing_else(
    text: str | None, seconds: float | None
) -> None:
    assert retry_after(text, NOON) == seconds


_DATE_PARTS = ["Mon", ",", "Jan", "1", "9" * 25, ":", "-", "+", " ", "GMT", "0000", "00:00:00", "."]


@given(st.text(max_size=40) | st.lists(st.sampled_from(_DATE_PARTS), max_size=9).map("".join))
def test_no_retry_after_of_a_receiver_breaks_the_delivery(text: str) -> None:
    seconds = retry_after(text, NOON)
    assert seconds is None or 0.0 <= seconds <= RETRY_AFTER_SECONDS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "your whsec_Q0FGRUJBQkU= is wrong",
        "your tct_Q0FGRUJBQkU-_a is stale",
        "Authorization: Bearer Q0FGRUJBQkU",
        '{"token": "Q0FGRUJBQkU"}',
        "api_key=Q0FGRUJBQkU&x=1",
        "API-KEY: Q0FGRUJBQkU",
        "client_secret='Q0FGRUJBQkU'",
        "Password = Q0FGRUJBQkU",
        "x" * (EXCERPT_CHARACTERS_MAX - 7) + " token=Q0FGRUJBQkU",
    ],
)
def test_secrets_in_an_answer_are_not_kept(text: str) -> None:
    for kept in (excerpt(text), failed(ErrorKind.HTTP, text).error):
        assert kept is not None
        assert "Q0FG" not in kept


@given(st.text(max_size=EXCERPT_CHARACTERS_MAX * 2) | st.text("\0\r\n\x1b\ud800 a", max_size=20))
def test_an_excerpt_is_short_and_can_be_stored(text: str) -> None:
    for kept in (excerpt(text), failed(ErrorKind.CONNECT, text).error):
        if kept is not None:
            assert 1 <= len(kept) <= EXCERPT_CHARACTERS_MAX
            assert not {*"\0\r\x1b"} & {*kept}
            assert kept.encode()


def test_an_empty_answer_has_no_excerpt() -> None:
    assert excerpt("") is None
    assert excerpt(" \n\t ") is None
