"""`tickwork events` and `tickwork deliveries`: publish events, and see what became of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.endpoints import EndpointName
from tickwork.cli.options import Argument, Json, Limit, Option, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    Report,
    columns,
    counted,
    fail,
    local_time,
    shortened,
)
from tickwork.cli.store_session import confirm
from tickwork.cli.values import choice, instant, json_value

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.delivery import DeliveryAnswer, DeliveryHistory
    from tickwork.core.answers.wait import Wait
    from tickwork.core.delivery.endpoint import Attempt

events = Group("Events: publish to queues and endpoints.")
deliveries = Group("Deliveries of events to endpoints: list, show, send again.")

LISTED = 100
NAMED = 1_000
"""Number of endpoints whose names a list of deliveries shows; others by their id."""
STATUSES = ("waiting", "delivered", "dead")

EventType = Annotated[
    str, Argument("Type of the event, such as order.paid.", "TYPE", fields=("type",))
]
Data = Annotated[Any, Argument("The event's data as JSON.", "DATA", read=json_value)]
Key = Annotated[str, Option("Key that orders it in queues.", "KEY")]
EventId = Annotated[str, Option("Publish it once with this id.", "ID")]
Owner = Annotated[str, Option("Owner of the event.", "OWNER")]
DeliveryId = Annotated[str, Argument("Id of the delivery.", "ID", id_of="delivery")]
OfEndpoint = Annotated[str, Option("Only of this endpoint.", "NAME")]
Status = Annotated[str, Option("Only with this status.", "|".join(STATUSES))]
Undelivered = Annotated[bool, Option("Only what did not arrive: waiting or dead.")]
Since = Annotated[datetime, Option("Published at or after this time.", "TIME", read=instant)]
Until = Annotated[datetime, Option("Published before this time.", "TIME", read=instant)]
Rate = Annotated[float, Option("Deliveries per second; default 10.", "N")]


@events.client_command("publish")
async def publish(
    client: Client,
    kind: EventType,
    data: Data = None,
    key: Key | None = None,
    event_id: EventId | None = None,
    owner: Owner | None = None,
) -> Report:
    """Publish an event to the queues and endpoints that receive its type."""
    # As a server does: the same on a database and with --server.
    own_id = event_id or f"evt_{token_hex(16)}"
    made = await client.events.publish(kind, data, key=key, event_id=own_id, owner=owner)
    queues, endpoints = made.queues or 0, made.endpoints or 0
    receivers = f"{counted(queues, 'queue')} and {counted(endpoints, 'endpoint')}"
    line = f"event {made.event_id} of type {kind} goes to {receivers}"
    again = "; it was published before, and those that have it do not get it again"
    return Report(made, line + (again if made.is_repeat else ""))


@deliveries.client_command("list")
async def list_deliveries(
    client: Client,
    endpoint: OfEndpoint | None = None,
    status: Status | None = None,
    undelivered: Undelivered = False,
    since: Since | None = None,
    until: Until | None = None,
    limit: Limit = LISTED,
    as_json: Json = False,
) -> Report:
    """List deliveries, newest first."""
    from tickwork.core.delivery.endpoint import DeliveryStatus

    _check_span(since, until)
    found = await client.deliveries.list(
        endpoint=endpoint,
        status=choice(DeliveryStatus, status, "--status"),
        undelivered=undelivered,
        since=since,
        until=until,
        limit=limit,
    )
    if as_json:
        return Report(found)
    known = await client.endpoints.list(limit=NAMED) if found else ()
    names = {str(endpoint.id): endpoint.name for endpoint in known}

    def name_of(delivery: DeliveryAnswer) -> str:
        return names.get(delivery.endpoint_id, delivery.endpoint_id)

    shown = columns(
        *(("delivery", "id"), ("endpoint", name_of), "published_at", "type", "status"),
        *("attempts", ("last", _last)),
        none="there are no such deliveries",
    )
    return Report(found, *shown(found))


def _last(delivery: DeliveryAnswer) -> str:
    last = delivery.last_error or delivery.last_code
    return shortened(None if last is None else str(last))


def _lines(delivery: DeliveryHistory, endpoint: str | None) -> Iterator[str]:
    yield f"delivery: {delivery.id}"
    yield f"event: {delivery.type} ({delivery.event_id})"
    yield f"endpoint: {endpoint or 'deleted'} ({delivery.endpoint_id})"
    yield f"status: {delivery.status}, {counted(delivery.attempts, 'attempt')}"
    yield f"published: {local_time(delivery.published_at)}"
    for attempt in delivery.history:
        yield f"attempt {attempt.number}: {local_time(attempt.at)}: {_result(attempt)}"


def _result(attempt: Attempt) -> str:
    took = f"in {attempt.took_seconds:.2f} s"
    if attempt.is_delivered:
        return f"delivered, {attempt.code} {took}"
    shown = f": {shortened(attempt.excerpt)}" if attempt.excerpt else ""
    return f"{attempt.kind}, {attempt.error} {took}{shown}"


@deliveries.client_command("show")
async def show_delivery(client: Client, delivery: DeliveryId) -> Report:
    """Show a delivery and all its attempts."""
    from tickwork.errors import NotFound

    found = await client.deliveries.get(delivery)
    try:
        endpoint = (await client.endpoints.get(found.endpoint_id)).name
    except NotFound:
        endpoint = None  # It was deleted.
    return Report(found, *_lines(found, endpoint))


async def _wait(client: Client, endpoint_id: str) -> Wait | None:
    """What keeps an endpoint from getting deliveries now."""
    found = await client.why(endpoint_id)
    return None if found.code == "active" else found


def _wait_fields(wait: Wait | None) -> dict[str, object]:
    if wait is None:
        return {"waits_for": None, "waits_until": None}
    return {"waits_for": wait.code, "waits_until": wait.until}


def _check_span(since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None and until <= since:
        fail("--until: must be after --since", code=EXIT_BAD_USAGE)


@deliveries.client_command("resend")
async def resend(client: Client, delivery: DeliveryId) -> Report:
    """Send a delivery again, also one that arrived."""
    await client.deliveries.resend(delivery)
    sent = await client.deliveries.get(delivery)
    wait = await _wait(client, sent.endpoint_id)
    is_sent = f"{sent.id} is sent again"
    answer = {"delivery": sent.id, "resent": True} | _wait_fields(wait)
    return Report(answer, f"{sent.id} waits. {wait.answer} {wait.next}" if wait else is_sent)


@deliveries.client_command("recover")
async def recover(
    client: Client,
    endpoint: EndpointName,
    since: Since,
    until: Until | None = None,
    rate_per_second: Rate | None = None,
    yes: Yes = False,
) -> Report:
    """Send everything again that an endpoint did not get in a span of time."""
    from tickwork.core.delivery.endpoint import RECOVER_RATE_PER_SECOND

    pace = RECOVER_RATE_PER_SECOND if rate_per_second is None else rate_per_second
    _check_span(since, until)
    endpoint_id = str((await client.endpoints.get(endpoint)).id)
    confirm(f"Send again what {endpoint} did not get since {local_time(since)}?", yes=yes)
    sent = await client.deliveries.recover(endpoint, since=since, until=until, rate_per_second=pace)
    wait = await _wait(client, endpoint_id) if sent else None
    number = counted(sent, "delivery", "deliveries")
    if wait is None:
        line = f"{number} {'is' if sent == 1 else 'are'} sent again, {pace:g} a second"
    else:
        line = f"{number} {'waits' if sent == 1 else 'wait'}. {wait.answer} {wait.next}"
    return Report({"endpoint": endpoint, "resent": sent} | _wait_fields(wait), line)
