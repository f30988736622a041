"""Who gets a delivery, as its message names them: what waits for one receiver stands in a line of
its own, so that a claim takes of each what its limits let go.

The name only distinguishes lines. Which limits a receiver has is found out when something is
delivered to it.
"""

from __future__ import annotations

import re
from uuid import UUID

import msgspec

from tickwork.core.delivery.target import (
    DELIVERIES_QUEUE,
    ChannelsTarget,
    ChatTarget,
    EmailTarget,
    EndpointTarget,
    OutsideTarget,
    WebhookTarget,
    read_envelope,
)

SEVERAL = ""
"""The receiver of what several get, or nobody outside."""

_EMAIL = "email"
_HOST = re.compile(r"https?://(?:[^/?#@]*@)?([^/?#:\[\]]+|\[[^\]]*\])", re.IGNORECASE)


def receiver_of_endpoint(endpoint: UUID | str) -> str:
    """The receiver that an endpoint is, by its id or its name."""
    return f"endpoint {endpoint}"


def receiver_of_target(target: OutsideTarget) -> str:
    """The receiver of a target: the host of a URL, an endpoint, or email."""
    match target:
        case EndpointTarget(endpoint=endpoint):
            return receiver_of_endpoint(endpoint)
        case EmailTarget():
            return _EMAIL
        case WebhookTarget(url=url) | ChatTarget(url=url):
            return _host(url)
        case ChannelsTarget(channels=[single]):
            return receiver_of_target(single)
        case _:
            return SEVERAL


def receiver_of_body(queue: str, body: bytes) -> str | None:
    """The receiver of what a schedule sends to a queue; None if that is not a delivery."""
    if queue != DELIVERIES_QUEUE:
        return None
    try:
        return receiver_of_target(read_envelope(body).target)
    except msgspec.MsgspecError:
        return SEVERAL


def _host(url: str) -> str:
    found = _HOST.match(url)
    return SEVERAL if found is None else f"host {found[1].lower()}"
