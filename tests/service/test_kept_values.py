"""What a worker keeps of the store: read once for all who ask at the same time, and no errors."""

from __future__ import annotations

import asyncio

import pytest

from tickwork.errors import NotFound
from tickwork.service.worker.kept_values import KeptValues


async def test_all_who_ask_at_once_share_one_read_until_the_value_is_old() -> None:
    now, reads = 0.0, 0

    async def read() -> int:
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        return reads

    kept: KeptValues[int] = KeptValues(30.0, lambda: now)
    assert await asyncio.gather(*(kept.get("a", read) for _ in range(100))) == [1] * 100
    now = 29.9
    assert await kept.get("a", read) == kept.kept("a") == 1
    now = 30.0
    assert kept.kept("a") is None
    assert await kept.get("a", read) == 2
    kept.forget("a")
    assert await kept.get("a", read) == 3


async def test_an_error_is_not_kept() -> None:
    async def fail() -> int:
        raise NotFound("endpoint", "a")

    async def succeed() -> int:
        return 1

    kept: KeptValues[int] = KeptValues(30.0, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(NotFound):
            await kept.get("a", fail)
        assert kept.kept("a") is None
    assert await kept.get("a", succeed) == 1
