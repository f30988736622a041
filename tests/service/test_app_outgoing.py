"""`Outgoing`: one message of a batch may have its own options, which replace those of the batch."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork.app.message import Message
from tickwork.core.message.body import Outgoing
from tickwork.core.model import ContentType
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork
from tickwork.testing import Harness, harness
from tickwork.testing.clock import START

MIXED = ["batch's", Outgoing("at once", delay_seconds=0), Outgoing("its own", delay_seconds=5)]
WAITS = {"batch's": 60.0, "at once": 0.0, "its own": 5.0}


async def waits(h: Harness, queue: str) -> dict[Any, float]:
    """Seconds from the start to the time at which each message becomes visible."""
    sent = await h.sent(queue)
    return {entry.body: (entry.message.visible_at - START).total_seconds() for entry in sent}


async def test_a_messages_own_delay_beats_the_delay_of_its_batch_also_with_0(
    app: Tickwork, database: str | None
) -> None:
    work = app.queue("work")
    async with harness(app, database=database) as h:
        await work.send_batch(MIXED, delay_seconds=60)
        assert await waits(h, "work") == WAITS
        await app.batch("work", [Outgoing(f"item {name!r}") for name in "ab"], delay_seconds=7)
        assert await waits(h, "work") == WAITS | {"item 'a'": 7.0, "item 'b'": 7.0}


async def test_a_handler_sends_batches_with_options_per_message(
    app: Tickwork, database: str | None
) -> None:
    first, _, _ = app.queue("first"), app.queue("work"), app.queue("items")

    @app.on("first")
    async def handle(_: Message[Any]) -> None:
        await app.queue("work").send_batch(MIXED, delay_seconds=60)
        await app.batch("items", MIXED, delay_seconds=60)

    async with harness(app, database=database) as h:
        await first.send("go")
        await h.drain()
        assert await waits(h, "work") == await waits(h, "items") == WAITS


async def test_none_as_an_option_is_the_same_as_left_out(app: Tickwork) -> None:
    work = app.queue("work")
    async with harness(app) as h:
        await work.send_batch([Outgoing("a", delay_seconds=None)], delay_seconds=60)
        await work.send("b", delay_seconds=None)
        assert await waits(h, "work") == {"a": 60.0, "b": 0.0}


async def test_every_option_may_differ_per_message(app: Tickwork) -> None:
    work = app.queue("work")
    async with harness(app) as h:
        await work.send_batch(
            [
                Outgoing("a", key="k", priority=9, event_id="1", content_type="text"),
                Outgoing({"b": 1}, type="other", event_id="2"),
            ],
            type="common",
        )
        a, b = (sent.message for sent in await h.sent("work"))
        assert (a.key, a.priority, a.event_id, a.type) == ("k", 9, "1", "common")
        assert (a.content_type, a.body) == (ContentType.TEXT, b"a")
        assert (b.key, b.priority, b.event_id, b.type) == (None, 4, "2", "other")


async def test_a_message_with_bad_options_is_refused_with_its_batch(app: Tickwork) -> None:
    work = app.queue("work", payload=int)
    async with harness(app) as h:
        for options, field in (
            ({"delay_seconds": -1}, "messages[1].delay_seconds"),
            ({"delay": 1}, "delay"),
        ):
            wrong: dict[str, Any] = options
            with pytest.raises(InvalidInput) as refused:
                await work.send_batch([1, Outgoing(2, **wrong)])
            assert [error.field for error in refused.value.errors] == [field]
        with pytest.raises(InvalidInput, match="event_id"):
            await work.send_batch([1, Outgoing(2, event_id="a"), Outgoing(3)], event_id="b")
        with pytest.raises(InvalidInput):
            await work.send_batch([Outgoing("not a number")])  # type: ignore[arg-type]
        assert await h.sent("work") == []
