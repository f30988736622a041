# pyright: strict
"""A shop that uses queues, schedules, batches and workflows, as strict type checkers see it.

`test_typing.py` has mypy and pyright check it: no line is an error, no line needs an ignore, and
`assert_type` says where a type is known that would be `Any` otherwise.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any, TypedDict, assert_type

import msgspec

from tickwork import (
    BatchHandle,
    Firing,
    Message,
    MessageBatch,
    Outgoing,
    Queue,
    Retries,
    Rows,
    RunHandle,
    Step,
    Tickwork,
    Workflow,
)
from tickwork.core.answers.ids import Id


class Order(msgspec.Struct):
    id: str
    cents: int
    items: list[str]


class Parcel(msgspec.Struct):
    order_id: str
    item: str


class Receipt(msgspec.Struct):
    order_id: str
    charge: str
    labels: list[str]


class Period(TypedDict):
    year: int
    month: int | None


app = Tickwork("sqlite:///shop.db")
orders = app.queue("orders", payload=Order, max_retries=3)
parcels = app.queue("parcels", payload=Parcel)
notes = app.queue("notes")


# Steps


async def charge(cents: int, currency: str = "eur") -> str:
    return f"{cents} {currency}"


async def refund(output: str | None, cents: int) -> None:
    """Undoes a charge in the default currency."""


async def refund_in(output: str | None, cents: int, currency: str, reason: str = "") -> None:
    """Undoes a charge in a given currency."""


async def label(parcel: Parcel) -> str:
    return f"{parcel.order_id}/{parcel.item}"


async def total(*cents: int) -> int:
    return sum(cents)


def book(rows: Rows, order_id: str, cents: int = 0) -> bool:
    rows.execute("INSERT INTO books VALUES ($1, $2)", order_id, cents)
    return True


async def archive(rows: Rows) -> None:
    rows.execute("DELETE FROM books")


def later(cents: int) -> Awaitable[int]:
    return total(cents)


class Carrier:
    def __init__(self, name: str) -> None:
        self.name = name

    async def pick_up(self, parcels: list[Parcel], *, is_express: bool = False) -> int:
        return len(parcels) + is_express


# Workflows


@app.workflow(version="2")
async def sell(step: Step, params: Order) -> Receipt:
    """Charges, books and ships an order."""
    paid = await step.do("charge", charge, params.cents, compensate=refund)
    assert_type(paid, str)
    more = await step.do("more", charge, 100, "usd", compensate=refund_in, retries=Retries(2))
    assert_type(more, str)
    assert_type(await step.do("total", total, 1, 2, 3, key="a", timeout_seconds=5), int)
    assert_type(await step.do("title", str.title, params.id), str)
    assert_type(await step.do("length", lambda: len(params.items)), int)
    assert_type(await step.do("later", later, params.cents), int)
    assert_type(
        await step.do("express", partial(Carrier("post").pick_up, [], is_express=True)), int
    )
    assert_type(await step.transaction("book", book, params.id), bool)
    assert_type(await step.transaction("book", book, params.id, params.cents), bool)
    assert_type(await step.transaction("archive", archive), None)

    sent = [Parcel(params.id, item) for item in params.items]
    labels = await step.map("label", label, sent, key=lambda parcel: parcel.item, concurrency=5)
    assert_type(labels, list[str])
    assert_type(await step.map("length", len, ["a", "b"]), list[int])

    two = await step.gather(step.do("one", charge, 1), step.do("sum", total, 1))
    assert_type(two, tuple[str, int])
    three = await step.gather(
        step.do("pick-up", Carrier("post").pick_up, sent),
        step.sleep("rest", 60),
        step.patched("new-label"),
    )
    assert_type(three, tuple[int, None, bool])
    many = await step.gather(*(step.do("label", label, parcel) for parcel in sent))
    assert_type(many, list[str])
    return Receipt(params.id, paid, labels)


@app.workflow()
async def report(step: Step, params: Period) -> dict[str, int]:
    return {"year": await step.do("year", abs, params["year"])}


@app.workflow()
async def cleanup(step: Step) -> None:
    await step.transaction("archive", archive)


@app.workflow()
async def remind(step: Step, params: Order | None) -> list[int | str]:
    days: list[int | str] = [] if params is None else [params.id, params.cents]
    await step.sleep("rest", len(days))
    return days


assert_type(sell, Workflow[Order, Receipt])
assert_type(report, Workflow[Period, dict[str, int]])
assert_type(cleanup, Workflow[None, None])
assert_type(remind, Workflow[Order | None, list[int | str]])


# Handlers


@app.on(orders, type="placed")
async def placed(message: Message[Order]) -> None:
    assert_type(message.body, Order)
    run = await app.workflows.start(sell, message.body, id=message.body.id)
    assert_type(run, RunHandle[Receipt])
    message.send(parcels, Parcel(message.body.id, "lamp"), delay_seconds=60)
    message.send("notes", {"anything": 1})


@app.on(orders, type="counted")
def counted(message: Message[Order]) -> None:
    message.ack()


@app.consumer(parcels, max_concurrency=5)
async def ship(batch: MessageBatch[Parcel]) -> None:
    assert_type([message.body for message in batch], list[Parcel])
    batch.ack_all()


@app.on(notes)
async def note(message: Message[dict[str, int]]) -> None:
    assert_type(message.body["anything"], int)


@app.schedule(cron_expr="0 6 * * *")
async def every_morning(firing: Firing) -> None:
    firing.send(parcels, Parcel("none", "newspaper"))


assert_type(orders, Queue[Order])


# Sends and runs


async def send() -> None:
    order = Order("a", 500, ["lamp"])
    assert_type(await orders.send(order, type="placed"), Id)
    batch = await app.batch(orders, [order, Outgoing(order, key="a")], completion_queue=notes)
    assert_type(batch, BatchHandle)
    await app.batch(parcels, (Parcel("a", item) for item in order.items), priority=9)
    await app.batch("notes", [1, "two", order])


async def runs(anything: Any) -> None:
    run = await app.workflows.start(sell, Order("a", 500, []), on_conflict="use_existing")
    assert_type(await run.result(), Receipt)
    assert_type((await run.result(timeout_seconds=5)).labels, list[str])
    await app.workflows.start(report, {"year": 2027, "month": None}, deadline_seconds=60)
    await app.workflows.start(cleanup)
    assert_type(await app.workflows.start(remind), RunHandle[list[int | str]])
    assert_type(await app.workflows.start("report", anything), RunHandle[Any])
    many = await app.workflows.start_many(report, [{"year": 1, "month": 2}], ids=["a"])
    assert_type(many, list[RunHandle[dict[str, int]]])
    sent = await app.workflows.send_event(sell, "a", "paid", 7, params=Order("a", 500, []))
    assert_type(sent, RunHandle[Receipt])
    known: RunHandle[Receipt] = app.workflows.get("a")
    assert_type(await known.result(), Receipt)
    await app.workflows.list(sell, status="failed")


async def start_all(workflow: Workflow[Order, Receipt], given: list[Order]) -> list[Receipt]:
    """What is written once for every workflow of a kind."""
    started = await app.workflows.start_many(workflow, given)
    return [await run.result() for run in started]


async def directly(step: Step, order: Order) -> None:
    """A test of a function alone calls it."""
    assert_type(await sell(step, order), Receipt)
    await placed(anything_claimed())
    assert_type(await start_all(sell, [order]), list[Receipt])


def anything_claimed() -> Message[Order]:
    raise NotImplementedError
