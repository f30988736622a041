"""Typed payloads through a queue: what does not fit is refused on its way out, and dead on its
way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, field_validator

from tickwork.app.message import Message, MessageBatch
from tickwork.core.model import DEFAULT, REASON_INVALID_PAYLOAD, ContentType, NewMessage
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness


class Struct(msgspec.Struct):
    """A msgspec struct."""

    to: str
    copies: int = 1


@dataclass
class Data:
    """A dataclass."""

    to: str
    copies: int = 1


class Model(BaseModel):
    """A Pydantic model."""

    to: str
    copies: int = 1


class Odd(msgspec.Struct):
    """A type with a check of its own that raises what nobody expects."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise LookupError("no such number")


class OddModel(BaseModel):
    """The same as a Pydantic model."""

    number: int

    @field_validator("number")
    @classmethod
    def known(cls, value: int) -> int:
        if value < 0:
            raise LookupError("no such number")
        return value


async def send_raw(
    h: Harness, body: bytes, content_type: ContentType = ContentType.JSON, **fields: Any
) -> None:
    """As another language sends, that knows nothing of our types."""
    message = NewMessage(id=new_id(), body=body, content_type=content_type, **fields)
    await h.store.messages.send(DEFAULT, "work", message)


@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_a_handler_is_given_what_was_sent(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    work, seen = app.queue("work", payload=kind), list[Any]()

    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    handle.__annotations__["message"] = Message[kind]
    app.on("work")(handle)

    async with harness(app, database=database) as h:
        await work.send(kind(to="a@example.com", copies=7))
        await send_raw(h, b'{"to": "b@example.com"}')
        await h.drain()
        assert seen == [kind(to="a@example.com", copies=7), kind(to="b@example.com")]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_what_does_not_fit_is_refused_when_it_is_sent(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    work = app.queue("work", payload=kind)
    async with harness(app, database=database) as h:
        for bad in ({"to": 7}, {}, "text", {"to": "a", "copies": "many"}):
            with pytest.raises(InvalidInput, match="body: does not fit"):
                await work.send(bad)
        with pytest.raises(InvalidInput):
            await work.send_batch([kind(to="a"), {"copies": 1}])
        assert await h.sent("work") == []


@pytest.mark.parametrize("kind", [Odd, OddModel])
async def test_whatever_a_type_raises_its_message_is_not_sent(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    work, read = app.queue("work", payload=kind), app.queue("read", payload=dict[str, int])

    async def handle(message: Message[Any]) -> None: ...

    handle.__annotations__["message"] = Message[kind]
    app.on("read")(handle)
    said = f"body: does not fit {kind.__name__}: LookupError: .*no such number"
    async with harness(app, database=database) as h:
        for queue in (work, read):
            with pytest.raises(InvalidInput, match=said) as refused:
                await queue.send({"number": -1})
            assert isinstance(refused.value.__cause__, LookupError)
            assert await h.sent(queue.name) == []


@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_what_does_not_fit_is_dead_before_any_handler_sees_it(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    app.queue("work", payload=kind, max_retries=9)
    seen: list[Any] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        for body in (b'{"to": 7}', b"{}", b"{", b"\xff"):
            await send_raw(h, body)
        await send_raw(h, b'{"to": "fine"}')
        await h.drain()
        assert seen == [kind(to="fine")]
        dead = await h.dead("work")
        assert len(dead) == 4
        assert {(letter.reason, letter.attempts) for letter in dead} == {
            (REASON_INVALID_PAYLOAD, 0)
        }
        assert all("does not fit" in (letter.error or "") for letter in dead)


@pytest.mark.parametrize("kind", [Odd, OddModel])
async def test_whatever_a_type_raises_its_message_is_dead_and_no_other(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    work, seen = app.queue("work", payload=kind), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        for number in (1, -1, 2):
            await send_raw(h, b'{"number": %d}' % number)
        await work.send(kind(number=3))
        await h.drain()
        assert seen == [kind(number=1), kind(number=2), kind(number=3)]
        (dead,) = await h.dead("work")
        assert (dead.body, dead.reason) == ({"number": -1}, REASON_INVALID_PAYLOAD)
        assert "no such number" in (dead.error or "")


async def test_a_body_that_is_not_what_it_says_is_dead_also_without_a_type(
    app: Tickwork, database: str | None
) -> None:
    app.queue("work")
    seen: list[Any] = []

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        await send_raw(h, b"{")
        await send_raw(h, b"\xff", ContentType.TEXT)
        await send_raw(h, b"\xff", ContentType.BYTES)
        await send_raw(h, b"fine", ContentType.TEXT)
        await h.drain()
        assert seen == [b"\xff", "fine"]
        dead = await h.dead("work")
        assert {letter.reason for letter in dead} == {REASON_INVALID_PAYLOAD}
        assert sorted(letter.body for letter in dead) == [b"{", b"\xff"]


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("kind", [Struct, Data, Model])
async def test_a_text_is_no_payload_of_a_type(
    app: Tickwork, database: str | None, kind: Any
) -> None:
    work, seen = app.queue("work", payload=kind), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        with pytest.raises(InvalidInput, match="body: does not fit"):
            await work.send("hello", content_type="text")
        await send_raw(h, b"hello", ContentType.TEXT)
        await send_raw(h, b"hello", ContentType.BYTES)
        await h.drain()
        assert seen == []
        dead = await h.dead("work")
        assert [(letter.body, letter.reason) for letter in dead] == [
            ("hello", REASON_INVALID_PAYLOAD),
            (b"hello", REASON_INVALID_PAYLOAD),
        ]
        assert all(f"does not fit {kind.__name__}" in (letter.error or "") for letter in dead)


async def test_of_a_batch_only_what_fits_is_given(app: Tickwork, database: str | None) -> None:
    app.queue("work", payload=Struct, max_batch_size=3)
    seen: list[list[str]] = []

    @app.consumer("work")
    async def handle(batch: MessageBatch[Struct]) -> None:
        seen.append([message.body.to for message in batch])

    async with harness(app, database=database) as h:
        for body in (b'{"to": "a"}', b"{}", b'{"to": "b"}', b"[]", b"1", b"2"):
            await send_raw(h, body)
        await h.drain()
        assert seen == [["a", "b"]]
        assert len(await h.dead("work")) == 4


async def test_types_by_type_of_message(app: Tickwork, database: str | None) -> None:
    work, seen = app.queue("work"), list[Any]()

    @app.on("work", type="number")
    async def number(message: Message[int]) -> None:
        seen.append(message.body)

    @app.on("work", type="struct")
    async def struct(message: Message[Struct]) -> None:
        seen.append(message.body)

    async with harness(app, database=database) as h:
        await work.send(7, type="number")
        await work.send({"to": "a"}, type="struct")
        with pytest.raises(InvalidInput, match="body: does not fit int"):
            await work.send("seven", type="number")
        with pytest.raises(InvalidInput, match="body: does not fit Struct"):
            await work.send(7, type="struct")
        await send_raw(h, b'"seven"', type="number")
        await h.drain()
        assert seen == [7, Struct("a")]
        (dead,) = await h.dead("work")
        assert (dead.body, dead.reason) == ("seven", REASON_INVALID_PAYLOAD)


async def test_what_a_handler_sends_is_checked_too(app: Tickwork, database: str | None) -> None:
    work = app.queue("work", max_retries=0)
    app.queue("out", payload=Struct)

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        message.send("out", message.body)

    async with harness(app, database=database) as h:
        await work.send({"to": "a"})
        await work.send({"to": 7})
        await h.drain()
        assert [message.body for message in await h.sent("out")] == [{"to": "a"}]
        (dead,) = await h.dead("work")
        assert "body: does not fit Struct" in (dead.error or "")


async def test_the_items_of_a_batch_are_checked_too(app: Tickwork, database: str | None) -> None:
    app.queue("work", payload=Struct)
    async with harness(app, database=database) as h:
        with pytest.raises(InvalidInput, match=r"items\[1\]\.body: does not fit Struct"):
            await app.batch("work", [Struct("a"), {"copies": 1}])
        batch = await app.batch("work", [Struct("a"), Struct("b")])
        assert (await batch.progress()).total == 2
        assert len(await h.sent("work")) == 2


async def test_a_type_that_is_no_text_is_refused(app: Tickwork) -> None:
    work, many = app.queue("work"), ["a"]
    async with harness(app):
        with pytest.raises(InvalidInput, match=r"^type: must be a text, not "):
            await work.send("x", type=many)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match=r"^items\[0\].type: must be a text, not "):
            await app.batch("work", ["x"], type=many)  # type: ignore[call-overload]


async def test_a_body_of_a_content_type_by_name_is_looked_at_as_any_other() -> None:
    app = Tickwork()
    orders: Any = app.queue("orders", payload=Struct)
    async with harness(app) as h:
        with pytest.raises(InvalidInput, match="does not fit Struct"):
            await orders.send({"to": 5}, content_type="json")
        await orders.send({"to": "ada"}, content_type="json")
        (sent,) = await h.sent("orders")
    assert sent.message.content_type is ContentType.JSON
