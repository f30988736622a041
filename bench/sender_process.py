"""A sender in a process of its own.

```
python -m bench.sender_process URL --rate 5000 --messages 300000
```

It keeps its pace by the clock, whatever a send takes: what is late is sent at once, so that a store
that falls behind cannot slow down what is asked of it. The body of each message is the moment at
which it was due, by the machine's monotonic clock.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench import QUEUE
from tickwork import Tickwork

SENT_AT_ONCE = 50


async def send(url: str, rate: float, count: int) -> None:
    queue = Tickwork(url).queue(QUEUE)
    sending: set[asyncio.Task[object]] = set()
    # The first ones open the database; the pace begins when it is.
    await queue.send_batch([time.monotonic()] * SENT_AT_ONCE)
    began = time.monotonic()
    for start in range(0, count - SENT_AT_ONCE, SENT_AT_ONCE):
        due = began + start / rate
        await asyncio.sleep(max(due - time.monotonic(), 0.0))
        task: asyncio.Task[object] = asyncio.create_task(queue.send_batch([due] * SENT_AT_ONCE))
        sending.add(task)
        task.add_done_callback(sending.discard)
    await asyncio.gather(*sending)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sender_process")
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--messages", type=int, required=True)
    asked = parser.parse_args()
    asyncio.run(send(asked.url, asked.rate, asked.messages))


if __name__ == "__main__":
    main()
