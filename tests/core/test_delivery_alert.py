"""What an alert says, and where it may go."""

from __future__ import annotations

from typing import Any

import pytest

from tickwork.core.delivery.alert import (
    ALERT_TYPES,
    LINES_MAX,
    AlertTarget,
    alert_payload,
    decode_alert_target,
    encode_alert_target,
    read_alert_target,
)
from tickwork.core.delivery.target import CHAT_UNITS_MAX
from tickwork.core.message.system_events import SYSTEM_TYPES
from tickwork.errors import InvalidInput

DEAD = ("message.dead", {"queue": "work", "reason": "max_retries", "attempts": 4, "error": "no"})


def test_an_alert_counts_events_by_kind_and_names_each() -> None:
    disabled = ("endpoint.disabled", {"name": "billing", "reason": "gone"})
    payload = alert_payload([DEAD, DEAD, disabled])
    assert payload["subject"] == "Tickwork: 2 dead letters, 1 disabled endpoint"
    assert payload["text"].splitlines()[2:] == [
        "dead letter: queue work: max_retries at attempt 4: no",
        "dead letter: queue work: max_retries at attempt 4: no",
        "disabled endpoint: endpoint billing: gone",
    ]


def test_an_alert_tells_of_stalled_shards_and_failing_heartbeats() -> None:
    since = "2026-01-05T12:00:00Z"
    stalled = ("shard.stalled", {"shard": 7, "since": since, "overdue_seconds": 31.0})
    outage = {"node": "host-a:1", "since": since, "failed_seconds": 12.5}
    short = ("node.renewal_failing", outage | {"lease_lost": False})
    long = ("node.renewal_failing", outage | {"lease_lost": True})
    payload = alert_payload([stalled, short, long])
    failed = f"failed heartbeat: host-a:1: could not renew its lease for 12.5 s from {since} on"
    assert payload["subject"] == "Tickwork: 1 stalled shard, 2 failed heartbeats"
    assert payload["text"].splitlines()[2:] == [
        f"stalled shard: shard 7: slots were due since {since} and no leader planned them",
        failed,
        f"{failed}: other nodes took over its work",
    ]


def test_every_system_event_reaches_the_owner_once() -> None:
    repeats = {"entity.alarm_dead", "firing.dead"}  # Both come with a `message.dead`.
    assert {*SYSTEM_TYPES} - {*ALERT_TYPES} == repeats


def test_a_storm_is_told_by_its_number() -> None:
    payload = alert_payload([DEAD] * 1_000)
    assert payload["subject"] == "Tickwork: 1000 dead letters"
    assert payload["text"].splitlines()[-1] == f"and {1_000 - LINES_MAX} more"
    assert (payload["count"], len(payload["events"])) == (1_000, LINES_MAX)


def test_an_alert_to_a_chat_shows_whole_lines_and_counts_the_others() -> None:
    long = ("message.dead", {**DEAD[1], "error": "🎉" * 250})
    text = alert_payload([long] * 30, "discord")["text"]
    first, _, *lines, last = text.splitlines()
    assert first == "Tickwork: 30 dead letters"
    assert lines == [f"dead letter: queue work: max_retries at attempt 4: {'🎉' * 250}"] * 3
    assert last == "and 27 more"
    assert len(text.encode("utf-16-le")) // 2 <= CHAT_UNITS_MAX["discord"]
    assert len(alert_payload([long] * 30, "email")["text"].splitlines()) == LINES_MAX + 3


@pytest.mark.parametrize(
    "given",
    [
        {"email": "ops@example.com"},
        {"email": ["ops@example.com", "dev@example.com"]},
        {"webhook": "https://example.com/hook"},
        {"slack": "https://hooks.example.com/T0/B0/secret"},
        {"discord": "https://chat.example.com/api/webhooks/1/secret"},
    ],
)
def test_a_target_is_read_stored_and_shown_without_its_secret(given: dict[str, Any]) -> None:
    target = read_alert_target(given)
    assert decode_alert_target(encode_alert_target(target)) == target
    assert "secret" not in str(target.shown)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "alerts"),
        ({"email": "a@example.com", "webhook": "https://example.com"}, "alerts"),
        ({"email": []}, "email"),
        ({"email": 5}, "email"),
        ({"email": ["nobody"]}, "email"),
        ({"webhook": ""}, "webhook"),
        ({"slack": 5}, "slack"),
    ],
)
def test_an_invalid_target_is_refused_by_its_name(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_alert_target(given)
    assert {error.field for error in refused.value.errors} == {field}


def test_a_targets_way_is_shown() -> None:
    assert AlertTarget("email", to=("a@example.com",)).shown == ("a@example.com",)
