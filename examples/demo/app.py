"""What `make run` runs: a schedule that ticks every minute, and a queue with a handler.

```
$ tickwork queues send greetings '{"name": "Ada"}'
$ tickwork schedules list
$ tickwork why tick
```
"""

from __future__ import annotations

from typing import Any

from tickwork import Firing, Message, Tickwork

app = Tickwork()
greetings = app.queue("greetings", max_retries=3)


@app.schedule(cron_expr="* * * * *", name="tick")
async def tick(firing: Firing[Any]) -> None:
    """Greets the minute; the message goes out if this firing is done, and only then."""
    print(f"tick: the minute {firing.slot:%H:%M} of attempt {firing.attempt}", flush=True)
    firing.send("greetings", {"name": f"minute {firing.slot:%H:%M}"})


@app.on("greetings")
async def greet(message: Message[dict[str, str]]) -> None:
    """Says hello."""
    print(f"hello, {message.body.get('name', 'whoever you are')}!", flush=True)
