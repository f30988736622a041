"""Headers of a webhook: a user cannot set ours, those of the connection, or break the request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.delivery.headers import HEADER_BYTES_MAX, HEADERS_MAX, check_headers
from tickwork.errors import InvalidInput

CONNECTION = (
    "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
    "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Host", "Content-Length", "Expect",
)  # fmt: skip
OWN = (
    "webhook-id", "webhook-timestamp", "webhook-signature", "webhook-anything", "Idempotency-Key",
    "Tickwork-Slot", "Tickwork-Fence", "Tickwork-Complete-Token", "Accept-Encoding",
)  # fmt: skip
TOKEN = st.from_regex(r"X-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", fullmatch=True)


def faults_of(headers: Any) -> dict[str, str]:
    try:
        check_headers(headers)
    except InvalidInput as error:
        return dict(error.errors)
    return {}


@pytest.mark.parametrize("name", [*CONNECTION, *OWN])
def test_a_header_of_the_connection_or_of_ours_is_refused_in_any_case(name: str) -> None:
    for spelled in (name, name.lower(), name.upper(), name.swapcase()):
        assert list(faults_of({spelled: "x"})) == [f"headers.{spelled}"]


@pytest.mark.parametrize(
    "name",
    ["", " ", "X Y", "X:", "X-Ä", "X\r\nEvil", "X\0", "(x)", "x,", "Ｈost", ":path", 7, None],
)
def test_a_name_that_is_no_token_is_refused(name: Any) -> None:
    assert faults_of({name: "x"}) == {f"headers.{name}": "is not a valid name of a header"}


def test_a_long_name_is_refused() -> None:
    assert not faults_of({"x" * 128: "v"})
    assert faults_of({"x" * 129: "v"})


@given(st.text(max_size=5), st.sampled_from("\r\n\0\x01\x0b\x7f"), st.text(max_size=5))
def test_a_value_with_a_line_break_or_a_control_character_is_refused(
    before: str, control: str, after: str
) -> None:
    assert "headers.X-A" in faults_of({"X-A": f"{before}{control}{after}"})


@pytest.mark.parametrize("value", ["a\n", "\n", "\r\n b", None, 5, b"bytes", ["a"], "日本"])
def test_a_value_that_cannot_be_sent_is_refused(value: Any) -> None:
    assert list(faults_of({"X-A": value})) == ["headers.X-A"]


def test_one_name_in_two_spellings_is_refused() -> None:
    assert faults_of({"X-Key": "a", "x-key": "b"}) == {"headers.x-key": "is given twice"}


def test_more_headers_than_the_limit_are_refused() -> None:
    many = {f"X-{number}": "v" for number in range(HEADERS_MAX)}
    assert not faults_of(many)
    assert faults_of({**many, "X-More": "v"}) == {"headers": "must be at most 32 headers, not 33"}


def test_headers_are_limited_in_bytes_not_in_characters() -> None:
    assert not faults_of({"X-A": "v" * (HEADER_BYTES_MAX - 3)})
    for value in ("v" * (HEADER_BYTES_MAX - 2), "é" * (HEADER_BYTES_MAX // 2)):
        assert faults_of({"X-A": value}) == {"headers": "must be at most 8192 bytes in all"}


def test_every_fault_is_named_at_once() -> None:
    faults = faults_of({"Host": "x", "X Y": "x", "X-A": "a\nb", "X-Fine": "x"})
    assert list(faults) == ["headers.Host", "headers.X Y", "headers.X-A"]


LATIN = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40)


@given(st.dictionaries(TOKEN, LATIN, max_size=HEADERS_MAX))
def test_headers_of_any_names_and_texts_are_accepted(headers: dict[str, str]) -> None:
    if len({header.lower() for header in headers}) == len(headers):
        assert not faults_of(headers)
