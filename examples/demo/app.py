"""The demo of `make run`: a schedule that fires every minute, and a queue with a handler.

```
$ tickwork queues send greetings '{"name": "Ada"}'
$ tickwork schedules list
$ tickwork why tick
```
"""

from __future__ import annotations

from typing import Any

from tickwork import Firing, Message, Tickwork

app = Tickwork(name="demo")
greetings = app.queue("greetings", max_retries=3)


@app.schedule(cron_expr="* * * * *", name="tick")
async def tick(firing: Firing[Any]) -> None:
    """Print the minute and send a greeting; the message commits with this firing."""
    print(f"tick: {firing.slot:%H:%M}, attempt {firing.attempt}", flush=True)
    firing.send("greetings", {"name": f"minute {firing.slot:%H:%M}"})


@app.on("greetings")
async def greet(message: Message[dict[str, str]]) -> None:
    """Print a greeting."""
    print(f"hello, {message.body.get('name', 'stranger')}!", flush=True)
