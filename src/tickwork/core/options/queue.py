"""The settings of a queue: `app.queue`, `app.queues.put` and `update`."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwork.core.fields import NAME_LENGTH_MAX
from tickwork.core.limits import (
    BACKLOG_BYTES_MAX,
    BODY_BYTES_MAX,
    CLAIMED_MAX,
    LEASE_SECONDS_MAX,
    RETENTION_SECONDS_MAX,
    TIMEOUT_SECONDS_MAX,
)
from tickwork.core.message.backoff import Backoff
from tickwork.core.message.history import (
    HISTORY_SECONDS_MAX,
    HISTORY_SECONDS_MIN,
    HistoryKept,
)
from tickwork.core.options.declared import Between, Length
from tickwork.core.queue.rate_limit import RATE_MAX, RATE_MIN


class QueueOptions(TypedDict, total=False):
    """Settings of a queue; one that is left out has its default."""

    max_batch_size: Annotated[int, Between(1, 100), "Messages of a batch, at most."]
    max_batch_timeout: Annotated[float, Between(0, 60), "Seconds to wait for a full batch."]
    max_retries: Annotated[int, Between(0, 100), "Retries after the first attempt."]
    dead_letter_queue: Annotated[
        str | None, Length(NAME_LENGTH_MAX), "Another queue, which also gets dead messages."
    ]
    retention_seconds: Annotated[
        int, Between(60, RETENTION_SECONDS_MAX), "Seconds to keep a message."
    ]
    visibility_timeout_seconds: Annotated[
        int, Between(0, LEASE_SECONDS_MAX), "How long a pulled message is leased."
    ]
    timeout_seconds: Annotated[int, Between(1, TIMEOUT_SECONDS_MAX), "Seconds for a handler."]
    backoff: Annotated[Backoff, 'Such as {"kind": "fixed", "seconds": 60}.']
    tenant_claimed_max: Annotated[
        int | None, Between(1, CLAIMED_MAX), "Messages of one tenant that run at a time."
    ]
    rate_per_second: Annotated[
        float | None, Between(RATE_MIN, RATE_MAX), "Messages per second, of all tenants together."
    ]
    backlog_bytes_max: Annotated[
        int | None,
        Between(BODY_BYTES_MAX, BACKLOG_BYTES_MAX),
        "Bytes of bodies that may wait before sends are refused.",
    ]
    push_to: Annotated[
        str | None, Length(NAME_LENGTH_MAX), "Name of an endpoint that consumes the queue."
    ]
    limit: Annotated[
        str | None, Length(NAME_LENGTH_MAX), "Name of a limit that it shares with others."
    ]
    history: Annotated[
        HistoryKept | None, "Records of ended messages: all, failures or off. Null: the default."
    ]
    history_seconds: Annotated[
        int | None,
        Between(HISTORY_SECONDS_MIN, HISTORY_SECONDS_MAX),
        "Seconds to keep these records. Null: the default.",
    ]
    history_bodies: Annotated[bool, "Whether these records have the bodies of their messages."]
