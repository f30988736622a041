"""The app that works behind the console in tests: handlers that fail when they are told to, and a
workflow that a deploy changes (`SHOP_CODE=new`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tickwork import Entity, Firing, Message, Permanent, Tickwork, exposed

PRINTER_OFF = Path(os.environ.get("SHOP_FOLDER", "."), "printer-off")
IS_NEW_CODE = os.environ.get("SHOP_CODE") == "new"

app = Tickwork(name="shop")
app.queue("orders", max_retries=0)
app.queue("slots", max_retries=0)


@app.on("orders")
async def take(message: Message[Any]) -> None:
    """Takes an order; some cannot be taken."""
    if message.body.get("is_poison"):
        raise Permanent("no such article")


def is_printer_off() -> bool:
    """Whether a test has switched it off."""
    return PRINTER_OFF.exists()


@app.on("slots")
async def print_invoice(_: Message[Any]) -> None:
    """Prints, unless the printer is off."""
    if is_printer_off():
        raise Permanent("the printer is off")


@app.schedule(cron_expr="0 9 1 1 *", name="new-year")
async def greet(_: Firing[Any]) -> None:
    """Does nothing in a test."""


@app.workflow()
async def trip(step: Any, params: Any) -> str:
    """Books, waits, and pays. The new code asks for a visa first."""
    await step.do("book", _done, compensate=_undo)
    if IS_NEW_CODE and params != "as before":
        await step.do("visa", _done)
    await step.wait_for_event("paid", type="paid")
    if params == "fails":
        await step.do("fly", _fail)
    return "home"


async def _done() -> str:
    return "done"


async def _undo(*_: Any) -> str:
    return "undone"


async def _fail() -> None:
    raise Permanent("no seats")


@app.entities.register
class Cart(Entity):
    """What a customer wants to buy."""

    @exposed
    async def add(self, item: str) -> list[str]:
        """Puts something into the cart."""
        items: list[str] = [*await self.storage.get("items", []), item]
        await self.storage.put("items", items)
        return items
