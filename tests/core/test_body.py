"""Bodies: a value is decoded to what was encoded, or it is refused."""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.message.body import (
    NESTING_MAX,
    check_json,
    decode_body,
    encode_body,
    encode_json,
    known_content_type,
)
from tickwork.core.model import ContentType
from tickwork.errors import FieldError, InvalidInput

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=20,
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_json_is_decoded_to_what_was_encoded(value: object) -> None:
    assert decode_body(encode_body(value), ContentType.JSON) == value


@given(st.binary())
def test_bytes_are_decoded_to_what_was_encoded(value: bytes) -> None:
    body = encode_body(value, ContentType.BYTES)
    assert decode_body(body, ContentType.BYTES) == value


@given(st.text(st.characters(codec="utf-8")))
def test_text_is_decoded_to_what_was_encoded(value: str) -> None:
    body = encode_body(value, ContentType.TEXT)
    assert decode_body(body, ContentType.TEXT) == value


@pytest.mark.parametrize(
    ("value", "kind", "fragment"),
    [
        (nested(10_000), ContentType.JSON, "nested more than 100 levels deep"),
        (nested(NESTING_MAX + 1), ContentType.JSON, "nested more than 100 levels deep"),
        ("\ud800", ContentType.JSON, "cannot be encoded as JSON"),
        (object(), ContentType.JSON, "cannot be encoded as JSON"),
        (b"x", ContentType.JSON, "content_type='bytes'"),
        (bytearray(b"x"), ContentType.JSON, "content_type='bytes'"),
        (memoryview(b"x"), ContentType.JSON, "content_type='bytes'"),
        ("\ud800", ContentType.TEXT, "lone surrogates"),
        (b"x", ContentType.TEXT, "must be a text"),
        ("x", ContentType.BYTES, "must be bytes"),
    ],
)
def test_a_value_that_could_not_be_decoded_is_refused_by_field(
    value: object, kind: ContentType, fragment: str
) -> None:
    with pytest.raises(InvalidInput, match=fragment) as refused:
        encode_body(value, kind)
    assert [error.field for error in refused.value.errors] == ["body"]


def test_brackets_in_a_text_do_not_count_as_depth() -> None:
    value = "[{" * 1_000 + '"\\'
    assert decode_body(encode_body(value), ContentType.JSON) == value


def test_the_deepest_allowed_body_is_stored() -> None:
    value = nested(NESTING_MAX)
    assert decode_body(encode_body(value), ContentType.JSON) == value


def test_the_depth_is_that_of_the_deepest_part() -> None:
    others: list[object] = [{"]": '"['}, {"\\": [1, {}]}] * 200
    value = [*others, nested(NESTING_MAX - 1), *others]
    assert decode_body(encode_body(value), ContentType.JSON) == value
    with pytest.raises(InvalidInput, match="nested more than 100 levels deep"):
        encode_body([*others, nested(NESTING_MAX), *others])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'"\xff"', b"[" * 10_000, b"[" * 10_000 + b"]" * 10_000]
)
def test_bytes_that_are_not_json_are_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="body: is"):
        check_json(body)


class Point(msgspec.Struct):
    """A struct with any value."""

    x: Any
    y: Any = None


@dataclass
class Place:
    """The same as a dataclass."""

    x: Any
    y: Any = None


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("holding", "path"),
    [
        (lambda number: number, "body"),
        (lambda number: {"x": [None, {"y": number}]}, "body.x[1].y"),
        (lambda number: (1.5, number), "body[1]"),
        (lambda number: {number}, "body[0]"),
        (lambda number: OrderedDict(x=[number]), "body.x[0]"),
        (lambda number: {"a b": {7: number}}, "body['a b'][7]"),
        (Point, "body.x"),
        (Place, "body.x"),
        (lambda number: [Point(Place({"x": number}))], "body[0].x.x.x"),
    ],
)
def test_nan_and_infinity_are_refused_in_json_with_their_path(
    number: float, holding: Any, path: str
) -> None:
    """They would be decoded as null without an error."""
    with pytest.raises(InvalidInput) as refused:
        encode_body(holding(number))
    fault = f"has {number!r} at {path}, which JSON cannot represent; use None or a text instead"
    assert refused.value.errors == (FieldError("body", fault),)


def test_the_path_of_a_nan_begins_with_the_field_or_with_a_dollar() -> None:
    for field, root, path in (("", None, "$.x"), ("data", None, "data.x"), ("args", "", "x")):
        with pytest.raises(InvalidInput, match=f" at {re.escape(path)}, which JSON"):
            encode_json({"x": math.nan}, field, root=root)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "NaN or null",
        {"x": None, "y": [1.5, -0.0, 1e300, True, 2**60, "null"]},
        Point(None, [b"bytes", Place({"x": msgspec.Raw(b"[null]")})]),
        [OrderedDict(x=None), {1.5}, None],
    ],
)
def test_none_is_stored_as_null_and_other_values_as_their_json(value: object) -> None:
    assert encode_body(value) == msgspec.json.encode(value)


def test_a_content_type_may_be_given_by_name() -> None:
    assert known_content_type("text") is known_content_type(ContentType.TEXT) is ContentType.TEXT
    unknown: Any
    for unknown in ("xml", "JSON", "", None, 5, []):
        with pytest.raises(InvalidInput, match="must be one of json, text, bytes, not") as refused:
            encode_body({}, unknown)
        assert [error.field for error in refused.value.errors] == ["content_type"]


@pytest.mark.parametrize(
    "body",
    [{1: "a", "1": "b"}, {"a": [{1: "a", "1": "b"}]}, {1: {2: 0, "2": 0}}, ({1.5: 0, "1.5": 0},)],
)
def test_a_body_with_keys_that_are_one_in_json_is_refused(body: object) -> None:
    with pytest.raises(InvalidInput, match="keys that are the same in JSON"):
        encode_body(body)


def test_other_keys_arrive_as_their_texts() -> None:
    encoded = encode_body({1: "a", 2.5: {3: "b"}, "4": "c"})
    assert decode_body(encoded, ContentType.JSON) == {"1": "a", "2.5": {"3": "b"}, "4": "c"}
