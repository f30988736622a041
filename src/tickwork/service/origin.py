"""This very process, and no copy that a handler forked."""

from __future__ import annotations

import os
import traceback
from types import TracebackType

_FAILED = 1


class Origin:
    """What is entered is left by the process that made this, and by no other.

    A copy has the same stack and the same socket. One that comes back up (its program could not
    be started, or it just returned) would answer for us, and so it ends here: with the code that
    it would have ended with elsewhere, and nothing flushed or closed that is ours.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() == self._pid:
            return
        code = _code(error)
        if code is None:
            traceback.print_exception(error)  # Nobody else will tell.
        os._exit(_FAILED if code is None else code)


def _code(error: BaseException | None) -> int | None:
    """What it ends with; None for what nobody chose."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        return None
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else None
