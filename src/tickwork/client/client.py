"""`Client` and `SyncClient`: the verbs of an app, on a server.

```python
async with Client("http://127.0.0.1:8080", key="tw_…") as client:
    await client.queue("emails").send({"to": "ada@example.com"})

with SyncClient() as client:                    # TICKWORK_URL and TICKWORK_KEY
    for schedule in client.schedules.list(): ...
```
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Collection, Generator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack

from tickwork.client import batches, queues, runs
from tickwork.client.access import Audit, Keys, Tenants
from tickwork.client.answers import HealthAnswer, Items, Readiness, StreamedEvent
from tickwork.client.call import (
    Async,
    Call,
    M,
    Noun,
    Plan,
    Repeat,
    Runner,
    Sync,
    answer,
    at,
    part,
    verb,
)
from tickwork.client.deliveries import Deliveries, Endpoints, Events
from tickwork.client.event_stream import EventLines, stream_call
from tickwork.client.exchange import RETRY_SECONDS, TIMEOUT_SECONDS, Server, checked_url
from tickwork.client.operations import Operations
from tickwork.client.schedules import Calendars, Firings, Schedules
from tickwork.core.answers.cluster import ClusterView, Node
from tickwork.core.answers.ids import Prefix
from tickwork.core.answers.message_type import MessageType
from tickwork.core.answers.performance import PerformanceAnswer
from tickwork.core.answers.queue import QueueView, Statistics, Usage
from tickwork.core.answers.search import Findings
from tickwork.core.answers.wait import Wait
from tickwork.core.health import HealthReport
from tickwork.core.options.message import SendOptions
from tickwork.core.queue.performance import Width
from tickwork.core.trace import Trace
from tickwork.core.usage import UsageWidth
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.extras import client_extra

with client_extra("tickwork.Client"):
    from tickwork.client.transport import (
        AsyncHttp,
        AsyncRunner,
        AsyncTransport,
        SyncHttp,
        SyncRunner,
        SyncTransport,
    )

if TYPE_CHECKING:
    from tickwork.core.queue.capacity import Capacity
    from tickwork.core.topology import Topology

URL_VARIABLE = "TICKWORK_URL"
KEY_VARIABLE = "TICKWORK_KEY"


class Nodes(Noun[M]):
    """The processes that run on the server's database."""

    @verb
    def list(self) -> Call[tuple[Node, ...]]:
        """Nodes with their roles, their leases and the shards they lead."""
        return Call("GET", at("v1", "cluster"), part(ClusterView, lambda found: found.nodes))


class Types(Noun[M]):
    """The types of messages: what apps declare about them, who sends them and who subscribes."""

    @verb
    def list(self) -> Call[tuple[MessageType, ...]]:
        """The types that apps declare, those of the last hour, and those that queues and endpoints
        subscribe to. `*` is what a queue takes of any other type. Without schemas."""
        found = part(Items[MessageType], lambda found: found.items)
        return Call("GET", at("v1", "types"), found)

    @verb
    def get(self, name: str) -> Call[MessageType]:
        """One type, with the JSON Schema of each app that declares it. Raises `NotFound`."""
        return Call("GET", at("v1", "types", name), answer(MessageType))


class Verbs(Noun[M], Generic[M]):
    """What both clients can do."""

    def __init__(self, runner: Runner, server: Server) -> None:
        super().__init__(runner)
        self.queues: queues.Queues[M] = queues.Queues(runner)
        self.messages: queues.Messages[M] = queues.Messages(runner)
        self.history: queues.History[M] = queues.History(runner)
        self.subscriptions: queues.Subscriptions[M] = queues.Subscriptions(runner)
        self.limits: queues.Limits[M] = queues.Limits(runner)
        self.batches: batches.Batches[M] = batches.Batches(runner)
        self.dead_letters: batches.DeadLetters[M] = batches.DeadLetters(runner)
        self.operations: Operations[M] = Operations(runner)
        self.schedules: Schedules[M] = Schedules(runner)
        self.firings: Firings[M] = Firings(runner)
        self.calendars: Calendars[M] = Calendars(runner)
        self.events: Events[M] = Events(runner)
        self.endpoints: Endpoints[M] = Endpoints(runner)
        self.deliveries: Deliveries[M] = Deliveries(runner)
        self.workflows: runs.Workflows[M] = runs.Workflows(runner)
        self.entities: runs.Entities[M] = runs.Entities(runner)
        self.keys: Keys[M] = Keys(runner, server.tenant or "default")
        self.tenants: Tenants[M] = Tenants(runner)
        self.audit: Audit[M] = Audit(runner)
        self.nodes: Nodes[M] = Nodes(runner)
        self.types: Types[M] = Types(runner)

    def queue(self, name: str) -> queues.Queue[M]:
        """A queue to send to, or to pull from; asks nobody."""
        return queues.Queue(self._runner, name)

    def entity(
        self, entity: str, key: str, *, idempotency_key: str | None = None
    ) -> runs.EntityHandle[M]:
        """One entity to call: `await client.entity("Brand", "llc-tax").rename("LLC")`.

        Args:
            entity: The name of its type.
            key: Which one, 1 to 512 bytes.
            idempotency_key: A repeat with the same key returns the first result, for a day.
        """
        return runs.EntityHandle(self._runner, entity, key, idempotency_key)

    @verb
    def batch(
        self,
        queue: str,
        items: Iterable[object],
        *,
        completion_queue: str | None = None,
        **options: Unpack[SendOptions],
    ) -> Plan[batches.Batch[M]]:
        """Sends a message for each item and counts them together. The options apply to each;
        an item `Outgoing(body, …)` has its own, which replace them."""
        made = yield from batches.make_batch(queue, items, completion_queue, {**options})
        return batches.Batch(self._runner, made.id)

    @verb
    def stats(self, *, limit: int | None = None) -> Plan[tuple[QueueView, ...]]:
        """Numbers of each queue, or of the first ones: messages by state, how many are late, the
        age of the oldest, counters."""
        found: list[QueueView] = []
        cursor: str | None = None
        while limit is None or len(found) < limit:
            query = {"cursor": cursor}
            page: Statistics = yield Call("GET", at("v1", "stats"), answer(Statistics), query=query)
            found += page.queues
            cursor = page.next_cursor
            if cursor is None:
                break
        return tuple(found[:limit])

    @verb
    def status(self, *, checks: Collection[str] | None = None) -> Call[HealthReport]:
        """What is wrong with the tenant and the processes, worst first, each with what to do. With
        `checks` it looks at these alone, such as `["queues", "runs"]`."""
        asked = {"check": None if checks is None else ",".join(checks)}
        return Call("GET", at("v1", "health"), answer(HealthReport), query=asked)

    @verb
    def usage(
        self,
        *,
        by: UsageWidth | str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tenant: str | None = None,
    ) -> Call[Usage]:
        """How much the tenant has now: schedules, queues, messages in each state. With `by`
        (`hour` or `day`), `since` or `until` also what it used in that time, by default in the last
        24 hours or 30 days: `used`, kept for 400 days. The operator may name another
        `tenant`, or `*` for all."""
        asked = {"by": by, "since": since, "until": until, "tenant": tenant}
        return Call("GET", at("v1", "usage"), answer(Usage), query=asked)

    @verb
    def performance(
        self,
        *,
        by: Width | str = Width.HOUR,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        queue: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
    ) -> Call[PerformanceAnswer]:
        """How messages fared that ended at or after `since` and before `until`: for each queue and
        type how many were done, failed or were discarded, and percentiles of waits and runs; by
        `minute` (the last hour, kept for two days), `hour` (24 hours) or `day` (30 days; both kept
        for 90)."""
        asked = {"by": by, "since": since, "until": until, "queue": queue, "type": type}
        return Call("GET", at("v1", "performance"), answer(PerformanceAnswer), query=asked)

    @verb
    def capacity(self, *, hours: int = 24) -> Call[Capacity]:
        """Whether the workers that run keep up with the slots of the coming hours: what each queue,
        named limit and endpoint lets through, and when one falls behind."""
        from tickwork.core.queue.capacity import Capacity

        return Call("GET", at("v1", "capacity"), answer(Capacity), query={"hours": hours})

    @verb
    def cluster(self) -> Call[ClusterView]:
        """The nodes with their leases and the shards they lead, and shards without a leader."""
        return Call("GET", at("v1", "cluster"), answer(ClusterView))

    @verb
    def pause_all(self) -> Call[ClusterView]:
        """Pauses everything: no message of any tenant is handled until `resume_all`."""
        path = at("v1", "cluster", "pause")
        return Call("POST", path, answer(ClusterView), repeat=Repeat.SAFE)

    @verb
    def resume_all(self) -> Call[ClusterView]:
        """Ends the pause of everything."""
        path = at("v1", "cluster", "resume")
        return Call("POST", path, answer(ClusterView), repeat=Repeat.SAFE)

    @verb
    def widen_windows(self, seconds: int) -> Call[ClusterView]:
        """Spreads the firings of all schedules over at least so many seconds, except for those with
        `fire_window_seconds=0`. It holds for slots that are planned from now on; 0 ends it."""
        path, body = at("v1", "cluster", "widen"), {"seconds": seconds}
        return Call("POST", path, answer(ClusterView), body=body, repeat=Repeat.SAFE)

    @verb
    def topology(self) -> Call[Topology]:
        """The queues with their settings, who consumes them, and the subscriptions."""
        from tickwork.core.topology import Topology

        return Call("GET", at("v1", "topology"), answer(Topology))

    @verb
    def why(self, reference: str) -> Plan[Wait]:
        """Explains what a message, a dead letter, a delivery, an endpoint (or its name) or a run
        waits for, by its id: since when, until when, and what happens next; and the slot of a
        schedule, by the `webhook-id` of its webhook. `client.schedules.why` explains schedules."""
        asked = {
            Prefix.RUN: runs.why_run(reference),
            Prefix.ENDPOINT: Call("GET", at("v1", "endpoints", reference, "why"), answer(Wait)),
            Prefix.MESSAGE: Call("GET", at("v1", "messages", reference, "why"), answer(Wait)),
            Prefix.DEAD_LETTER: Call("GET", at("v1", "dead", reference, "why"), answer(Wait)),
            Prefix.DELIVERY: Call("GET", at("v1", "deliveries", reference, "why"), answer(Wait)),
        }
        prefix, is_prefixed, _ = reference.partition("_")
        if is_prefixed and prefix != Prefix.RUN and prefix in asked:
            asked = {Prefix(prefix): asked[Prefix(prefix)]}
        for call in asked.values():
            try:
                found: Wait = yield call
            except NotFound:
                continue
            return found
        raise NotFound("message, dead letter, delivery, endpoint or run", reference)

    @verb
    def search(self, text: str) -> Call[Findings]:
        """Things of all kinds by an id, or by a part of a name, key or correlation id."""
        return Call("GET", at("v1", "search"), answer(Findings), query={"q": text})

    @verb
    def trace(self, reference: str) -> Call[Trace]:
        """Everything of one correlation, as a tree: messages, dead letters, deliveries, runs with
        their steps, firings. `reference` is a correlation id, or the id of a message or run."""
        return Call("GET", at("v1", "trace", reference), answer(Trace))

    @verb
    def health(self) -> Call[HealthAnswer]:
        """Whether the server runs, and its version. Needs no key."""
        return Call("GET", at("healthz"), answer(HealthAnswer))

    @verb
    def readiness(self) -> Call[Readiness]:
        """Whether the server reaches its database, and which roles no process has. Needs no key."""
        return Call("GET", at("readyz"), answer(Readiness))

    @verb
    def metrics(self) -> Call[str]:
        """The metrics of the server's process, in the text format of Prometheus."""
        return Call("GET", at("metrics"), lambda raw: raw.decode(), headers={"Accept": "*/*"})


class Client(Verbs[Async]):
    """A client for asyncio, with the verbs of an app. Tasks of one event loop may share it.

    Args:
        url: The address of the server; by default `TICKWORK_URL`.
        key: An API key or a JWT; by default `TICKWORK_KEY`.
        tenant: The tenant that an operator acts for; by default that of the key.
        timeout_seconds: Seconds that one request may take.
        retry_seconds: Seconds for which a request is repeated when the server cannot be reached or
            is at a limit; 0 for never. A request that could have a second effect is not repeated.
        transport: What sends the requests, for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: AsyncTransport | None = None,
    ) -> None:
        server = _server(url, key, tenant, timeout_seconds, retry_seconds)
        self._own = AsyncRunner(server, transport or AsyncHttp())
        super().__init__(self._own, server)

    def __repr__(self) -> str:
        return f"Client({self._own.server.name!r})"

    async def stream(self, *, after: str | None = None) -> AsyncGenerator[StreamedEvent]:
        """Yields what happens in the tenant, as it happens, until the server ends the stream. Each
        event is a hint to read again what it names. `after` is the id of the last event seen, of
        the last day. Raises `ServiceUnavailable` if the connection is lost."""
        lines = EventLines(self._own.server)
        async for piece in self._own.transport.pieces(stream_call(self._own.server, after)):
            for event in lines.events(piece):
                yield event

    async def close(self) -> None:
        """Closes the connections."""
        await self._own.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class SyncClient(Verbs[Sync]):
    """A client for plain code, with the verbs of an app. Threads may share it.

    Args:
        url: The address of the server; by default `TICKWORK_URL`.
        key: An API key or a JWT; by default `TICKWORK_KEY`.
        tenant: The tenant that an operator acts for; by default that of the key.
        timeout_seconds: Seconds that one request may take.
        retry_seconds: Seconds for which a request is repeated when the server cannot be reached or
            is at a limit; 0 for never. A request that could have a second effect is not repeated.
        transport: What sends the requests, for tests.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        tenant: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        transport: SyncTransport | None = None,
    ) -> None:
        server = _server(url, key, tenant, timeout_seconds, retry_seconds)
        self._own = SyncRunner(server, transport or SyncHttp())
        super().__init__(self._own, server)

    def __repr__(self) -> str:
        return f"SyncClient({self._own.server.name!r})"

    def stream(self, *, after: str | None = None) -> Generator[StreamedEvent]:
        """Yields what happens in the tenant, as it happens, until the server ends the stream. Each
        event is a hint to read again what it names. `after` is the id of the last event seen, of
        the last day. Raises `ServiceUnavailable` if the connection is lost."""
        lines = EventLines(self._own.server)
        for piece in self._own.transport.pieces(stream_call(self._own.server, after)):
            yield from lines.events(piece)

    def close(self) -> None:
        """Closes the connections."""
        self._own.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _server(
    url: str | None,
    key: str | None,
    tenant: str | None,
    timeout_seconds: float,
    retry_seconds: float,
) -> Server:
    chosen: Any = url if url is not None else os.environ.get(URL_VARIABLE)
    if not chosen:
        fault = f"is missing; give the address of a server, or set {URL_VARIABLE}"
        raise InvalidInput([FieldError("url", fault)])
    return Server(
        checked_url(chosen),
        key if key is not None else os.environ.get(KEY_VARIABLE),
        tenant,
        timeout_seconds,
        retry_seconds,
    )
