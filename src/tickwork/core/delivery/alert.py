"""Alerts: what an owner reads when something died, was paused, was disabled or stands still.

The events arrive in a hidden queue like any subscriber's. Those that come close together become one
alert, so that a storm of dead letters is one message to the owner.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from tickwork.core.delivery.breaker import HealthEvent
from tickwork.core.delivery.target import (
    CHAT_UNITS_MAX,
    CHATS,
    Channel,
    ChatTarget,
    EmailTarget,
    WebhookTarget,
    read_outside_target,
)
from tickwork.core.delivery.templates import utf16_units
from tickwork.core.fields import Reader
from tickwork.core.message.system_events import (
    MESSAGE_DEAD,
    RENEWAL_FAILING,
    RUN_DIVERGED,
    SCHEDULE_PAUSED,
    SHARD_STALLED,
)
from tickwork.core.model import QueueSettings
from tickwork.errors import FieldError, InvalidInput

ALERTS_QUEUE = "tickwork.alerts"
"""Name of the hidden queue, which all tenants share."""

ALERT_TYPES = (
    MESSAGE_DEAD,
    SCHEDULE_PAUSED,
    SHARD_STALLED,
    RENEWAL_FAILING,
    RUN_DIVERGED,
    *HealthEvent,
)
"""The system events of alerts to owners: all but those that repeat `message.dead`."""

ALERTS_SETTINGS = QueueSettings(max_batch_size=100, max_batch_timeout=10.0, max_retries=8)

REST_SECONDS = 900.0
"""Seconds between two alerts of a tenant. What happens meanwhile is in the next one."""

NOT_SENT = "null"
"""What a node records if its alert was not sent."""

LINES_MAX = 20
"""Maximum number of events that an alert shows."""

WAYS = ("email", "webhook", *CHATS[:2])
"""Ways of an alert: the names of the arguments that set it."""

_NAMES = {
    MESSAGE_DEAD: "dead letter",
    SCHEDULE_PAUSED: "paused schedule",
    SHARD_STALLED: "stalled shard",
    RENEWAL_FAILING: "failed heartbeat",
    RUN_DIVERGED: "diverged run",
    HealthEvent.FAILING: "failing endpoint",
    HealthEvent.DISABLED: "disabled endpoint",
}

_ABOUT = {
    MESSAGE_DEAD: "queue {queue}: {reason} at attempt {attempts}",
    SCHEDULE_PAUSED: "schedule {schedule_id}: paused by its dead firing of {slot}",
    SHARD_STALLED: "shard {shard}: slots were due since {since} and no leader planned them",
    RUN_DIVERGED: "run {run_id} of {workflow}: {divergence}",
    RENEWAL_FAILING: "{node}: could not renew its lease for {failed_seconds} s from {since} on",
}


class AlertTarget(Struct, frozen=True, omit_defaults=True):
    """Where alerts go: `way` is one of `WAYS`."""

    way: str
    to: tuple[str, ...] = ()
    url: str | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The addresses, without the path of a URL: that of a chat is its password."""
        if self.url is None:
            return self.to
        scheme, _, rest = self.url.partition("://")
        return (f"{scheme}://{rest.partition('/')[0]}/***",)


def read_alert_target(given: Mapping[str, object]) -> AlertTarget:
    """The target of exactly one given way. Raises `InvalidInput`."""
    ways = [way for way in WAYS if given.get(way) is not None]
    if len(ways) != 1:
        fault = f"give exactly one of {', '.join(WAYS)}"
        raise InvalidInput([FieldError("alerts", fault)])
    (way,) = ways
    if way == "email":
        to = given[way]
        addresses = [to] if isinstance(to, str) else [*to] if isinstance(to, Sequence) else to
        fields: dict[str, object] = {"to": addresses, "subject": "-", "text": "-"}
    elif way == "webhook":
        fields = {"url": given[way]}
    else:
        fields = {"url": given[way], "text": "-"}
    faults: list[FieldError] = []
    target = read_outside_target(Reader(fields, faults), way)
    if faults or target is None:
        raise InvalidInput(FieldError(way, field_error.message) for field_error in faults)
    if isinstance(target, EmailTarget):
        return AlertTarget(way, to=target.to)
    assert isinstance(target, WebhookTarget | ChatTarget)
    return AlertTarget(way, url=target.url)


def outside_target(alert: AlertTarget) -> Channel:
    """The target of a delivery; its payload is that of `alert_payload`."""
    if alert.way == "email":
        return EmailTarget(alert.to, "{{ payload.subject }}", "{{ payload.text }}")
    assert alert.url is not None
    if alert.way == "webhook":
        return WebhookTarget(alert.url)
    return ChatTarget(alert.way, alert.url, "{{ payload.text }}")


def alert_payload(
    events: Sequence[tuple[str, Mapping[str, Any]]], way: str = "email"
) -> dict[str, Any]:
    """The content of an alert about events, each with its type and data. The text shows as many as
    fit into a message of its way."""
    counted = Counter(type_ for type_, _ in events)
    parts = [_counted(number, _NAMES.get(type_, type_)) for type_, number in counted.items()]
    subject = f"Tickwork: {', '.join(parts)}"
    lines = [_line(type_, data) for type_, data in events[:LINES_MAX]]
    text = _text(subject, lines, len(events))
    while way in CHATS and len(lines) > 1 and utf16_units(text) > CHAT_UNITS_MAX[way]:
        text = _text(subject, lines := lines[:-1], len(events))
    return {
        "type": "alert",
        "subject": subject,
        "text": text,
        "events": [{"type": type_, "data": dict(data)} for type_, data in events[:LINES_MAX]],
        "count": len(events),
    }


def rest_seconds(rows: Mapping[str, str], now: datetime, *, besides: str | None = None) -> float:
    """Seconds until the next alert may be sent; 0 if it may be now. `rows` are the times at which
    nodes sent one; `besides` is the node that asks."""
    passed = [
        (now - datetime.fromisoformat(at)).total_seconds()
        for node, at in rows.items()
        if at != NOT_SENT and node != besides
    ]
    # `now` may be a little older than what another node has written meanwhile.
    recent = [seconds for seconds in passed if abs(seconds) < REST_SECONDS]
    return REST_SECONDS - max(min(recent), 0.0) if recent else 0.0


def _text(subject: str, lines: Sequence[str], number: int) -> str:
    more = [f"and {number - len(lines)} more"] if number > len(lines) else []
    return "\n".join([subject, "", *lines, *more])


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _line(type_: str, data: Mapping[str, Any]) -> str:
    about = _ABOUT.get(type_, "endpoint {name}").format_map(defaultdict(lambda: None, data))
    error = data.get("error") or (data.get("reason") if type_.startswith("endpoint.") else None)
    if data.get("lease_lost"):
        error = "other nodes took over its work"
    return f"{_NAMES.get(type_, type_)}: {about}" + (f": {error}" if error else "")


def encode_alert_target(target: AlertTarget) -> str:
    """As it is stored, encrypted."""
    return msgspec.json.encode(target).decode()


def decode_alert_target(text: str) -> AlertTarget:
    """The inverse of `encode_alert_target`."""
    return msgspec.json.decode(text, type=AlertTarget)
