"""The shop: `TICKWORK_DATABASE=postgresql://… .venv/bin/python -m examples.fastapi_shop`.

An order, the stock and the email are one transaction. Customers come with a JWT; each has reminders
of her own, which are schedules that belong to her.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import jwt
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tickwork import Message, NotFound, Tickwork

SECRET = os.environ.get("SHOP_SECRET", "a secret of this example, 32 bytes or more")

app = Tickwork()
emails = app.queue("emails")


class Base(DeclarativeBase):
    """The tables of the shop."""


class Stock(Base):
    """How many of an item are left."""

    __tablename__ = "fastapi_shop_stock"
    item: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[int]


class Order(Base):
    """What a customer ordered."""

    __tablename__ = "fastapi_shop_orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    item: Mapped[str]
    emails: Mapped[int] = mapped_column(default=0)


@app.on("emails")
async def email(message: Message[dict[str, Any]]) -> None:
    """Writes to the customer; the note that it did commits with the ack."""
    with message.transaction() as rows:
        rows.execute(
            "UPDATE fastapi_shop_orders SET emails = emails + 1 WHERE id = $1",
            message.body["order"],
        )


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncIterator[None]:
    """Runs the workers with the web server."""
    url = os.environ["TICKWORK_DATABASE"].replace("postgresql://", "postgresql+asyncpg://")
    engine = api.state.engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    try:
        async with app.running():
            yield
    finally:
        await engine.dispose()


api = FastAPI(lifespan=lifespan)


async def open_session(request: Request) -> AsyncIterator[AsyncSession]:
    """A session whose transaction is that of the request."""
    async with AsyncSession(request.app.state.engine) as session, session.begin():
        yield session


def read_customer(
    given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> str:
    """Who asks, by the token."""
    try:
        return str(jwt.decode(given.credentials, SECRET, algorithms=["HS256"])["sub"])
    except (jwt.InvalidTokenError, KeyError):
        raise HTTPException(401, "the token is not valid") from None


Session = Annotated[AsyncSession, Depends(open_session, scope="function")]
Customer = Annotated[str, Depends(read_customer)]


class NewOrder(BaseModel):
    """What to order."""

    item: str


@api.post("/orders", status_code=201)
async def order(new: NewOrder, customer: Customer, session: Session) -> dict[str, int]:
    """Orders an item, and sends the email if, and only if, the order commits."""
    made = Order(customer=customer, item=new.item)
    session.add(made)
    await session.flush()
    await emails.send({"order": made.id}, connection=session)
    stock = await session.get(Stock, new.item, with_for_update=True)
    if stock is None or stock.left < 1:
        raise HTTPException(409, f"{new.item} is sold out")  # Rolls back the order and the email.
    stock.left -= 1
    return {"id": made.id}


@api.get("/orders")
async def orders(customer: Customer, session: Session) -> list[dict[str, Any]]:
    """The orders of a customer."""
    found = await session.scalars(select(Order).where(Order.customer == customer))
    return [{"id": order.id, "item": order.item, "emails": order.emails} for order in found]


@api.put("/reminders/{name}", status_code=201)
async def remind(name: str, at: str, customer: Customer) -> dict[str, str]:
    """Reminds a customer every day."""
    made = await app.owner(customer).schedules.create(
        name=name,
        daily_time=at,
        target={"type": "queue", "queue": "emails"},
        payload={"order": 0},
    )
    return {"id": str(made.id)}


@api.delete("/reminders/{reference}", status_code=204)
async def forget(reference: str, customer: Customer) -> None:
    """Deletes a reminder of the customer; those of others are not found."""
    await app.owner(customer).schedules.delete(reference)


@api.exception_handler(NotFound)
async def not_found(_: Request, error: Exception) -> JSONResponse:
    """What belongs to another customer does not exist."""
    return JSONResponse({"detail": str(error)}, 404)
