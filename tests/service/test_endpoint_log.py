"""The log says once when the breaker of an endpoint opens or closes, and when it is disabled."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from tickwork.facade.app import Tickwork
from tickwork.testing import harness

START = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
SHOP = "https://shop.example.com/hook"
NAME = "endpoint shop of tenant default"


async def test_each_change_of_an_endpoint_is_one_line(
    app: Tickwork, database: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[tuple[str, str]]:
        found = [
            (record.levelname, record.getMessage())
            for record in caplog.records
            if hasattr(record, "endpoint")
        ]
        caplog.clear()
        return found

    async with harness(app, database=database, start=START) as h:
        caplog.set_level(logging.INFO, "tickwork")
        await app.endpoints.create("shop", url=SHOP, types=["*"], retry_seconds=[5] * 3)
        h.deliveries.answer = lambda _: 503
        for number in range(8):
            await app.events.publish("order.paid", {"number": number})
        await h.drain()
        ((level, text),) = lines()
        assert (level, text.partition(": ")[0]) == (
            "WARNING",
            f"the breaker of {NAME} is open until 2026-03-02T08:31:00Z",
        )
        assert "failures in a row, the last one: the receiver answered 503" in text
        h.deliveries.answer = lambda _: 200
        await h.advance(minutes=5)
        assert lines() == [("INFO", f"the breaker of {NAME} is closed: an attempt succeeded")]
        h.deliveries.answer = lambda _: 410
        await app.events.publish("order.paid", {})
        await h.drain()
        gone = f"{NAME} is disabled: the receiver answered 410 (gone)"
        assert lines() == [("WARNING", gone)]
