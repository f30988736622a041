"""Fields that users give: typed values, and one error for each field that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tickwork.app.isolation import handler_options
from tickwork.core.fields import Reader, reader_of, shown, type_faults, unknown_faults
from tickwork.core.message.backoff import Exponential, Fixed, Listed, read_backoff
from tickwork.core.model import QueueSettings
from tickwork.core.options import HandlerOptions, names_of
from tickwork.core.options.queue import QueueOptions
from tickwork.core.options.run import RunOptions
from tickwork.core.queue.fields import SETTINGS
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops.send import compose
from tickwork.settings import Settings


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


def reader_for(value: object, **how: Any) -> Reader:
    return Reader({"field": value}, [], **how)


def test_an_unknown_field_is_answered_with_the_nearest_one() -> None:
    known = {"max_retries", "timeout_seconds"}
    assert unknown_faults(["max_retrys", "max_retries"], known) == [
        FieldError("max_retrys", "is not a known field; did you mean 'max_retries'?")
    ]


def test_an_unknown_field_that_is_like_none_is_answered_with_all_of_them() -> None:
    assert unknown_faults(["colour"], {"b", "a"}) == [
        FieldError("colour", "is not a known field; use a, b")
    ]


def test_a_hint_replaces_the_nearest_field() -> None:
    reader = Reader({"rate_limit": 1}, [])
    reader.refuse_unknown({"rate_per_second"}, {"rate_limit": "use rate_per_second"})
    assert reader.faults == [FieldError("rate_limit", "is not a known field; use rate_per_second")]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (bool, 1, "true or false, not 1"),
        (int, True, "a whole number, not True"),
        (int, 1.0, "a whole number, not 1.0"),
        (int, 10**400, "a whole number, not "),
        (float, "5", "a number, not '5'"),
        (float, False, "a number, not False"),
        (float, None, "a number, not None"),
        (str, b"x", "a text, not b'x'"),
        (str | None, 5, "a text, not 5"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_same_words_everywhere(
    kind: Any, value: object, words: str
) -> None:
    reader = reader_for(value)
    assert reader.read({"field": reader_of(kind)}) == {}
    assert [fault.field for fault in reader.faults] == ["field"]
    assert reader.faults[0].message.startswith(f"must be {words}")
    assert type_faults("field", value, kind) == reader.faults


@pytest.mark.parametrize(
    ("kind", "value"),
    [(bool, False), (int, -3), (float, 3), (float, 2.5), (str, ""), (str | None, None)],
)
def test_a_value_of_its_type_is_read(kind: Any, value: object) -> None:
    reader = reader_for(value)
    assert reader.read({"field": reader_of(kind)}) == {"field": value}
    assert (reader.faults, type_faults("field", value, kind)) == ([], [])


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_a_number_is_finite(value: float) -> None:
    reader = reader_for(value)
    assert reader.number("field") is None
    assert "must be a finite number" in reader.faults[0].message
    assert reader.number_between("field", 0, 10, "a number") is None


@pytest.mark.parametrize(
    ("value", "number"), [("7", 7), ("-7", -7), ("1.5", 1.5), ("٣", None), ("soon", None)]
)
def test_a_number_may_be_text_only_where_the_reader_parses_text(
    value: str, number: float | None
) -> None:
    assert reader_for(value, parses_text=True).number("field") == number
    assert reader_for(value).number("field") is None


def test_a_choice_that_is_misspelled_is_answered_with_the_nearest_one() -> None:
    reader = reader_for("gren")
    assert reader.choice("field", Colour.RED) is Colour.RED
    words = "must be one of red, green, not 'gren'; did you mean 'green'?"
    assert reader.faults == [FieldError("field", words)]


def test_several_choices_are_a_list_or_a_text_with_commas() -> None:
    assert reader_for("red, green").some_of("field", Colour) == {Colour.RED, Colour.GREEN}
    assert reader_for(["red"]).some_of("field", Colour) == {Colour.RED}
    for wrong in ([], "", ["blue"], [1], 5, None):
        reader = reader_for(wrong)
        assert not reader.some_of("field", Colour)
        assert len(reader.faults) == 1


@pytest.mark.parametrize("twice", ["red,red", ["red", "red"], ["green", " green"]])
def test_a_choice_is_given_once(twice: object) -> None:
    reader = reader_for(twice)
    assert not reader.some_of("field", Colour)
    assert "twice; give it once" in reader.faults[0].message


@pytest.mark.parametrize(
    ("read", "count", "words"),
    [
        (lambda reader: reader.some_of("field", Colour), 3, "must be one or more of red,green"),
        (lambda reader: reader.integers("field", 0, 6, "a day"), 1_001, "has 1001 numbers"),
        (lambda reader: reader.numbers("field"), 1_001, "has 1001 numbers; at most 1000"),
        (lambda reader: reader.strings("field"), 1_001, "has 1001 texts; at most 1000"),
        (lambda reader: reader.dates("field", 5), 6, "has 6 dates; at most 5"),
    ],
)
def test_a_list_that_is_too_long_is_refused_before_its_items_are_read(
    read: Callable[[Reader], object], count: int, words: str
) -> None:
    class Items(list[object]):
        def __iter__(self) -> Iterator[object]:
            pytest.fail("an item is read")

    reader = reader_for(Items([Colour.RED] * count))
    assert not read(reader)
    assert [words in fault.message for fault in reader.faults] == [True]


def test_errors_of_a_nested_object_have_its_name_before_theirs() -> None:
    reader = Reader({"outer": {"inner": "x", "inxer": 1}}, [], "top.")
    nested = reader.object("outer", {"inner"})
    assert nested is not None
    assert nested.integer("inner", 1, 5) is None
    assert [fault.field for fault in reader.faults] == ["top.outer.inxer", "top.outer.inner"]


def test_a_field_may_have_another_name_in_errors() -> None:
    reader = reader_for("x", names={"field": "--field"})
    reader.integer("field", 0, 9)
    assert reader.faults[0].field == "--field"


def test_the_settings_of_a_queue_are_those_of_its_struct() -> None:
    assert {*SETTINGS} == {*QueueSettings.__struct_fields__} == names_of(QueueOptions)
    usual = QueueSettings()
    reader = Reader(structs.asdict(usual), [])
    assert QueueSettings(**reader.read(SETTINGS)) == usual
    assert reader.faults == []


@pytest.mark.parametrize(
    ("value", "backoff"),
    [
        (Fixed(5), Fixed(5)),
        (Listed((1, 2)), Listed((1, 2))),
        ({"kind": "fixed", "seconds": 5}, Fixed(5)),
        ({"kind": "list", "seconds": [1, 2]}, Listed((1, 2))),
        ({"kind": "exponential", "factor": 3}, Exponential(factor=3)),
    ],
)
def test_a_backoff_is_a_value_or_an_object(value: object, backoff: object) -> None:
    assert read_backoff(reader_for(value), "field") == backoff


@pytest.mark.parametrize(
    ("value", "field", "words"),
    [
        (60, "field", "must be a backoff, such as Fixed(60)"),
        ({"seconds": 5}, "field.kind", "is missing; give one of exponential, list, fixed"),
        ({"kind": "fixd"}, "field.kind", "did you mean 'fixed'?"),
        ({"kind": "fixed", "second": 5}, "field.second", "did you mean 'seconds'?"),
        ({"kind": "fixed", "seconds": nan}, "field.seconds", "must be a finite number"),
        ({"kind": "list", "seconds": 5}, "field.seconds", "must be a list of numbers"),
        ({"kind": "list", "seconds": [1, "x"]}, "field.seconds[1]", "must be a number"),
    ],
)
def test_each_error_of_a_backoff_names_its_field(value: object, field: str, words: str) -> None:
    reader = reader_for(value)
    read_backoff(reader, "field")
    assert [fault.field for fault in reader.faults] == [field]
    assert words in reader.faults[0].message


def test_an_unknown_option_of_a_message_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(
        InvalidInput, match="priorty: is not a known field; did you mean 'priority'"
    ):
        compose({}, priorty=3)


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text(), st.lists))
def test_any_value_is_read_or_refused(value: object) -> None:
    for read in (*SETTINGS.values(), Reader.text, Reader.moment, Reader.numbers):
        reader = reader_for(value)
        assert reader.read({"field": read}) or reader.faults
        assert len(shown(value)) < 10_000


def test_the_typed_options_name_what_is_accepted() -> None:
    assert names_of(HandlerOptions) == handler_options({}, is_coroutine=True).keys()
    assert names_of(RunOptions) <= {*Settings.__struct_fields__}
