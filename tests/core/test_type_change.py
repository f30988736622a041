"""Which changes of a type break those who send: a body that fitted may not fit any more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from tests.app.test_payload_schema import EXACT, LOOSE, types, values
from tickwork.app.payload_schema import schema_of
from tickwork.app.payloads import Payload
from tickwork.core.types.change import schema_changes
from tickwork.core.types.schema import Schema
from tickwork.errors import InvalidInput


def mail(**fields: Any) -> dict[str, Any]:
    named = [
        (name, *(kind if isinstance(kind, tuple) else (kind,))) for name, kind in fields.items()
    ]
    return schema_of(Payload[Any](msgspec.defstruct("Mail", named)))


BEFORE = {"to": str, "count": (int, 0)}

CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str, bool]]]] = {
    "the same": (BEFORE, []),
    "a new optional field": ({**BEFORE, "cc": (str, "")}, [("$.cc", "is new and optional", False)]),
    "a new required field": (
        {"to": str, "cc": str, "count": (int, 0)},
        [("$.cc", "is new and required", True)],
    ),
    "newly required": ({"to": str, "count": int}, [("$.count", "is required now", True)]),
    "removed": ({"to": str}, [("$.count", "is removed; it is ignored", False)]),
    "narrower": (
        {**BEFORE, "to": int},
        [
            ("$.to", "does not take a string any more", True),
            ("$.to", "takes an integer, too", False),
        ],
    ),
    "wider": ({**BEFORE, "count": (float | None, 0)}, [("$.count", "takes null, too", False)]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_change_says_where_and_whether_it_breaks(case: str) -> None:
    after, expected = CASES[case]
    found = [
        (change.path, change.says, change.breaking)
        for change in schema_changes(mail(**BEFORE), mail(**after))
    ]
    assert [change for change in found if change[1] != "takes a number, too"] == expected


@settings(max_examples=60)
@given(types(EXACT + LOOSE), types(EXACT + LOOSE), values)
def test_what_fits_before_fits_after_unless_a_change_is_breaking(
    before: Any, after: Any, body: object
) -> None:
    try:
        old, new = [schema_of(Payload[Any](declared)) for declared in (before, after)]
    except InvalidInput:  # A union that msgspec cannot tell apart.
        return
    assert schema_changes(old, old) == ()
    breaks = any(change.breaking for change in schema_changes(old, new))
    if Schema(old).fault(body) is None and Schema(new).fault(body) is not None:
        assert breaks, (before, after, body)
