"""Log records of the standard library with extra fields, as a process of ours formats them."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tickwork.service.observe.log_events import LogEvent
from tickwork.service.observe.log_format import build_formatter, is_worth_logging

FORMATS = ("json", "console")


class Shy:
    """It does not say what it is."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Loud:
    """It would steer a terminal."""

    def __repr__(self) -> str:
        return "\x1b[2J"


class Sealed(dict[str, int]):
    """It lets nobody look inside."""

    def items(self) -> Any:
        raise RuntimeError("no")

    __repr__ = items


def a_circle() -> list[Any]:
    circle: list[Any] = [1]
    circle.append(circle)
    return circle


def line(
    log_format: str, extra: Mapping[Any, Any], msg: object = "paid", *, failed: bool = False
) -> str:
    error = ValueError("no luck")
    info = (ValueError, error, None) if failed else None
    record = logging.getLogger("shop").makeRecord(
        "shop", logging.INFO, "shop.py", 1, msg, (), info, extra=dict(extra)
    )
    return build_formatter(log_format).format(record)


def fields(extra: Mapping[Any, Any], msg: object = "paid", **options: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(line("json", extra, msg, **options), parse_constant=refuse)
    return told


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_extra_fields_of_a_record_are_in_its_line() -> None:
    told = fields({"order": 17, "paid": True, "by": None, "rates": {"eur": [0.5]}})
    assert told.items() >= {"event": "paid", "order": 17, "paid": True, "by": None}.items()
    assert told["rates"] == {"eur": [0.5]}
    text = line("console", {"order": 17, "rates": {"eur": [0.5]}})
    assert text.endswith("order=17 rates={'eur': [0.5]}")


def test_what_belongs_to_every_record_is_no_field() -> None:
    assert fields({}).keys() == {"event", "logger", "level", "timestamp"}


def test_our_own_fields_stay_what_they_are() -> None:
    taken = {"event": "forged", "level": "debug", "logger": "other", "timestamp": "never"}
    told, plain = fields(taken), fields({})
    assert {name: told[name] for name in ("event", "level", "logger")} == {
        name: plain[name] for name in ("event", "level", "logger")
    }
    assert told["timestamp"] != "never"
    assert {name: told[f"extra_{name}"] for name in taken} == taken


def test_the_fields_of_a_line_of_ours_stay_what_they_are() -> None:
    ours = LogEvent("message dead", queue="emails", attempt=1)
    told = fields({"queue": "other", "attempt": 1}, ours)
    assert (told["queue"], told["extra_queue"], told["attempt"]) == ("emails", "other", 1)
    assert "extra_attempt" not in told  # It is the same.


@pytest.mark.parametrize("log_format", FORMATS)
def test_an_exception_is_told_beside_a_field_of_that_name(log_format: str) -> None:
    text = line(log_format, {"exception": 5, "stack": ["a"]}, failed=True)
    assert "ValueError: no luck" in text
    assert all(name in text for name in ("extra_exception", "extra_stack"))


@pytest.mark.parametrize("log_format", FORMATS)
@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (Shy(), "Shy instance"),
        ([Shy()], "Shy instance"),
        ({("a", 1): 2}, "('a', 1): 2"),
        (a_circle(), "[1, ["),
        (float("nan"), "nan"),
        (b"\xff", r"xff"),
        ("a\nERROR forged", "nERROR forged"),
        (Loud(), "[2J"),
        (10**300, "0" * 300),
        (10**5_000, "<int "),
        ({"huge": [7, 10**5_000]}, "[7, <int "),
        (Sealed(a=1), "Sealed instance"),
    ],
    ids=[
        "shy",
        "shy within",
        "odd keys",
        "a circle",
        "nan",
        "bytes",
        "lines",
        "loud",
        "large",
        "huge",
        "huge within",
        "sealed",
    ],
)
def test_odd_values_do_not_break_a_line(log_format: str, odd: object, told: str) -> None:
    text = line(log_format, {"odd": odd, "even": 2})
    assert told in text
    assert "even" in text
    assert text.isprintable()


@pytest.mark.parametrize("log_format", FORMATS)
def test_an_odd_name_does_not_break_a_line(log_format: str) -> None:
    assert "<int " in line(log_format, {10**5_000: "x"})


@pytest.mark.parametrize("log_format", FORMATS)
def test_no_depth_is_just_too_deep_for_a_line(log_format: str) -> None:
    """What can be looked through might still be too deep for what writes it."""
    value: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        value = [value]
        assert "even" in line(log_format, {"odd": value, "even": 2})


@pytest.mark.parametrize("log_format", FORMATS)
def test_odd_names_do_not_break_a_line(log_format: str) -> None:
    text = line(log_format, {1: "one", ("a", "b"): "two", "x\ny": "three"})
    assert all(name in text for name in ("one", "two", "three"))
    assert text.isprintable()


def test_a_connection_that_was_given_up_while_it_was_opened_is_not_logged() -> None:
    dropped = logging.makeLogRecord({"name": "asyncio", "msg": "unexpected connection_lost() call"})
    other = logging.makeLogRecord({"name": "asyncio", "msg": "Task exception was never retrieved"})
    assert [is_worth_logging(record) for record in (dropped, other)] == [False, True]
