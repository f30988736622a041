"""The settings of a process that `app.run()` serves, for tests and benchmarks that measure it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tickwork.service.process_lifecycle import tune_process


@contextmanager
def tuned() -> Iterator[None]:
    """Tunes this process as a worker's, and restores it."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    tune_process()
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
