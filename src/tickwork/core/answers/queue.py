"""Queues as a user sees them: their settings, and their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from tickwork.core.answers.usage import UsageAnswer
from tickwork.core.limits import is_pulled
from tickwork.core.message.subscription import Subscription
from tickwork.core.model import Counts, QueueSettings, StoredQueue

AtLeast = Annotated[
    tuple[str, ...],
    Meta(description="States of which there may be more messages: counting stops at 50,000."),
]


class QueueAnswer(QueueSettings, frozen=True, kw_only=True):
    """A queue with its settings. `mode` says who processes its messages: consumers that `pull`, or
    the endpoint `push_to` or the handlers of the app `declared_by` (`push`). Numbers of messages
    are only in the answer for one queue."""

    name: str
    mode: Annotated[str, Meta(description="pull or push")]
    declared_by: str | None
    shared: Annotated[bool, Meta(description="Whether all tenants use it.")]
    paused: bool
    counts: Counts | UnsetType = UNSET
    at_least: AtLeast = ()

    @classmethod
    def of(
        cls,
        queue: StoredQueue,
        counts: Counts | UnsetType = UNSET,
        at_least: tuple[str, ...] = (),
    ) -> Self:
        """The answer for a stored queue."""
        settings: dict[str, Any] = structs.asdict(queue.settings)
        return cls(
            **settings,
            name=queue.name,
            mode="pull" if is_pulled(queue) else "push",
            declared_by=queue.declared_by,
            shared=queue.tenant is None,
            paused=queue.paused,
            counts=counts,
            at_least=at_least,
        )


class Purged(Struct, frozen=True):
    """How many messages were deleted."""

    purged: int


class LabeledCounts(Struct, frozen=True):
    """Counters of a minute or of a kind of message; counters that are zero are left out."""

    label: str
    counts: Mapping[str, int]


class QueueView(Struct, frozen=True):
    """A queue in the overview. `late` are the ready messages that have waited for more than a
    minute; the counters are by minute (30 minutes), by kind of message (1 hour), and those of dead
    messages by type (24 hours). `at_least` names the states of which there may be more messages:
    their count stopped at a bound."""

    queue: str
    tenant: str | None
    counts: Counts
    late: int
    oldest_age_seconds: float | None
    minutes: tuple[LabeledCounts, ...]
    kinds: tuple[LabeledCounts, ...]
    dead_types: Mapping[str, int]
    at_least: tuple[str, ...] = ()


class Statistics(Struct, frozen=True):
    """Statistics of queues by name."""

    queues: tuple[QueueView, ...]
    next_cursor: Annotated[
        str | None, Meta(description="Pass it as `cursor` for the next page; null on the last one.")
    ] = None


class Usage(Struct, frozen=True, kw_only=True):
    """How many schedules of a tenant may still fire, how many queues it has of its own, and its
    messages in each state. `at_least` names the states of which there may be more messages: a count
    stopped at a bound. `truncated`: it sees more queues than are counted, and messages are counted
    in the first of them. `used` is what was used in a time, if one is asked for."""

    tenant: str | None
    schedules: int
    queues: int
    messages: Counts
    at_least: tuple[str, ...] = ()
    truncated: bool = False
    used: Annotated[
        UsageAnswer | None, Meta(description="What was used in the time that is asked for.")
    ] = None


class SubscriptionBody(Struct, frozen=True):
    """A queue that gets a copy of each message and event whose type matches."""

    types: Annotated[str, Meta(description="A type, a prefix such as content.*, or * for all.")]
    queue: str

    @classmethod
    def of(cls, subscription: Subscription) -> SubscriptionBody:
        """The answer for a stored subscription."""
        return cls(subscription.types, subscription.queue)
