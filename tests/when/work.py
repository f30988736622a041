"""Work, counted in calls and not in seconds: the same on every machine and on every day."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TooMuchWork(AssertionError):
    """Raised from within the work itself, so that what never ends fails at once."""


class Meter:
    """How many functions, ours and C's, were called."""

    def __init__(self, calls_max: int) -> None:
        self.calls, self._calls_max = 0, calls_max

    def __call__(self, _frame: FrameType, event: str, _arg: object) -> None:
        if event in ("call", "c_call"):
            self.calls += 1
            if self.calls > self._calls_max:
                raise TooMuchWork(f"more than {self._calls_max} calls")


@contextmanager
def at_most(calls_max: int) -> Iterator[Meter]:
    """Fails as soon as the block has made that many calls."""
    meter, before = Meter(calls_max), sys.getprofile()
    sys.setprofile(meter)
    try:
        yield meter
    finally:
        sys.setprofile(before)


def calls_of(do: Callable[[], T], calls_max: int = 5_000_000) -> int:
    """How many calls something takes."""
    with at_most(calls_max) as meter:
        do()
    return meter.calls
