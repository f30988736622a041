"""Schedules as JSON: every fault names its field, and reading and rendering are inverse."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.core.schedules import CREATED, ID
from tickwork.core.message.backoff import Fixed
from tickwork.core.schedule.fields import merge_patch, read_definition, render_definition
from tickwork.core.schedule.model import Definition, OverlapPolicy, Retry, read_rule, rule_text
from tickwork.core.when import Limits
from tickwork.errors import InvalidInput

WHOLE: dict[str, Any] = {
    "cron_expr": "0 9 * * MON-FRI",
    "timezone": "Europe/Berlin",
    "target": {"type": "queue", "queue": "emails", "message_type": "report"},
    "payload": {"team": "ops"},
    "missed": {"policy": "skip", "cap": 3, "grace_seconds": 5},
    "overlap": "skip",
    "retry": {"max_attempts": 2, "backoff": {"kind": "fixed", "seconds": 60.0}},
    "on_dead": "pause",
    "priority": 7,
    "jitter_seconds": 30,
    "max_firings": 100,
    "expires_after_seconds": 3600,
    "metadata": {"made by": "a test"},
}


def read(fields: dict[str, Any], schedule_id: UUID = ID) -> Definition:
    definition, _ = read_definition(
        fields, schedule_id=schedule_id, created_at=CREATED, calendars={}, limits=Limits()
    )
    return definition


def faults(fields: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidInput) as refused:
        read(fields)
    return {error.field: error.message for error in refused.value.errors}


def test_a_definition_renders_to_the_fields_it_was_read_from() -> None:
    definition = read(WHOLE)
    rendered = render_definition(definition)
    assert rendered == WHOLE
    assert read(rendered) == definition


def test_policies_of_a_definition_are_read_as_values() -> None:
    definition = read(WHOLE)
    assert definition.overlap is OverlapPolicy.SKIP
    assert definition.retry == Retry(2, Fixed(60.0))
    assert definition.body == b'{"team":"ops"}'


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": None}, "target"),
        ({"target": {"type": "webhok", "queue": "x"}}, "target.type"),
        ({"target": {"type": "queue"}}, "target.queue"),
        ({"payload": "x" * 128_001}, "payload"),
        ({"missed": {"grace_seconds": -1}}, "missed.grace_seconds"),
        ({"end_at": "2020-01-01T00:00:00Z", "start_at": "2021-01-01T00:00:00Z"}, "end_at"),
        ({"calendar": "nowhere"}, "calendar"),
        ({"overlap": "perhaps"}, "overlap"),
        ({"retry": {"max_attempts": 0}}, "retry.max_attempts"),
        ({"retry": {"backoff": {"kind": "fixed", "seconds": -1}}}, "retry.backoff.seconds"),
        ({"retry": {"backoff": {"kind": "sometimes"}}}, "retry.backoff.kind"),
        ({"priority": 10}, "priority"),
        ({"expires_after_seconds": 0}, "expires_after_seconds"),
        ({"metadata": [1]}, "metadata"),
        ({"cron_exp": "* * * * *"}, "cron_exp"),
    ],
)
def test_a_fault_names_its_field(change: dict[str, Any], field: str) -> None:
    assert field in faults({**WHOLE, **change})


def test_all_faults_are_reported_at_once() -> None:
    found = faults(
        {**WHOLE, "cron_expr": "nonsense", "overlap": "no", "target": {}, "priority": -1}
    )
    assert found.keys() >= {"cron_expr", "overlap", "target.queue", "priority"}


def test_an_unknown_field_is_reported_with_the_nearest_known_one() -> None:
    assert "'overlap'" in faults({**WHOLE, "overlapp": "skip"})["overlapp"]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"type": "wehook", "url": "https://example.com/hook"}, "target.type"),
        ({"type": "channels", "channels": [{"type": "wehook", "url": "x"}]},
         "target.channels[0].type"),
    ],
)  # fmt: skip
def test_a_mistyped_type_of_target_is_one_fault_with_the_nearest_type(
    target: dict[str, Any], field: str
) -> None:
    ((named, message),) = faults({**WHOLE, "delivery": "at_most_once", "retry": None,
                                  "target": target}).items()  # fmt: skip
    assert named == field
    assert message.startswith("must be one of ")
    assert message.endswith("not 'wehook'; did you mean 'webhook'?")


def test_a_patch_merges_and_null_removes() -> None:
    patched = merge_patch(
        WHOLE, {"missed": {"cap": 9, "policy": None}, "retry": None, "priority": 1}
    )
    assert patched["missed"] == {"cap": 9, "grace_seconds": 5}
    assert "retry" not in patched
    assert patched["priority"] == 1


def test_a_timing_in_a_patch_replaces_the_old_timing_and_its_mode() -> None:
    before = {"interval_minutes": 5, "interval_mode": "fixed_delay", "target": {"queue": "q"}}
    assert merge_patch(before, {"cron_expr": "@daily"}) == {
        "cron_expr": "@daily",
        "target": {"queue": "q"},
    }


def test_schedules_with_one_rule_have_one_text() -> None:
    plain = {key: value for key, value in WHOLE.items() if key != "jitter_seconds"}
    one, other = read(plain, UUID(int=1)), read(plain, UUID(int=2))
    assert rule_text(one.rule) == rule_text(other.rule)


def test_a_rule_that_depends_on_the_id_gets_its_seed_back() -> None:
    definition = read(WHOLE)
    assert read_rule(rule_text(definition.rule), ID) == definition.rule
