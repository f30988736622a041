"""A node in a process of its own, as `tickwork run` has it, until a signal stops it.

```
python -m bench.scheduler_process URL --roles scheduler,worker
```

It says `started` when it leads or claims, and at its end, as one JSON line, what memory it had at
most and how long it computed. Its handler does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

from bench import QUEUE
from bench.memory import rss_bytes_max
from tickwork import Tickwork

STARTED = "started"


async def handle(_message: object) -> None:
    """A no-op."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scheduler_process")
    parser.add_argument("url")
    parser.add_argument("--roles", required=True)
    asked = parser.parse_args()
    os.environ["TICKWORK_ROLES"] = asked.roles
    app = Tickwork(asked.url)
    app.queue(QUEUE)
    app.on(QUEUE)(handle)
    began = time.process_time()
    app.run(on_started=lambda: print(STARTED, flush=True))
    used = resource.getrusage(resource.RUSAGE_SELF)
    said = {
        "rss_bytes_max": rss_bytes_max(),
        "cpu_seconds": used.ru_utime + used.ru_stime - began,
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
