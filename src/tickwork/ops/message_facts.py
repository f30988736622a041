"""What is known about a message, and how sentences name it, without I/O."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.delivery.endpoint import Endpoint, EndpointDelivery
from tickwork.core.entity.call import read_call
from tickwork.core.limits import ENTITIES_PREFIX
from tickwork.core.message.dead_letter import Death, read_death
from tickwork.core.model import Message, QueueSettings, State
from tickwork.core.queue.rooms import Line
from tickwork.core.queue.wait_estimate import WaitEstimate
from tickwork.ops.schedules.why_answers import iso_second


class Unread(Struct, frozen=True):
    """Secrets that this process cannot read: the error, and what to do if their key is lost.
    Without that advice this process has no key, and says nothing about the workers."""

    error: str
    if_lost: str | None = None

    @property
    def what(self) -> str:
        """Which secret, and why it cannot be read."""
        return self.error.partition("; ")[0]

    @property
    def remedy(self) -> str:
        """What to do, as part of a sentence."""
        known = self.error.partition("; ")[2]
        return f"{known}; if that key is lost, {self.if_lost}" if known else f"{self.if_lost}"


class MessageFacts(Struct, frozen=True, kw_only=True):
    """Everything known about a message: its queue, who has it and until when, what is first in its
    key if it is blocked, what keeps it from going on, the endpoint that it is sent to with its
    delivery, the secrets that it needs and that cannot be read, when its queue was last pulled from
    if consumers pull it, when it is expected to start, and the line of its receiver. `is_direct`
    says that a process waits for this call of an entity, and runs it itself."""

    message: Message
    queue: str
    settings: QueueSettings
    now: datetime
    holder: str | None = None
    lease_until: datetime | None = None
    is_direct: bool = False
    ahead: MessageFacts | None = None
    obstacles: Sequence[str] = ()
    delivery: EndpointDelivery | None = None
    endpoint: Endpoint | None = None
    unread: Unread | None = None
    is_pulled: bool = False
    pulled_at: datetime | None = None
    estimate: WaitEstimate | None = None
    line: Line | None = None

    @property
    def is_holder_alive(self) -> bool:
        """Whether the node that has the message may still settle it."""
        return self.lease_until is None or self.lease_until > self.now

    @property
    def is_call(self) -> bool:
        """Whether the message is a call of an entity."""
        return self.queue.startswith(ENTITIES_PREFIX)


def subject_of(facts: MessageFacts) -> tuple[str, str]:
    """What a message is, for programs and in a sentence. One in a dead-letter queue is named by how
    it died: that is why it is there."""
    if facts.delivery is not None:
        return "delivery", delivery_words(facts.delivery, facts.endpoint)
    if facts.queue.startswith(ENTITIES_PREFIX):
        try:
            call = read_call(facts.message.body)
        except msgspec.MsgspecError:
            return "message", f"the message in queue {facts.queue}"
        if call.alarm is not None:
            return "alarm", f"the alarm of {call.entity} {call.key!r}"
        called = call.method or call.schedule
        if called is None:
            return "call", f"the change of {call.entity} {call.key!r} by an operator"
        return "call", f"the call of {called} of {call.entity} {call.key!r}"
    if (death := read_death(facts.message.death)) is not None:
        return "message", f"the message {death_words(death)}; in queue {facts.queue} it"
    return "message", f"the message in queue {facts.queue}"


def death_words(death: Death) -> str:
    """Where a message died, when, after how many attempts and why, as part of a sentence."""
    tries = "1 attempt" if death.attempts == 1 else f"{death.attempts} attempts"
    return (
        f"died in queue {death.queue} at {iso_second(death.failed_at)} after {tries} "
        f"({death.reason})"
    )


def delivery_words(delivery: EndpointDelivery, endpoint: Endpoint | None) -> str:
    """A delivery, as part of a sentence."""
    where = "an endpoint that was deleted" if endpoint is None else f"endpoint {endpoint.name}"
    return f"the delivery of {delivery.type} to {where}"


def first_words(facts: MessageFacts) -> str:
    """The first message of a key, and what it does, as part of a sentence."""
    message, named = facts.message, public_id(Prefix.MESSAGE, facts.message.id)
    if not facts.is_call:
        return f"{named}, which is {message.state}, of its key"
    called, holder = f"{subject_of(facts)[1]} ({named})", facts.holder or "a node that is gone"
    if message.state is State.CLAIMED:
        since = "" if message.claimed_at is None else f" since {iso_second(message.claimed_at)}"
        lease = ""
        if facts.lease_until is not None:
            ends = "lasts until" if facts.is_holder_alive else "ended at"
            lease = f" (its lease {ends} {iso_second(facts.lease_until)})"
        return f"{called}, which runs on {holder}{since}{lease}"
    if message.visible_at > facts.now:
        return f"{called}, which waits for its retry until {iso_second(message.visible_at)}"
    return f"{called}, which is due and waits for a worker"
