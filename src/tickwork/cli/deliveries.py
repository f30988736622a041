"""`tickwork events` and `tickwork deliveries`: publish events, and see what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import (
    OPTION_OF_FIELD,
    Argument,
    Database,
    Json,
    LimitText,
    Option,
    Tenant,
    Yes,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    counted,
    fail,
    local_time,
    print_json,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.schedule_output import choice, instant_of, json_of
from tickwork.cli.session import ask, reference_of
from tickwork.cli.store_session import confirm, number, required, whole_number

if TYPE_CHECKING:
    from tickwork.client.answers import DeliveryAnswer
    from tickwork.client.client import Client
    from tickwork.client.run_answers import Wait
    from tickwork.core.delivery.endpoint import Attempt

events = Group(help="Events: publish to queues and endpoints.")
app = Group(help="Deliveries of events to endpoints: list, show, send again.")

LISTED = 100
NAMED = 1_000
"""Number of endpoints whose names a list of deliveries shows; others by their id."""
STATUSES = ("waiting", "delivered", "dead")

EventType = Annotated[
    str | None, Argument(metavar="TYPE", help="Type of the event, such as order.paid.")
]
Data = Annotated[str | None, Argument(metavar="DATA", help="The event's data as JSON.")]
Key = Annotated[str | None, Option(metavar="KEY", help="Key that orders it in queues.")]
EventId = Annotated[
    str | None, Option(name="--event-id", metavar="ID", help="Publish it once with this id.")
]
Owner = Annotated[str | None, Option(metavar="OWNER", help="Owner of the event.")]
DeliveryId = Annotated[str | None, Argument(metavar="ID", help="Id of the delivery.")]
OfEndpoint = Annotated[
    str | None, Option(name="--endpoint", metavar="NAME", help="Only of this endpoint.")
]
Status = Annotated[str | None, Option(metavar="|".join(STATUSES), help="Only with this status.")]
Undelivered = Annotated[
    bool, Option(name="--undelivered", help="Only what did not arrive: waiting or dead.")
]
Since = Annotated[str | None, Option(metavar="TIME", help="Published at or after this time.")]
Until = Annotated[str | None, Option(metavar="TIME", help="Published before this time.")]
Rate = Annotated[
    str | None,
    Option(name="--rate-per-second", metavar="N", help="Deliveries per second; default 10."),
]
EndpointName = Annotated[
    str | None, Argument(metavar="ENDPOINT", help="Name or id of the endpoint.")
]

_OPTIONS = OPTION_OF_FIELD | {
    "type": "TYPE",
    "data": "DATA",
    "owner": "--owner",
    "key": "--key",
    "event_id": "--event-id",
    "endpoint": "--endpoint",
}


@events.plain_command("publish")
def publish_command(
    event_type: EventType = None,
    data: Data = None,
    key: Key = None,
    event_id: EventId = None,
    owner: Owner = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Publish an event to the queues and endpoints that receive its type."""
    kind, given = required(event_type, "TYPE"), None if data is None else json_of(data, "DATA")
    # As a server does: the same on a database and with --server.
    own_id = event_id or f"evt_{token_hex(16)}"
    made = ask(
        database,
        tenant,
        lambda client: client.events.publish(kind, given, key=key, event_id=own_id, owner=owner),
        names=_OPTIONS,
    )
    if as_json:
        print_json(made)
    else:
        queues, endpoints = counted(made.queues, "queue"), counted(made.endpoints, "endpoint")
        line = f"event {made.event_id} of type {kind} goes to {queues} and {endpoints}"
        again = "; it was published before, and those that have it do not get it again"
        print_lines([line + (again if made.is_repeat else "")])


@app.plain_command("list")
def list_command(
    endpoint: OfEndpoint = None,
    status: Status = None,
    undelivered: Undelivered = False,
    since: Since = None,
    until: Until = None,
    limit: LimitText = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """List deliveries, newest first."""
    from tickwork.core.delivery.endpoint import DeliveryStatus

    most = whole_number(limit, "--limit", LISTED)
    start = _time(since, "--since")
    end = _time(until, "--until")
    wanted = None if status is None else choice(DeliveryStatus, status, "--status")
    _check_span(start, end)

    async def find(client: Client) -> tuple[Sequence[DeliveryAnswer], dict[str, str]]:
        found = await client.deliveries.list(
            endpoint=endpoint,
            status=wanted,
            undelivered=undelivered,
            since=start,
            until=end,
            limit=most,
        )
        return found, {} if as_json or not found else await _names(client)

    found, names = ask(database, tenant, find, names=_OPTIONS)
    if as_json:
        print_json([_without_history(delivery) for delivery in found])
        return
    heading = ("delivery", "endpoint", "published_at", "type", "status", "attempts", "last")
    print_table(heading, _rows(found, names), none="there are no such deliveries")


@app.plain_command("show")
def show_command(
    delivery: DeliveryId = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show a delivery and all its attempts."""
    delivery_id = reference_of(delivery, "ID", "delivery", database, tenant)
    from tickwork.errors import NotFound

    async def find(client: Client) -> tuple[DeliveryAnswer, str | None]:
        found = await client.deliveries.get(delivery_id)
        try:
            return found, (await client.endpoints.get(found.endpoint_id)).name
        except NotFound:  # It was deleted.
            return found, None

    found, name = ask(database, tenant, find)
    if as_json:
        print_json(found)
    else:
        print_lines(_lines(found, name))


@app.plain_command("resend")
def resend_command(
    delivery: DeliveryId = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send a delivery again, also one that arrived."""
    delivery_id = reference_of(delivery, "ID", "delivery", database, tenant)

    async def resend(client: Client) -> tuple[DeliveryAnswer, Wait | None]:
        await client.deliveries.resend(delivery_id)
        sent = await client.deliveries.get(delivery_id)
        return sent, await _wait(client, sent.endpoint_id)

    sent, wait = ask(database, tenant, resend)
    if as_json:
        print_json({"delivery": sent.id, "resent": True} | _wait_fields(wait))
    elif wait is None:
        click.echo(f"{sent.id} is sent again")
    else:
        click.echo(f"{sent.id} waits. {wait.answer} {wait.next}")


@app.plain_command("recover")
def recover_command(
    name: EndpointName = None,
    since: Since = None,
    until: Until = None,
    rate: Rate = None,
    yes: Yes = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send everything again that an endpoint did not get in a span of time."""
    from tickwork.core.delivery.endpoint import RECOVER_RATE_PER_SECOND

    which, start = required(name, "ENDPOINT"), instant_of(since, "--since")
    pace, end = (
        RECOVER_RATE_PER_SECOND if rate is None else number(rate, "--rate-per-second"),
        _time(until, "--until"),
    )
    _check_span(start, end)
    names = _OPTIONS | {"endpoint": "ENDPOINT"}
    endpoint = ask(database, tenant, lambda client: client.endpoints.get(which), names=names)
    confirm(f"Send again what {which} did not get since {local_time(start)}?", yes=yes)

    async def recover(client: Client) -> tuple[int, Wait | None]:
        sent = await client.deliveries.recover(which, since=start, until=end, rate_per_second=pace)
        return sent, await _wait(client, str(endpoint.id)) if sent else None

    sent, wait = ask(database, tenant, recover, names=names)
    if as_json:
        print_json({"endpoint": which, "resent": sent} | _wait_fields(wait))
    elif wait is None:
        verb = "is" if sent == 1 else "are"
        click.echo(f"{_deliveries(sent)} {verb} sent again, {pace:g} a second")
    else:
        verb = "waits" if sent == 1 else "wait"
        click.echo(f"{_deliveries(sent)} {verb}. {wait.answer} {wait.next}")


async def _wait(client: Client, endpoint_id: str) -> Wait | None:
    """What keeps an endpoint from getting deliveries now."""
    found = await client.why(endpoint_id)
    return None if found.code == "active" else found


def _wait_fields(wait: Wait | None) -> dict[str, object]:
    if wait is None:
        return {"waits_for": None, "waits_until": None}
    return {"waits_for": wait.code, "waits_until": wait.until}


def _time(text: str | None, name: str) -> datetime | None:
    return None if text is None else instant_of(text, name)


def _check_span(since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None and until <= since:
        fail("--until: must be after --since", code=EXIT_BAD_USAGE)


def _deliveries(number: int) -> str:
    return counted(number, "delivery", "deliveries")


async def _names(client: Client) -> dict[str, str]:
    """The names of endpoints by their id."""
    return {
        str(endpoint.id): endpoint.name for endpoint in await client.endpoints.list(limit=NAMED)
    }


def _without_history(delivery: DeliveryAnswer) -> dict[str, object]:
    """A delivery of a list, which does not have the attempts."""
    from msgspec import structs

    return {name: value for name, value in structs.asdict(delivery).items() if name != "history"}


def _rows(
    deliveries: Iterable[DeliveryAnswer], names: Mapping[str, str]
) -> Iterator[tuple[object, ...]]:
    for delivery in deliveries:
        last = delivery.last_error or delivery.last_code
        yield (
            *(
                delivery.id,
                names.get(delivery.endpoint_id, delivery.endpoint_id),
                delivery.published_at,
            ),
            *(delivery.type, delivery.status, delivery.attempts),
            shortened(None if last is None else str(last)),
        )


def _lines(delivery: DeliveryAnswer, endpoint: str | None) -> Iterator[str]:
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
