"""Fingerprints: errors that differ only in numbers, ids or quoted values are one group."""

from __future__ import annotations

import time
import traceback
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits import ERROR_LENGTH_MAX
from tickwork.core.message.error_summary import FINGERPRINT_LENGTH_MAX, fingerprint

NUMBERS = st.one_of(
    st.integers(-(10**18), 10**18).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
)
IDS = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda it: it.hex),
    st.integers(0, 2**64 - 1).map(hex),
)
WITHOUT_QUOTES = st.text(st.characters(exclude_characters="'\"`\\", exclude_categories=["C", "Z"]))


@given(NUMBERS, NUMBERS)
def test_errors_that_differ_in_a_number_are_one_group(one: str, other: str) -> None:
    assert fingerprint(f"no answer within {one} s") == fingerprint(f"no answer within {other} s")


@given(IDS, st.one_of(IDS, NUMBERS))
def test_errors_that_differ_in_an_id_are_one_group(one: str, other: str) -> None:
    assert fingerprint(f"order {one} is gone") == fingerprint(f"order {other} is gone")


@given(WITHOUT_QUOTES, WITHOUT_QUOTES, st.sampled_from("'\"`"))
def test_errors_that_differ_in_a_quoted_text_are_one_group(
    one: str, other: str, quote: str
) -> None:
    first, second = (f"can't find {quote}{text}{quote} here" for text in (one, other))
    assert fingerprint(first) == fingerprint(second) == "can't find <text> here"


@given(st.text())
def test_a_text_quoted_by_python_is_replaced(text: str) -> None:
    assert fingerprint(repr(KeyError(text))) == "KeyError(<text>)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the host is gone", "the port is gone"),
        ("KeyError: 'name'", "ValueError: 'name'"),
        ("can't read", "can't write"),
        ("a 'x' b", "a 'x' c"),
    ],
)
def test_different_failures_are_different_groups(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_a_quoted_text_without_its_end_is_replaced() -> None:
    assert fingerprint("cannot parse '" + "a" * 5_000) == fingerprint("cannot parse 'b'")


def test_a_traceback_is_grouped_by_its_exception() -> None:
    def fail(number: int) -> str:
        try:
            raise ValueError(f"row {number} is bad\n  and so are others")
        except ValueError as error:
            try:
                raise LookupError(f"no place for {number}\nat all") from error
            except LookupError:
                return traceback.format_exc()

    assert fingerprint(fail(1)) == fingerprint(fail(22)) == "LookupError: no place for <n>"


def group_of(*errors: Exception) -> str:
    try:
        raise ExceptionGroup("two sends failed", errors)
    except ExceptionGroup:
        return traceback.format_exc()


def test_an_exception_group_is_grouped_by_its_first_error() -> None:
    shown = fingerprint(group_of(KeyError("a"), ValueError(1)))
    assert shown == "KeyError: <text> (<n> of <n> in ExceptionGroup: two sends failed)"
    assert fingerprint(group_of(KeyError("b"))) == shown
    assert fingerprint(group_of(ValueError("a"))) != shown


def test_a_group_stored_without_its_margin_has_the_same_fingerprint() -> None:
    error = group_of(KeyError("a"))
    assert fingerprint(error.strip()) == fingerprint(error)


@pytest.mark.parametrize("nothing", [None, "", " \n "])
def test_no_error_has_no_fingerprint(nothing: str | None) -> None:
    assert fingerprint(nothing) == ""


@given(st.text(max_size=2 * FINGERPRINT_LENGTH_MAX))
def test_a_fingerprint_is_short_and_stable(error: str) -> None:
    assert len(fingerprint(error)) <= FINGERPRINT_LENGTH_MAX
    assert fingerprint(error) == fingerprint(error)


@pytest.mark.parametrize(
    "pattern",
    [
        *(" 'a", "'\\", "a'", "0", "0a", "1.1", "1,", "0x", "z1_", f"{UUID(int=7)}-"),
        *("\n", "  +-+- 1 -\n", " (1", "Traceback (most recent call last):\n"),
    ],
)
def test_no_error_takes_long_to_fingerprint(pattern: str) -> None:
    error = (pattern * ERROR_LENGTH_MAX)[:ERROR_LENGTH_MAX]
    started = time.process_time()
    for _ in range(10):
        fingerprint(error)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("550 5.1.1 no such user 4711", "550 5.1.1 no such user <n>"),
        ("the server answered 552 5.2.2 <a@b.c>", "the server answered 552 5.2.2 <a@b.c>"),
        ("550-5.7.26 not authenticated", "550-5.7.26 not authenticated"),
        ("550 10.1.1.5 is blocked", "550 <n> is blocked"),
        ("550 5.1.1.9 is blocked", "550 <n> is blocked"),
        (
            "SMTPServerDisconnected: 421 try again in 30 s",
            "SMTPServerDisconnected: 421 try again in <n> s",
        ),
        ("SMTPDataError: (554, b'no')", "SMTPDataError: (554, b'no')"),
        ("the receiver answered 503", "the receiver answered 503"),
        ("HTTP status 404 for order 123", "HTTP status 404 for order <n>"),
        ("order 404 is gone", "order <n> is gone"),
        ("300 s passed", "<n> s passed"),
        ("code 4040", "code <n>"),
        ("at 10:550", "at <n>"),
    ],
)
def test_a_status_code_stays_and_other_numbers_do_not(error: str, expected: str) -> None:
    assert fingerprint(error) == expected
