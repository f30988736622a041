"""`tickwork endpoints`: the addresses that receive events, their secrets and their health."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Limit, Option, OptionsOf, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    Report,
    columns,
    counted,
    fail,
    field_lines,
    local_time,
    refuse,
    shortened,
)
from tickwork.cli.store_session import confirm
from tickwork.cli.values import json_object, pairs
from tickwork.core.options import names_of
from tickwork.core.options.declared import fields_of
from tickwork.core.options.endpoint import EndpointFields, EndpointOptions
from tickwork.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.endpoint import EndpointAnswer
    from tickwork.core.delivery.endpoint import EndpointStats, Health
    from tickwork.ops.context import Context

endpoints = Group("Endpoints: addresses that receive published events.")

LISTED = 100

EndpointName = Annotated[
    str, Argument("Name or id of the endpoint.", "ENDPOINT", fields=("name", "endpoint"))
]
Types = Annotated[
    list[str] | None,
    Option(
        "Type of published events, such as order.*, or * for all; repeatable.",
        "TYPE",
        name="--type",
    ),
]
NoTypes = Annotated[
    bool, Option("No published events; only schedules and queues that name it send to it.")
]
Headers = Annotated[
    list[str] | None,
    Option("Header of every delivery; repeatable.", "NAME=VALUE", name="--header", read=pairs),
]
SecretHeaders = Annotated[
    list[str] | None,
    Option(
        "The same, stored encrypted; repeatable.", "NAME=VALUE", name="--secret-header", read=pairs
    ),
]
Ordered = Annotated[
    bool | None,
    Option("Deliver one after the other, oldest first.", name="--ordered/--unordered"),
]
Settings = Annotated[
    EndpointFields,
    OptionsOf(
        {
            "types": Types,
            "headers": Headers,
            "secret_headers": SecretHeaders,
            "ordered": Ordered,
        }
    ),
]
Fields = Annotated[
    dict[str, Any] | None,
    Option(
        'Further fields of the API, such as {"retry_seconds": [5, 60]}; null: the default.',
        "JSON",
        read=json_object('{"retry_seconds": [5, 60]}'),
    ),
]
Reason = Annotated[str, Option("Why; shown with the endpoint.", "TEXT")]


def _chosen(
    settings: EndpointFields, further: dict[str, Any] | None, *, no_types: bool
) -> dict[str, Any]:
    """The fields that were given by options and by --fields; exits if --fields has one that there
    is not, or that an option gives, too."""
    from tickwork.core.fields import Reader

    chosen: dict[str, Any] = {**settings}
    if settings.get("types") and no_types:
        fail("give either --type or --no-types", code=EXIT_BAD_USAGE)
    if no_types:
        chosen["types"] = []
    further, faults = further or {}, list[FieldError]()
    reader = Reader(further, faults)
    hints = {"name": "the name of an endpoint stays; it is the argument ENDPOINT"}
    reader.refuse_unknown({*names_of(EndpointFields)}, hints)
    for name in further.keys() & chosen.keys():
        reader.fault(name, "is given by an option and in --fields; give it once")
    if faults:
        refuse(InvalidInput(faults), {})
    return chosen | further


def _status(endpoint: EndpointAnswer) -> str:
    if endpoint.disabled_at is not None:
        return "disabled"
    return "active" if endpoint.health.open_until is None else "failing"


def _types(endpoint: EndpointAnswer) -> str:
    return shortened(", ".join(endpoint.types), 40) or "none"


def _rounded(stats: EndpointStats) -> Iterator[str]:
    """The numbers, with times in milliseconds."""
    from msgspec import structs

    times = {name: getattr(stats, name) for name in ("p50_seconds", "p95_seconds")}
    known = {name: round(time, 3) for name, time in times.items() if time is not None}
    return field_lines(structs.replace(stats, **known))


def _lines(endpoint: EndpointAnswer) -> Iterator[str]:
    health = endpoint.health
    yield f"endpoint: {endpoint.name} ({endpoint.id})"
    yield f"url: {endpoint.method} {endpoint.url}"
    yield f"types: {', '.join(endpoint.types) or 'none, so it gets no published events'}"
    yield f"status: {_status(endpoint)}"
    if endpoint.disabled_reason is not None:
        yield f"disabled: {endpoint.disabled_at:%Y-%m-%d %H:%M} UTC, {endpoint.disabled_reason}"
    if health.failures_in_row:
        yield f"failures: {health.failures_in_row} in a row{_failing_since(health)}"
    if health.open_until is not None:
        yield f"next attempt: {local_time(health.open_until)}; {_go_on(endpoint.name)}"
    for name in fields_of(EndpointOptions):
        value = getattr(endpoint, name)
        if value is not None and name != "method" and (shown := _shown(name, value)):
            yield f"{_LABELS.get(name) or _label(name)}: {shown}"
    yield f"created: {local_time(endpoint.created_at)}"
    yield f"updated: {local_time(endpoint.updated_at)}"


_LABELS = {
    "rate_per_second": "rate",
    "retry_seconds": "retries",
    "permanent_statuses": "not retried",
}
"""What a setting is called, if it is not called by its name."""


def _label(name: str) -> str:
    return name.removesuffix("_seconds").replace("_", " ")


def _shown(name: str, value: Any) -> str:
    """A setting as a text; an empty one is not shown."""
    match name:
        case "headers":
            return ", ".join(f"{header}={text}" for header, text in value.items())
        case "secret_headers" | "permanent_statuses":
            return ", ".join(map(str, value))
        case "ordered":
            return "yes" if value else ""
        case "rate_per_second":
            return f"{value:g} a second on each node"
        case "concurrency":
            return f"{value} on each node"
        case "retry_seconds":
            waits = ", ".join(f"{second:g}" for second in value)
            return f"after {waits} s" if waits else "none"
    return f"{value:g} s" if name.endswith("_seconds") else str(value)


def _go_on(name: str) -> str:
    return f"to go on at once: `tickwork endpoints enable {name}`"


def _waiting(number: int) -> str:
    return counted(number, "waiting delivery", "waiting deliveries")


def _failing_since(health: Health) -> str:
    at = health.failing_since
    return "" if at is None else f", failing since {at:%Y-%m-%d %H:%M} UTC"


@endpoints.client_command(
    "list",
    show=columns(
        ("endpoint", "name"),
        ("status", _status),
        ("types", _types),
        ("failures", "health.failures_in_row"),
        "url",
        none="there are no endpoints",
    ),
)
async def list_endpoints(client: Client, limit: Limit = LISTED) -> tuple[EndpointAnswer, ...]:
    """List endpoints by name, with their health."""
    return await client.endpoints.list(limit=limit)


@endpoints.client_command("show", show=_lines)
async def show_endpoint(client: Client, name: EndpointName) -> EndpointAnswer:
    """Show an endpoint: its settings, its health, and why it is disabled."""
    return await client.endpoints.get(name)


@endpoints.client_command("create", create=True)
async def create_endpoint(
    client: Client,
    name: EndpointName,
    settings: Settings,
    no_types: NoTypes = False,
    fields: Fields = None,
) -> Report:
    """Create an endpoint and print its signing secret, which is not shown again, or its public
    key."""
    chosen = _chosen(settings, fields, no_types=no_types)
    if "types" not in chosen:
        types_or_none = "give --type, --type '*' for all published events, or --no-types for none"
        fail(types_or_none, code=EXIT_BAD_USAGE)
    made = await client.endpoints.create(name, **{"url": None, **chosen})
    shown = "signing secret, shown once" if made.signature == "v1" else "public key"
    return Report(made, f"created {made.name}; its {shown}:", made.secret or "")


@endpoints.client_command("update", show=_lines)
async def update_endpoint(
    client: Client,
    name: EndpointName,
    settings: Settings,
    no_types: NoTypes = False,
    fields: Fields = None,
) -> EndpointAnswer:
    """Change the given settings of an endpoint; the others stay."""
    chosen = _chosen(settings, fields, no_types=no_types)
    if not chosen:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    return await client.endpoints.update(name, **chosen)


@endpoints.client_command("rotate-secret")
async def rotate_secret(client: Client, name: EndpointName) -> Report:
    """Replace the signing secret and print the new one; the one before stays valid for a day.

    Rotate twice to end a leaked secret at once: only the last two are valid."""
    secret = await client.endpoints.rotate_secret(name)
    return Report({"endpoint": name, "secret": secret}, secret)


@endpoints.database_command("public-keys")
async def public_keys(context: Context, name: EndpointName) -> Report:
    """Print the public keys of an endpoint with the signature v1a, the current one first."""
    from tickwork.ops import endpoints as verbs

    keys = await verbs.public_keys(context, name)
    return Report({"endpoint": name, "public_keys": keys}, *keys)


@endpoints.client_command("test")
async def send_test_event(client: Client, name: EndpointName) -> Report:
    """Send one event of type endpoint.test now, and show the answer; changes nothing else."""
    attempt = await client.endpoints.test(name)
    if attempt.is_delivered:
        return Report(attempt, f"delivered: {attempt.code} in {attempt.took_seconds:.2f} s")
    return Report(attempt, f"not delivered: {attempt.error}", exit_code=EXIT_FAILED)


@endpoints.client_command("disable", show=_lines)
async def disable_endpoint(
    client: Client, name: EndpointName, reason: Reason = "disabled by hand"
) -> EndpointAnswer:
    """Stop deliveries to an endpoint; what is published meanwhile is kept."""
    return await client.endpoints.disable(name, reason)


@endpoints.client_command("enable", show=_lines)
async def enable_endpoint(client: Client, name: EndpointName) -> EndpointAnswer:
    """Resume deliveries to an endpoint, oldest first; closes an open breaker, too."""
    return await client.endpoints.enable(name)


@endpoints.client_command("delete")
async def delete_endpoint(client: Client, name: EndpointName, yes: Yes = False) -> Report:
    """Delete an endpoint and the deliveries that wait for it."""
    stats = await client.endpoints.stats(name)
    confirm(f"Delete {name} and {_waiting(stats.waiting)}?", yes=yes)
    waited = await client.endpoints.delete(name)
    answer = {"endpoint": name, "deleted": True, "waiting": waited}
    return Report(answer, f"{name} is deleted, with {_waiting(waited)}")


@endpoints.client_command("stats", show=_rounded)
async def show_stats(client: Client, name: EndpointName) -> EndpointStats:
    """Show the deliveries and attempts of an endpoint in the last seven days."""
    return await client.endpoints.stats(name)
