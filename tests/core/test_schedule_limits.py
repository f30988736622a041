"""Limits of a schedule: every fault names its field, and valid schedules have none."""

from typing import Any

import pytest
from msgspec import structs

from tickwork.core.schedule.model import (
    METADATA_BYTES_MAX,
    SCHEDULE_BODY_BYTES_MAX,
    SCHEDULES_AT_ONCE_MAX,
    Definition,
    NewSchedule,
)
from tickwork.core.tenant_limits import check_change, check_schedules
from tickwork.core.when import Interval, Rule
from tickwork.errors import InvalidInput
from tickwork.store.ids import new_id

DEFINITION = Definition(rule=Rule(timing=Interval(60)), queue="work", body=b"{}")

FAULTS: list[tuple[str, Any]] = [
    ("type", ""),
    ("type", "a\0b"),
    ("type", "\ud800"),
    ("type", "x" * 513),
    ("body", b"x" * (SCHEDULE_BODY_BYTES_MAX + 1)),
    ("metadata", b"x" * (METADATA_BYTES_MAX + 1)),
    ("priority", -1),
    ("priority", 10),
    ("expires_after_seconds", 0),
    ("expires_after_seconds", float("nan")),
]


def new(definition: Definition = DEFINITION, **fields: Any) -> NewSchedule:
    first: dict[str, Any] = {"next_slot": None, "due_at": None, "look_at": None}
    return NewSchedule(id=new_id(), definition=definition, **first, **fields)


def test_a_schedule_within_the_limits_is_accepted() -> None:
    largest = structs.replace(
        DEFINITION,
        type="\u00fc" * 512,
        body=b"x" * SCHEDULE_BODY_BYTES_MAX,
        metadata=b"x" * METADATA_BYTES_MAX,
        priority=9,
        expires_after_seconds=0.5,
    )
    check_schedules([new(), new(largest, name="n" * 120, idempotency_key="k" * 512)])
    check_change("name", largest)
    check_change(None, DEFINITION)


@pytest.mark.parametrize(("field", "value"), FAULTS)
def test_a_fault_names_its_field(field: str, value: object) -> None:
    bad = structs.replace(DEFINITION, **{field: value})
    with pytest.raises(InvalidInput) as raised:
        check_schedules([new(), new(bad)])
    assert [fault.field for fault in raised.value.errors] == [f"schedules[1].{field}"]
    with pytest.raises(InvalidInput) as raised:
        check_change(None, bad)
    assert [fault.field for fault in raised.value.errors] == [field]


def test_names_and_keys_have_their_limits() -> None:
    with pytest.raises(InvalidInput) as raised:
        check_schedules([new(name="n" * 121), new(idempotency_key="k" * 513), new(name="a\0")])
    assert [fault.field for fault in raised.value.errors] == [
        "schedules[0].name",
        "schedules[1].idempotency_key",
        "schedules[2].name",
    ]
    with pytest.raises(InvalidInput, match="name"):
        check_change("", DEFINITION)


def test_too_many_schedules_in_one_call_are_refused() -> None:
    check_schedules([new()] * SCHEDULES_AT_ONCE_MAX)
    with pytest.raises(InvalidInput, match=str(SCHEDULES_AT_ONCE_MAX)):
        check_schedules([new()] * (SCHEDULES_AT_ONCE_MAX + 1))
