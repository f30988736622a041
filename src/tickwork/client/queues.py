"""Queues and messages over HTTP: `client.queue(…)`, `client.queues`, `client.messages`,
`client.history`, `client.subscriptions` and `client.limits`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Unpack

from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Plan,
    Repeat,
    Runner,
    answer,
    at,
    given,
    listed,
    nothing,
    part,
    verb,
)
from tickwork.core.answers.history import EventHandled, HistoryRecord
from tickwork.core.answers.ids import GivenId, Id
from tickwork.core.answers.message import (
    AckAnswer,
    Extended,
    PullAnswer,
    Sent,
    SentBatch,
    StoredMessage,
)
from tickwork.core.answers.queue import Purged, QueueAnswer, QueueView, Statistics, SubscriptionBody
from tickwork.core.message.body import Outgoing
from tickwork.core.message.history import HistoryDefault, HistoryKept, Outcome
from tickwork.core.options.message import SendOptions
from tickwork.core.options.queue import QueueOptions
from tickwork.core.queue.named_limit import NamedLimit

State = Literal["ready", "delayed", "claimed", "blocked"]


def message_body(body: object, options: Mapping[str, Any]) -> dict[str, object]:
    """A message as the API takes it."""
    if isinstance(body, Outgoing):
        return message_body(body.body, {**options, **body.options})
    return {"body": body, **given(**options)}


def _stats(queue: str) -> Plan[QueueView]:
    query = {"queue": queue}
    found: Statistics = yield Call("GET", at("v1", "stats"), answer(Statistics), query=query)
    return found.queues[0]


class Queue(Noun[M]):
    """One queue, by its name. Making it asks nobody."""

    def __init__(self, runner: Runner, name: str) -> None:
        super().__init__(runner)
        self.name = name

    def __repr__(self) -> str:
        return f"Queue({self.name!r})"

    @verb
    def send(self, body: Any, **options: Unpack[SendOptions]) -> Call[Id]:
        """Sends a message and returns its id. It is durable when this returns.

        Options: `delay_seconds`, `priority`, `key`, `event_id`, `type`, `source`,
        `correlation_id`, `causation_id`, `expires_after_seconds`, `content_type`.
        """
        return Call(
            "POST",
            at("v1", "queues", self.name, "messages"),
            part(Sent, lambda sent: sent.id),
            body=message_body(body, options),
            repeat=Repeat.KEYED,
        )

    @verb
    def send_batch(
        self, bodies: Sequence[Any], **options: Unpack[SendOptions]
    ) -> Call[tuple[Id, ...]]:
        """Sends up to 10,000 messages, all or none, and returns their ids.

        The options apply to every message. `Outgoing(body, …)` has its own, which replace them.
        """
        return Call(
            "POST",
            at("v1", "queues", self.name, "messages", "batch"),
            part(SentBatch, lambda sent: sent.ids),
            body={"messages": [message_body(body, options) for body in bodies]},
            repeat=Repeat.KEYED,
        )

    @verb
    def stats(self) -> Plan[QueueView]:
        """How many messages wait, run and died, and how old the oldest is."""
        return _stats(self.name)

    @verb
    def pull(
        self,
        *,
        batch_size: int = 10,
        visibility_timeout_seconds: float | None = None,
        wait_seconds: float = 0.0,
    ) -> Call[PullAnswer]:
        """Leases messages, and waits for the first one. Ack them, or they are handed out again
        when the lease has expired. Raises `Conflict` for a queue whose handlers are in an app.

        Args:
            batch_size: Maximum number of messages, up to 100.
            visibility_timeout_seconds: How long they are leased; by default the queue's setting.
            wait_seconds: How long to wait if there are none.
        """
        lease = visibility_timeout_seconds
        return Call(
            "POST",
            at("v1", "queues", self.name, "messages", "pull"),
            answer(PullAnswer),
            body=given(
                batch_size=batch_size,
                visibility_timeout_ms=None if lease is None else round(lease * 1_000),
                wait_ms=round(wait_seconds * 1_000),
            ),
            wait_seconds=wait_seconds,
        )

    @verb
    def ack(
        self,
        lease_ids: Sequence[str] = (),
        *,
        retries: Mapping[str, float | None] | None = None,
    ) -> Call[AckAnswer]:
        """Acks leases, and gives back others, in one transaction.

        Args:
            lease_ids: Leases of messages that are done.
            retries: Leases of messages to retry, each with its delay in seconds; None is the
                backoff of the queue.
        """
        again = [
            given(lease_id=lease_id, delay_seconds=delay)
            for lease_id, delay in (retries or {}).items()
        ]
        return Call(
            "POST",
            at("v1", "queues", self.name, "messages", "ack"),
            answer(AckAnswer),
            body={"acks": [{"lease_id": id_} for id_ in lease_ids], "retries": again},
        )

    @verb
    def extend(self, lease_id: str, *, visibility_timeout_seconds: float) -> Call[Extended]:
        """Makes a lease expire so many seconds from now. Raises `ClaimLost` if it is over."""
        return Call(
            "POST",
            at("v1", "queues", self.name, "messages", "extend"),
            answer(Extended),
            body={
                "lease_id": lease_id,
                "visibility_timeout_ms": round(visibility_timeout_seconds * 1_000),
            },
            repeat=Repeat.SAFE,
        )


class Queues(Noun[M]):
    """The queues of the tenant."""

    @listed
    def list(self, *, limit: int | None = None) -> Pages[QueueAnswer]:
        """All queues, by name."""
        return Pages(at("v1", "queues"), QueueAnswer, limit)

    @verb
    def get(self, name: str) -> Call[QueueAnswer]:
        """One queue with its settings and how many messages are in each state."""
        return Call("GET", at("v1", "queues", name), answer(QueueAnswer))

    @verb
    def put(self, name: str, **settings: Unpack[QueueOptions]) -> Call[QueueAnswer]:
        """Creates a queue for consumers that pull, or replaces all its settings; a setting that is
        left out has its default. Raises `Conflict` for a queue that an app declares."""
        return Call("PUT", at("v1", "queues", name), answer(QueueAnswer), body=given(**settings))

    @verb
    def update(self, name: str, **changes: Unpack[QueueOptions]) -> Call[QueueAnswer]:
        """Changes settings of a queue; None means the default again, and others stay."""
        path = at("v1", "queues", name)
        return Call("PATCH", path, answer(QueueAnswer), body=changes, repeat=Repeat.SAFE)

    @verb
    def stats(self, name: str) -> Plan[QueueView]:
        """How many messages wait, run and died, and how old the oldest is."""
        return _stats(name)

    @verb
    def pause(self, name: str) -> Call[None]:
        """Stops handing out messages. Running handlers finish."""
        return Call("POST", at("v1", "queues", name, "pause"), nothing, repeat=Repeat.SAFE)

    @verb
    def resume(self, name: str) -> Call[None]:
        """Hands out messages again."""
        return Call("POST", at("v1", "queues", name, "resume"), nothing, repeat=Repeat.SAFE)

    @verb
    def purge(self, name: str) -> Call[int]:
        """Deletes the messages that no worker has claimed, and returns how many."""
        purged = part(Purged, lambda done: done.purged)
        return Call("POST", at("v1", "queues", name, "purge"), purged)

    @verb
    def delete(self, name: str) -> Call[None]:
        """Deletes a queue that has neither messages nor open dead letters."""
        return Call("DELETE", at("v1", "queues", name), nothing)


class Messages(Noun[M]):
    """Messages that are not settled yet."""

    @verb
    def get(self, message_id: GivenId, *, queue: str | None = None) -> Call[StoredMessage]:
        """One message. Raises `NotFound` when it is settled, expired or deleted."""
        path = at("v1", "messages", message_id)
        if queue is not None:
            path = at("v1", "queues", queue, "messages", message_id)
        return Call("GET", path, answer(StoredMessage))

    @listed
    def list(
        self,
        queue: str,
        *,
        state: State | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        key: str | None = None,
        correlation_id: str | None = None,
        older_than: float | None = None,
        limit: int | None = None,
    ) -> Pages[StoredMessage]:
        """Messages of a queue: claimed ones, then ready and delayed ones in the order in which they
        are handed out, then blocked ones. `older_than` is seconds since they were sent."""
        asked = {
            "state": state,
            "type": type,
            "key": key,
            "correlation_id": correlation_id,
            "older_than": older_than,
        }
        return Pages(at("v1", "queues", queue, "messages"), StoredMessage, limit, asked)

    @listed
    def peek(self, queue: str, *, limit: int | None = None) -> Pages[StoredMessage]:
        """The next ready messages of a queue, without claiming them."""
        asked = {"state": "ready"}
        return Pages(at("v1", "queues", queue, "messages"), StoredMessage, limit, asked)

    @verb
    def delete(self, queue: str, message_id: GivenId) -> Call[None]:
        """Deletes a message that no worker has claimed. Raises `NotFound`."""
        return Call("DELETE", at("v1", "queues", queue, "messages", message_id), nothing)


class History(Noun[M]):
    """Messages that have ended: handled, dead, expired or discarded ones."""

    @verb
    def get(self, message_id: GivenId) -> Call[HistoryRecord]:
        """What became of a message. Raises `NotFound` if there is no record of it."""
        return Call("GET", at("v1", "history", message_id), answer(HistoryRecord))

    @listed
    def list(
        self,
        *,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        outcome: Outcome | str | None = None,
        key: str | None = None,
        event_id: str | None = None,
        correlation_id: str | None = None,
        batch_id: GivenId | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> Pages[HistoryRecord]:
        """The newest records: those that match all of these, ended at or after `since` and before
        `until`. `outcome` is done, dead, expired or discarded."""
        asked = {
            "queue": queue,
            "type": type,
            "outcome": outcome,
            "key": key,
            "event_id": event_id,
            "correlation_id": correlation_id,
            "batch_id": batch_id,
            "since": since,
            "until": until,
        }
        return Pages(at("v1", "history"), HistoryRecord, limit, asked)

    @verb
    def was_handled(self, event_id: str, *, queue: str | None = None) -> Call[bool]:
        """Whether a message with this event id was handled in the last 15 days, in any queue or in
        this one, also if the queue keeps no history."""
        return Call(
            "GET",
            at("v1", "history", "handled"),
            part(EventHandled, lambda event: event.was_handled),
            query={"event_id": event_id, "queue": queue},
        )

    @verb
    def default(self) -> Call[HistoryDefault]:
        """What queues keep that have no setting of their own."""
        return Call("GET", at("v1", "history", "default"), answer(HistoryDefault))

    @verb
    def set_default(
        self, history_kept: HistoryKept, *, history_seconds: int = 86_400
    ) -> Call[HistoryDefault]:
        """Sets what queues keep that have no setting of their own, in the whole database. Needs the
        scope `admin`."""
        return Call(
            "PUT",
            at("v1", "history", "default"),
            answer(HistoryDefault),
            body=given(history=history_kept, history_seconds=history_seconds),
            repeat=Repeat.SAFE,
        )


class Subscriptions(Noun[M]):
    """Queues that get copies of messages and events by type."""

    @listed
    def list(self, *, limit: int | None = None) -> Pages[SubscriptionBody]:
        """All subscriptions, by types and queue."""
        return Pages(at("v1", "subscriptions"), SubscriptionBody, limit)

    @verb
    def create(self, types: str, queue: str) -> Call[SubscriptionBody]:
        """Copies messages and events to a queue: of a type, of a prefix such as `order.*`, or `*`.
        A repeat has no effect."""
        return Call(
            "POST",
            at("v1", "subscriptions"),
            answer(SubscriptionBody),
            body={"types": types, "queue": queue},
            repeat=Repeat.SAFE,
        )

    @verb
    def delete(self, types: str, queue: str) -> Call[None]:
        """Ends a subscription. Raises `NotFound`."""
        query = {"types": types, "queue": queue}
        return Call("DELETE", at("v1", "subscriptions"), nothing, query=query)


class Limits(Noun[M]):
    """Limits that queues and endpoints share. Each names one by its setting `limit`."""

    @verb
    def put(
        self,
        name: str,
        *,
        rate: float | None = None,
        period_seconds: float = 1.0,
        concurrency: int | None = None,
    ) -> Call[NamedLimit]:
        """Creates a limit or replaces its numbers: at most `rate` messages in `period_seconds`, and
        `concurrency` at a time, of all queues and endpoints that name it together."""
        fields = {"rate": rate, "period_seconds": period_seconds, "concurrency": concurrency}
        return Call("PUT", at("v1", "limits", name), answer(NamedLimit), body=fields)

    @verb
    def get(self, name: str) -> Call[NamedLimit]:
        """One limit. Raises `NotFound`."""
        return Call("GET", at("v1", "limits", name), answer(NamedLimit))

    @listed
    def list(self, *, limit: int | None = None) -> Pages[NamedLimit]:
        """All limits, by name."""
        return Pages(at("v1", "limits"), NamedLimit, limit)

    @verb
    def delete(self, name: str) -> Call[None]:
        """Deletes a limit. Who names it is not limited any more. Raises `NotFound`."""
        return Call("DELETE", at("v1", "limits", name), nothing)
