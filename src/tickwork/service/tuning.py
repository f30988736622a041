"""What a process that does nothing but run an app sets for itself.

Both are settings of the whole process, which belongs to whoever started it: `app.run()` and
`tickwork run` make them, `app.running()` in somebody's own process does not.
"""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.0002
"""So long a thread that runs Python keeps others waiting that could; of itself, Python lets them
wait for 5 ms. The thread that writes to SQLite needs Python only to begin its next statement, and
while it waits for that, nothing is written. Threads that do nothing but compute pay 3 % for it."""

COLLECT_EVERY = 10_000
"""So many containers more than before, and Python looks for rings among the young ones; of itself,
every 700. What was claimed lives for as long as its handlers take, and would be looked at again and
again, in vain."""


def tune_process() -> None:
    """Makes the settings, but where somebody has gone further."""
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
    young, *older = gc.get_threshold()
    if young:  # With 0 there is no looking at all.
        gc.set_threshold(max(young, COLLECT_EVERY), *older)
