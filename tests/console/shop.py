"""The app on the pictures of the console in the docs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tickwork import Entity, Firing, Message, Permanent, Tickwork, exposed

app = Tickwork(name="shop")
app.queue("orders", max_retries=2)
app.queue("emails", max_retries=0)
app.queue("invoices")


@app.schedule(cron_expr="* * * * *", name="stock-check")
async def check_stock(firing: Firing[Any]) -> None:
    """Orders something."""
    firing.send("orders", {"order": 9_007_199_254_740_993}, type="order.placed")


@app.schedule(
    daily_time={"hour": 2, "minute": 30}, timezone="America/New_York", name="nightly-report"
)
async def report(_: Firing[Any]) -> None:
    """Does nothing on a picture."""


@app.schedule(cron_expr="0 9 * * MON-FRI", timezone="Europe/Berlin", name="morning-mail")
async def mail(_: Firing[Any]) -> None:
    """Does nothing on a picture."""


@app.on("orders")
async def place(message: Message[Any]) -> None:
    """Takes an order and thanks for it."""
    if message.correlation_id is not None:
        body = {"to": "ada@example.com", "order": message.body["order"]}
        message.send("emails", body, type="thanks")


@app.on("emails")
async def send(message: Message[Any]) -> None:
    """Cannot send to some addresses."""
    address = str(message.body["to"])
    if address.endswith(".invalid"):
        raise Permanent(f"550 no such mailbox: {address}")


@app.entities.register
class Cart(Entity):
    """What a customer wants to buy; it is forgotten after a day."""

    @exposed
    async def add(self, item: str, number: int) -> dict[str, int]:
        """Puts something into the cart."""
        items: dict[str, int] = {**await self.storage.get("items", {}), item: number}
        await self.storage.put("items", items)
        await self.set_alarm(self.now + timedelta(days=1))
        return items

    async def alarm(self, _: Any) -> None:
        """Forgets the cart."""
        await self.storage.delete("items")


@app.workflow()
async def fulfil(step: Any, params: Any) -> str:
    """Packs, waits for the carrier, and ships."""
    await step.do("reserve", _done)
    await step.do("pack", _done)
    await step.sleep("ink dries", 0.2)
    if params["order"] % 2:
        await step.wait_for_event("picked up", type="carrier.picked_up", timeout_seconds=86_400)
    await step.do("ship", _done)
    return "shipped"


async def _done() -> str:
    return "done"
