"""A handler that ignores the first limit of CPU time. The second one follows soon."""

from __future__ import annotations

import signal
import sys
from typing import Any

from tests.service.programs.handlers import burn

setattr(sys.modules["__main__"], "CPU_EXTRA_SECONDS", 0)  # noqa: B010  of a handler process


def ignore_and_burn(_: Any) -> None:
    """Takes the signal of the first limit for itself."""
    signal.signal(signal.SIGPROF, signal.SIG_IGN)
    burn()
