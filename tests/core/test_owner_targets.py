"""What owners may target, as their tenant lists it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tickwork.core import when
from tickwork.core.owner_targets import check_owner_targets, check_target
from tickwork.core.schedule.fields import read_definition
from tickwork.errors import Forbidden

NOW = datetime(2027, 1, 1, tzinfo=UTC)
HOOKS = "webhook:https://hooks.example.com/in"
EMAIL = {"type": "email", "to": "ada@example.com", "subject": "hi", "text": "hi"}
SLACK = {"type": "slack", "url": "https://hooks.slack.com/services/1", "text": "hi"}


def is_allowed(target: dict[str, Any], *allowed: str, **fields: Any) -> bool:
    definition, _ = read_definition(
        {"cron_expr": "@daily", "target": target, **fields},
        schedule_id=UUID(int=1),
        created_at=NOW,
        calendars={},
        limits=when.Limits(),
    )
    try:
        check_target(definition, allowed)
    except Forbidden as error:
        return error.code != "target_not_allowed"
    return True


def test_nothing_is_allowed_unless_it_is_listed() -> None:
    for target, entry in (
        ({"type": "queue", "queue": "work"}, "queue:work"),
        (EMAIL, "email"),
        (SLACK, "slack"),
        ({"type": "webhook", "endpoint": "billing"}, "endpoint:billing"),
    ):
        assert not is_allowed(target)
        assert not is_allowed(target, "queue:other", "discord", HOOKS)
        assert is_allowed(target, entry)


def test_those_that_get_results_have_to_be_listed() -> None:
    work = {"type": "queue", "queue": "work"}
    told = {"on_success": {"queue": "results"}, "on_failure": {"endpoint": "billing"}}
    assert not is_allowed(work, "queue:work", **told)
    assert not is_allowed(work, "queue:work", "queue:results", **told)
    assert is_allowed(work, "queue:work", "queue:results", "endpoint:billing", **told)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hooks.example.com/in", True),
        ("https://hooks.example.com/in/7", True),
        ("https://hooks.example.com/in?user=7", True),
        ("https://hooks.example.com/inside", False),
        ("https://hooks.example.com/in/../admin", False),
        ("https://hooks.example.com/in/./x", False),
        ("https://hooks.example.com/in/%2e%2e/admin", False),
        ("https://hooks.example.com", False),
        ("http://hooks.example.com/in", False),
        ("https://hooks.example.com.evil.example/in", False),
        ("https://hooks.example.com:8443/in", False),
    ],
)
def test_a_webhook_stays_below_its_prefix(url: str, expected: bool) -> None:
    assert is_allowed({"type": "webhook", "url": url}, HOOKS) is expected
    assert is_allowed({"type": "webhook", "url": url}, f"{HOOKS}/") is expected


def test_every_channel_has_to_be_allowed() -> None:
    both = {"type": "channels", "channels": [EMAIL, SLACK]}
    assert not is_allowed(both, "email")
    assert is_allowed(both, "email", "slack")


@pytest.mark.parametrize(
    "entry",
    ["", "queue", "queue:", "fax", "webhook:", "webhook:example.com", "webhook:ftp://a/", "email:a",
     "webhook:https://a/?b", "webhook:https://user@a/", "webhook:https:///x", "queue:" + "a" * 121],
)  # fmt: skip
def test_a_list_with_an_unknown_entry_is_refused(entry: str) -> None:
    (fault,) = check_owner_targets(["email", entry])
    assert fault.field == "owner_targets[1]"
