"""The shop: `TICKWORK_DATABASE=postgresql://… .venv/bin/python -m examples.flask_shop`.

An order, the stock and the email are one transaction. The views are plain functions in threads;
they call the app by `app.sync`. Another process is the worker.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from flask import Flask, abort, request
from sqlalchemy import Engine, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tickwork import Message, Tickwork

app = Tickwork()
app.queue("emails")
web = Flask(__name__)


class Base(DeclarativeBase):
    """The tables of the shop."""


class Stock(Base):
    """How many of an item are left."""

    __tablename__ = "flask_shop_stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[int]


class Order(Base):
    """What somebody ordered."""

    __tablename__ = "flask_shop_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    emails: Mapped[int] = mapped_column(default=0)


@cache
def engine() -> Engine:
    """The connections of this process."""
    url = os.environ["TICKWORK_DATABASE"].replace("postgresql://", "postgresql+psycopg://")
    made = create_engine(url)
    Base.metadata.create_all(made)
    return made


@app.on("emails")
def email(message: Message[dict[str, Any]]) -> None:
    """Writes to the customer; the note that it did commits with the ack."""
    with message.transaction() as rows:
        rows.execute(
            "UPDATE flask_shop_orders SET emails = emails + 1 WHERE id = $1", message.body["order"]
        )


@web.post("/orders")
def order() -> tuple[dict[str, int], int]:
    """Orders an item, and sends the email if, and only if, the order commits."""
    item = request.get_json()["item"]
    with Session(engine()) as session, session.begin():
        made = Order(item=item)
        session.add(made)
        session.flush()
        app.sync.queue("emails").send({"order": made.id}, connection=session)
        stock = session.get(Stock, item, with_for_update=True)
        if stock is None or stock.left < 1:
            abort(409, f"{item} is sold out")  # Rolls back the order and the email.
        stock.left -= 1
        return {"id": made.id}, 201


@web.get("/orders")
def orders() -> list[dict[str, Any]]:
    """All orders."""
    with Session(engine()) as session:
        found = session.scalars(select(Order).order_by(Order.id))
        return [{"id": order.id, "item": order.item, "emails": order.emails} for order in found]
