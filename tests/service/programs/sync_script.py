"""A script without an event loop that sends, also from a forked child: `sync_script.py URL`."""

from __future__ import annotations

import os
import sys
import threading

from tickwork.facade.app import Tickwork

app = Tickwork(sys.argv[-1])
out = app.sync.queue("out")


def main() -> None:
    """Sends in this process, in a child, and here again."""
    out.send("parent")
    child = os.fork()
    if child == 0:
        out.send("child")
        sys.exit()
    _, status = os.waitpid(child, 0)
    out.send("parent again")
    loops = [thread for thread in threading.enumerate() if thread.name == "tickwork-sync"]
    ready = app.sync.queues.stats("out").counts.ready
    sys.stdout.write(f"{status} {len(loops)} {ready}")


main()
