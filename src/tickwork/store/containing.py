"""A caller's own code in the middle of our work: what it raises is its own error, and no more.

`sys.exit()`, or a cancellation that nobody asked of us, would go past all who can tell whose it is,
and end a task or a program that belongs to others.
"""

from __future__ import annotations

from collections.abc import Callable


def contained(error: BaseException) -> RuntimeError:
    """An error like any other in place of one that is no `Exception`."""
    return RuntimeError(f"what joins a settlement raised {type(error).__name__}")


class Contained:
    """A block of a caller's own code: it raises nothing but an `Exception`, save what `passes`
    knows to be meant for us."""

    def __init__(self, passes: Callable[[BaseException], bool] | None = None) -> None:
        self._passes = passes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if self._passes is None or not self._passes(error):
            raise contained(error) from error
