"""Measures work in function calls instead of seconds, to be the same on every machine."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TooMuchWork(AssertionError):
    """Raised inside the measured code, so that an endless loop fails at once."""


class Meter:
    """Number of Python and C functions called."""

    def __init__(self, calls_max: int) -> None:
        self.calls, self._calls_max = 0, calls_max

    def __call__(self, _frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
            if self.calls > self._calls_max:
                raise TooMuchWork(f"more than {self._calls_max} calls")


@contextmanager
def at_most(calls_max: int) -> Iterator[Meter]:
    """Fails as soon as the block exceeds a number of calls."""
    meter, before = Meter(calls_max), sys.getprofile()
    sys.setprofile(meter)
    try:
        yield meter
    finally:
        sys.setprofile(before)


def calls_of(do: Callable[[], T], calls_max: int = 5_000_000) -> int:
    """Number of calls that a function makes."""
    with at_most(calls_max) as meter:
        do()
    return meter.calls
