"""Error summaries: the line that says what happened."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickwork.core.limits import ERROR_LENGTH_MAX
from tickwork.core.message.decide import clean_error
from tickwork.core.message.error_summary import (
    GROUPS_MAX,
    OMITTED_MARK,
    SUMMARY_LENGTH_MAX,
    summary,
    summary_line,
)

OMITTED = "\n[SQL: SELECT 1]\n(Background on this error at: https://example.org/e3q8)"


class User(pydantic.BaseModel):
    """A model that is validated without its field."""

    age: int


def written(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def raised(error: Exception, cause: BaseException | None = None) -> Exception:
    """An error with a traceback, and perhaps a cause."""
    try:
        raise error from cause
    except Exception as caught:
        return caught


def in_a_task_group(*errors: Exception) -> BaseException:
    async def fail(error: Exception) -> None:
        raise error

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            for error in errors:
                tasks.create_task(fail(error))

    try:
        asyncio.run(run())
    except ExceptionGroup as group:
        return group
    raise AssertionError("nothing was raised")


def invalid() -> BaseException:
    with pytest.raises(pydantic.ValidationError) as caught:
        User.model_validate({"age": "old"})
    return caught.value


def while_handling() -> BaseException:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise LookupError("second" + OMITTED)  # noqa: B904
    except LookupError as error:
        return error


def misread() -> BaseException:
    with pytest.raises(SyntaxError) as caught:
        compile("a b", "<text>", "exec")
    return caught.value


def repeated() -> BaseException:
    def again() -> None:
        again()

    with pytest.raises(RecursionError) as caught:
        again()
    return caught.value


IN_TASK_GROUP = "ExceptionGroup: unhandled errors in a TaskGroup"


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda: raised(ValueError("no luck")), "ValueError: no luck"),
        (lambda: ValueError("never raised"), "ValueError: never raised"),
        (lambda: raised(StopIteration()), "StopIteration"),
        (lambda: raised(RuntimeError("locked" + OMITTED)), "RuntimeError: locked"),
        (lambda: raised(RuntimeError("\n\n  below\nit")), "RuntimeError: below"),
        (lambda: raised(KeyError("z"), ValueError("a")), "KeyError: 'z'"),
        (while_handling, "LookupError: second"),
        (misread, "SyntaxError: invalid syntax"),
        (repeated, "RecursionError: maximum recursion depth exceeded"),
        (invalid, "pydantic_core._pydantic_core.ValidationError: 1 validation error for User"),
        (
            lambda: raised(RuntimeError(f"a child failed:\n{written(raised(KeyError(1)))}")),
            "RuntimeError: a child failed:",
        ),
    ],
)
def test_an_exception_is_summarized_by_its_type_and_first_line(
    made: Callable[[], BaseException], line: str
) -> None:
    assert summary(written(made())) == line


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (lambda: in_a_task_group(KeyError("x")), f"KeyError: 'x' (1 of 1 in {IN_TASK_GROUP})"),
        (
            lambda: in_a_task_group(ValueError("a" + OMITTED), KeyError("x")),
            f"ValueError: a (1 of 2 in {IN_TASK_GROUP})",
        ),
        (
            lambda: in_a_task_group(ExceptionGroup("inner", [KeyError(1), OSError()])),
            f"KeyError: 1 (1 of 1 in {IN_TASK_GROUP})",
        ),
        (
            lambda: ExceptionGroup("not raised\nat all", [ExceptionGroup("in", [KeyError(1)])]),
            "KeyError: 1 (in ExceptionGroup: not raised)",
        ),
        (
            lambda: raised(ExceptionGroup("g", [OSError("o")]), cause=ValueError("a")),
            "OSError: o (1 of 1 in ExceptionGroup: g)",
        ),
        (
            lambda: raised(ValueError("a"), cause=in_a_task_group(KeyError("x"))),
            "ValueError: a",
        ),
        (
            lambda: ExceptionGroup(
                "g", [raised(ValueError("a"), cause=in_a_task_group(OSError()))]
            ),
            "ValueError: a (1 of 1 in ExceptionGroup: g)",
        ),
    ],
)
@pytest.mark.parametrize("stored", [str, str.rstrip, str.strip])
def test_a_group_is_summarized_by_its_first_error(
    made: Callable[[], BaseException], line: str, stored: Callable[[str], str]
) -> None:
    assert summary(stored(written(made()))) == line


def test_groups_that_are_nested_too_deep_have_a_summary() -> None:
    error: Exception = ValueError("deep")
    for number in range(GROUPS_MAX + 5):
        error = ExceptionGroup(f"g{number}", [error])
    told = summary(written(raised(error)))
    assert told is not None
    assert told.endswith(f"(1 of 1 in ExceptionGroup: g{GROUPS_MAX + 4})")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, None),
        ("", None),
        (" \n ", None),
        ("boom", "boom"),
        ("  boom \n", "boom"),
        ("404 Not Found\nFor more see https://example.org", "404 Not Found"),
        (
            "it failed\nTraceback (most recent call last):\n  File …\nKeyError: 1\nhelp",
            "KeyError: 1",
        ),
        ("Traceback (most recent call last):\n  File …", "File …"),
        ("+ Exception Group Traceback (most recent call last):\n  |   File …", "File …"),
        ("  | ExceptionGroup: of none\n  +-+-- 1 --", "ExceptionGroup: of none"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        ("a" * 9_000, "a" * SUMMARY_LENGTH_MAX),
    ],
)
def test_a_text_is_summarized_by_its_first_line(text: str | None, line: str | None) -> None:
    assert summary(text) == line


@pytest.mark.parametrize(
    "error",
    [
        raised(LookupError("last\n" + "y" * ERROR_LENGTH_MAX), cause=ValueError("first")),
        raised(LookupError("last"), cause=ValueError("x" * ERROR_LENGTH_MAX)),
        raised(LookupError("last"), cause=ValueError("x\n" * ERROR_LENGTH_MAX)),
    ],
    ids=["a long message", "a long cause", "a cause of many lines"],
)
def test_an_error_with_its_middle_omitted_has_the_same_summary(error: BaseException) -> None:
    text = clean_error(written(error))
    assert OMITTED_MARK in text
    assert summary(text) == "LookupError: last"


def test_the_last_exception_is_summarized_if_its_heading_is_omitted() -> None:
    frames = '  File "a.py", line 1, in a\n    a()\n' * 1_000
    text = f"Traceback (most recent call last):\n{frames}"
    whole = f"{text}ValueError: first\n\n{text}KeyError: 'last'\nhelp\n"
    assert summary(clean_error(whole)) == "KeyError: 'last'"


@given(st.text(st.sampled_from("\n +-|1a:T")) | st.text())
def test_a_summary_is_one_line_of_bounded_length(text: str) -> None:
    told = summary(text) or ""
    assert len(told.splitlines()) <= 1
    assert len(told) <= SUMMARY_LENGTH_MAX
    assert bool(told) == bool(text.strip())
    assert summary_line(text).startswith(told)
