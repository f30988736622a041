"""Bad bodies and options are refused by field, and nothing is stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.acts import WORK, counts, make_queue
from tickwork.core.model import DEFAULT, ContentType, Counts
from tickwork.errors import InvalidInput
from tickwork.ops.context import Context
from tickwork.ops.send import compose, send
from tickwork.store.contract import Store


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("body", "options", "field"),
    [
        (nested(10_000), {}, "body"),
        ("x" * 128_000, {}, "body"),
        ("\ud800", {"content_type": ContentType.TEXT}, "body"),
        ({}, {"delay_seconds": -1}, "delay_seconds"),
        ({}, {"delay_seconds": 366 * 86_400}, "delay_seconds"),
        ({}, {"priority": 10}, "priority"),
        ({}, {"key": "a\0b"}, "key"),
        ({}, {"event_id": ""}, "event_id"),
        ({}, {"colour": "red"}, "colour"),
        ({}, {"delay_seconds": "5"}, "delay_seconds"),
        ({}, {"content_type": "xml"}, "content_type"),
        ({}, {"content_type": None}, "content_type"),
        ({"x": float("nan")}, {}, "body"),
    ],
)
async def test_a_message_that_cannot_be_stored_is_refused_by_field(
    store: Store, body: object, options: dict[str, Any], field: str
) -> None:
    await make_queue(store)
    with pytest.raises(InvalidInput) as refused:
        await send(Context(store, DEFAULT), WORK, compose(body, **options))
    assert [error.field for error in refused.value.errors] == [field]
    assert await counts(store) == Counts()
