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

    calls = 0


@contextmanager
def at_most(calls_max: int) -> Iterator[Meter]:
    """Fails as soon as the block exceeds a number of calls."""
    meter, before, left = Meter(), sys.getprofile(), calls_max

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal left
        if event in ("c_call", "call"):
            left -= 1
            if left < 0:
                raise TooMuchWork(f"more than {calls_max} calls")

    sys.setprofile(count)
    try:
        yield meter
    finally:
        sys.setprofile(before)
        meter.calls = calls_max - left


def calls_of(do: Callable[[], T], calls_max: int = 5_000_000) -> int:
    """Number of calls that a function makes."""
    with at_most(calls_max) as meter:
        do()
    return meter.calls
