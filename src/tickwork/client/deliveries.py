"""Events and who receives them, over HTTP: `client.events`, `client.endpoints`,
`client.deliveries`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from tickwork.client.answers import Page
from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Plan,
    Repeat,
    answer,
    at,
    given,
    listed,
    nothing,
    part,
    texts_of,
    verb,
)
from tickwork.core.answers.delivery import DeliveryAnswer, DeliveryHistory
from tickwork.core.answers.endpoint import DeletedEndpoint, EndpointAnswer, Recovered, Secret
from tickwork.core.answers.ids import GivenId
from tickwork.core.delivery.endpoint import Attempt, DeliveryStatus, EndpointStats, Published
from tickwork.core.options.endpoint import EndpointFields, EndpointOptions

_ONE = answer(EndpointAnswer)
_ATTEMPTS = answer(Page[Attempt])


def _path(name: GivenId, *parts: str) -> str:
    return at("v1", "endpoints", name, *parts)


class Events(Noun[M]):
    """Publishes events."""

    @verb
    def publish(
        self,
        type: str,  # noqa: A002  the name of the field
        data: Any,
        *,
        key: str | None = None,
        event_id: str | None = None,
        owner: str | None = None,
    ) -> Call[Published]:
        """Publishes an event to the queues that subscribe to its type, and to the endpoints whose
        types match, in one transaction. The same `event_id` is published once."""
        fields = given(key=key, event_id=event_id, owner=owner)
        return Call(
            "POST",
            at("v1", "events"),
            answer(Published),
            body={"type": type, "data": data, **fields},
            repeat=Repeat.KEYED,
        )


class Endpoints(Noun[M]):
    """The addresses that receive events. An endpoint is given by its name or its id."""

    @verb
    def create(
        self,
        name: str,
        *,
        url: str,
        types: str | Sequence[str],
        **options: Unpack[EndpointOptions],
    ) -> Call[EndpointAnswer]:
        """Creates an endpoint. Its signing secret, `.secret`, is not shown again.

        `types` are types of events, or prefixes such as `order.*`. `EndpointOptions` describes the
        options.
        """
        return Call(
            "POST",
            at("v1", "endpoints"),
            _ONE,
            body={"name": name, "url": url, "types": texts_of(types), **given(**options)},
            repeat=Repeat.KEYED,
            secret="secret",  # noqa: S106  the name of a field
        )

    @verb
    def get(self, name: GivenId) -> Call[EndpointAnswer]:
        """One endpoint with its settings and its health. Raises `NotFound`."""
        return Call("GET", _path(name), _ONE)

    @listed
    def list(self, *, limit: int | None = None) -> Pages[EndpointAnswer]:
        """Endpoints by name."""
        return Pages(at("v1", "endpoints"), EndpointAnswer, limit)

    @verb
    def update(self, name: GivenId, **fields: Unpack[EndpointFields]) -> Call[EndpointAnswer]:
        """Changes the given fields; None means the default again. What waits is delivered with the
        new ones. `secret_headers` replaces all of them."""
        return Call("PATCH", _path(name), _ONE, body=fields, repeat=Repeat.SAFE)

    @verb
    def rotate_secret(self, name: GivenId) -> Call[str]:
        """Replaces the signing secret and returns the new one. The one before stays valid for a
        day: until then deliveries carry both signatures. Only the last two are valid."""
        return Call("POST", _path(name, "rotate"), part(Secret, lambda made: made.secret))

    @verb
    def test(self, name: GivenId) -> Call[Attempt]:
        """Sends an event of type `endpoint.test` at once and returns the attempt. Nothing is
        stored, and the result changes nothing: it closes no breaker."""
        return Call("POST", _path(name, "test"), answer(Attempt), wait_seconds=30.0)

    @verb
    def disable(self, name: GivenId, reason: str = "disabled by hand") -> Call[EndpointAnswer]:
        """Stops deliveries. What waits, and what is published meanwhile, is kept."""
        body = {"reason": reason}
        return Call("POST", _path(name, "disable"), _ONE, body=body, repeat=Repeat.SAFE)

    @verb
    def enable(self, name: GivenId) -> Call[EndpointAnswer]:
        """Resumes deliveries, oldest first; also at once, if the breaker is open."""
        return Call("POST", _path(name, "enable"), _ONE, repeat=Repeat.SAFE)

    @verb
    def delete(self, name: GivenId) -> Call[int]:
        """Deletes an endpoint, its secrets and what waits for it; returns how many waited."""
        waiting = part(DeletedEndpoint, lambda done: done.waiting)
        return Call("DELETE", _path(name), waiting, repeat=Repeat.NEVER)

    @verb
    def stats(self, name: GivenId, *, since: datetime | str | None = None) -> Call[EndpointStats]:
        """Deliveries and attempts since a time, by default of the last 7 days."""
        return Call("GET", _path(name, "stats"), answer(EndpointStats), query={"since": since})


class Deliveries(Noun[M]):
    """What became of published events, endpoint by endpoint."""

    @listed
    def list(
        self,
        *,
        endpoint: GivenId | None = None,
        status: DeliveryStatus | str | None = None,
        undelivered: bool = False,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        limit: int | None = None,
    ) -> Pages[DeliveryAnswer]:
        """Deliveries, newest first. `status` is waiting, delivered or dead; `undelivered` selects
        those that are waiting or dead."""
        asked = {
            "endpoint": endpoint,
            "status": "undelivered" if undelivered else status,
            "since": since,
            "until": until,
        }
        return Pages(at("v1", "deliveries"), DeliveryAnswer, limit, asked)

    @verb
    def get(self, delivery_id: GivenId) -> Plan[DeliveryHistory]:
        """One delivery with its attempts, `.history`. Raises `NotFound`."""
        path = at("v1", "deliveries", delivery_id)
        found: DeliveryAnswer = yield Call("GET", path, answer(DeliveryAnswer))
        history: list[Attempt] = []
        cursor = None
        while True:
            asked = {"cursor": cursor}
            attempts: Page[Attempt] = yield Call("GET", f"{path}/attempts", _ATTEMPTS, query=asked)
            history += attempts.items
            cursor = attempts.next_cursor
            if cursor is None:
                return DeliveryHistory.with_attempts(found, tuple(history))

    @verb
    def resend(self, delivery_id: GivenId) -> Call[None]:
        """Sends a delivery again with the same id, also a delivered one. Raises `NotFound`."""
        return Call("POST", at("v1", "deliveries", delivery_id, "resend"), nothing)

    @verb
    def recover(
        self,
        endpoint: GivenId,
        *,
        since: datetime | str,
        until: datetime | str | None = None,
        rate_per_second: float = 10.0,
    ) -> Call[int]:
        """Sends everything again that was published in a span of time and did not arrive, oldest
        first, dead or waiting. Returns how many."""
        fields = given(since=since, until=until, rate_per_second=rate_per_second)
        recovered = part(Recovered, lambda done: done.recovered)
        return Call("POST", _path(endpoint, "recover"), recovered, body=fields)
