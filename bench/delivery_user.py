"""An app as a user writes it, whose deliveries `bench.delivery_bench` measures at their receivers.

```
python -m bench.delivery_user fill URL --way push --port 9000 --receivers 1 --messages 1000
python -m bench.delivery_user run URL
```

`fill` makes endpoints and what they get, through the public API; `run` delivers until it is
stopped, and then prints the bytes of memory that it had at most. Ways: `push` (a queue that pushes
to an endpoint, or one for each), `events` (events that endpoints receive) and `schedules`
(schedules that fire once, with a URL).
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.delivery_server import raise_file_limit
from bench.memory import rss_bytes_max
from tickwork import Tickwork

PAYLOAD = {"to": "a@example.com", "template": "welcome", "n": 1}
TOGETHER = 100
SENT_TOGETHER = 10_000
LEAD_SECONDS = 1.0


def host_of(number: int) -> str:
    """Loopback addresses stand for hosts."""
    return f"127.0.{number // 250}.{number % 250 + 1}"


async def fill(asked: argparse.Namespace) -> None:
    """Makes receivers and so many messages, which go to the receivers in turn."""
    app = Tickwork(asked.url)
    urls = [f"http://{host_of(number)}:{asked.port}/" for number in range(asked.receivers)]
    limit = {} if asked.concurrency is None else {"concurrency": asked.concurrency}
    if asked.way != "schedules":
        for number, url in enumerate(urls):
            types = [f"order.n{number}"] if asked.way == "events" else []
            await app.endpoints.create(f"receiver-{number}", url=url, types=types, **limit)
    if asked.way == "push":
        queues = [
            app.queue(f"work-{number}", push_to=f"receiver-{number}")
            for number in range(asked.receivers)
        ]
        for queue in queues:
            count = asked.messages // asked.receivers
            for start in range(0, count, SENT_TOGETHER):
                await queue.send_batch([PAYLOAD] * min(SENT_TOGETHER, count - start))
    elif asked.way == "events":
        for start in range(0, asked.messages, TOGETHER):
            numbers = range(start, min(start + TOGETHER, asked.messages))
            await asyncio.gather(
                *(
                    app.events.publish(f"order.n{number % asked.receivers}", PAYLOAD)
                    for number in numbers
                )
            )
    else:
        at = datetime.now(UTC) + timedelta(seconds=LEAD_SECONDS)

        bodies: Iterator[Any] = (
            {
                "once_at": at.isoformat(),
                "target_url": urls[number % asked.receivers],
                "payload": PAYLOAD,
            }
            for number in range(asked.messages)
        )
        await app.schedules.create_bulk(bodies)
        await asyncio.sleep(LEAD_SECONDS)
    await app.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.delivery_user")
    parser.add_argument("work", choices=("fill", "run"))
    parser.add_argument("url")
    parser.add_argument("--way", choices=("push", "events", "schedules"))
    parser.add_argument("--port", type=int)
    parser.add_argument("--receivers", type=int, default=1)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--concurrency", type=int)
    asked = parser.parse_args()
    raise_file_limit()
    if asked.work == "fill":
        asyncio.run(fill(asked))
    else:
        Tickwork(asked.url).run()
        print(rss_bytes_max(), flush=True)


if __name__ == "__main__":
    main()
