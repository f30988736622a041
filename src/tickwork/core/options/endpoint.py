"""The fields of an endpoint: `app.endpoints.create` and `update`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX
from tickwork.core.options.declared import Between, Length
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN

CONCURRENCY_MAX = 10_000
TIMEOUT_SECONDS_MAX = 300
"""Maximum number of seconds that one delivery may take."""


class _Address(TypedDict, total=False):
    url: Annotated[str, "Address that receives the events."]
    types: Annotated[str | Sequence[str], "Types of events, or prefixes such as order.*"]


class AnswerSeconds(TypedDict, total=False):
    """How long the receiver of a webhook may take to answer; null is the default."""

    timeout_seconds: Annotated[
        int | None, Between(1, TIMEOUT_SECONDS_MAX), "Seconds for one delivery; default 30."
    ]
    first_byte_seconds: Annotated[
        int | None,
        Between(1, TIMEOUT_SECONDS_MAX),
        "Seconds until an answer begins; at most timeout_seconds.",
    ]


class EndpointOptions(AnswerSeconds, total=False):
    """What an endpoint may have besides its URL and types; null is the default."""

    owner: Annotated[str | None, Length(NAME_LENGTH_MAX), "Receive only events of this owner."]
    description: Annotated[str | None, Length(TEXT_LENGTH_MAX), "What it is for."]
    method: Annotated[Literal["POST", "PUT", "PATCH"] | None, "Method of every delivery."]
    headers: Annotated[Mapping[str, str] | None, "Headers of every delivery."]
    secret_headers: Annotated[Mapping[str, str] | None, "Their values are never shown."]
    ordered: Annotated[bool | None, "Deliver one after the other, oldest first."]
    rate_per_second: Annotated[
        float | None,
        Between(RATE_MIN, RATE_MAX, "a number of deliveries"),
        "Deliveries per second on each node.",
    ]
    concurrency: Annotated[
        int | None, Between(1, CONCURRENCY_MAX), "Deliveries at a time on each node."
    ]
    limit: Annotated[
        str | None, Length(NAME_LENGTH_MAX), "Name of a limit that it shares with others."
    ]
    retry_seconds: Annotated[Sequence[float] | None, "Seconds before each retry."]
    permanent_statuses: Annotated[
        Sequence[int] | None, "Statuses of answers after which nothing is retried."
    ]
    signature: Annotated[
        Literal["v1", "v1a"] | None,
        "Sign with a shared secret (v1, default) or a private key (v1a).",
    ]


class EndpointFields(_Address, EndpointOptions, total=False):
    """Fields of an endpoint; null is the default again."""


class NewEndpoint(EndpointFields):
    """A new endpoint: its name, URL and types."""

    name: str
