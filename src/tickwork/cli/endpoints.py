"""`tickwork endpoints`: the addresses that receive events, their secrets and their health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

from tickwork.cli.endpoint_options import (
    Concurrency,
    EndpointName,
    Fields,
    FirstByte,
    Header,
    NamedLimit,
    NoTypes,
    Ordered,
    Owner,
    RatePerSecond,
    Reason,
    SecretHeader,
    Signature,
    Timeout,
    Types,
    Url,
    fields_of,
)
from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Limit, Tenant, Yes
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    counted,
    fail,
    field_lines,
    local_time,
    print_json,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.session import ask
from tickwork.cli.store_session import (
    confirm,
    required,
    scope_of,
    whole_number,
    with_context,
)
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from tickwork.client.answers import EndpointAnswer
    from tickwork.client.client import Client
    from tickwork.core.delivery.endpoint import EndpointStats, Health

T = TypeVar("T")

app = typer.Typer(cls=Group, help="Endpoints: addresses that receive published events.")

LISTED = 100

_OPTIONS = OPTION_OF_FIELD | {
    "name": "ENDPOINT",
    "endpoint": "ENDPOINT",
    "url": "--url",
    "types": "--type",
    "owner": "--owner",
    "concurrency": "--concurrency",
    "reason": "--reason",
    "signature": "--signature",
}


@app.command("list", cls=Command)
def list_command(
    limit: Limit = None, database: Database = None, tenant: Tenant = None, as_json: Json = False
) -> None:
    """List endpoints by name, with their health."""
    most = whole_number(limit, "--limit", LISTED)
    found = _run(database, tenant, lambda client: client.endpoints.list(limit=most))
    if as_json:
        print_json(found)
        return
    heading = ("endpoint", "status", "types", "failures", "url")
    print_table(heading, _rows(found), none="there are no endpoints")


@app.command("show", cls=Command)
def show_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show an endpoint: its settings, its health, and why it is disabled."""
    which = required(name, "ENDPOINT")
    _show(_run(database, tenant, lambda client: client.endpoints.get(which)), as_json=as_json)


@app.command("create", cls=Command)
def create_command(
    name: EndpointName = None,
    url: Url = None,
    types: Types = None,
    no_types: NoTypes = False,
    owner: Owner = None,
    header: Header = None,
    secret_header: SecretHeader = None,
    ordered: Ordered = None,
    rate: RatePerSecond = None,
    concurrency: Concurrency = None,
    limit: NamedLimit = None,
    timeout: Timeout = None,
    first_byte: FirstByte = None,
    signature: Signature = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create an endpoint and print its signing secret, which is not shown again, or its public
    key."""
    which = required(name, "ENDPOINT")
    given = fields_of(
        url=url,
        types=types,
        no_types=no_types,
        owner=owner,
        header=header,
        secret_header=secret_header,
        ordered=ordered,
        rate=rate,
        concurrency=concurrency,
        limit=limit,
        timeout=timeout,
        first_byte=first_byte,
        signature=signature,
        fields=fields,
    )
    if "types" not in given:
        types_or_none = "give --type, --type '*' for all published events, or --no-types for none"
        fail(types_or_none, code=EXIT_BAD_USAGE)
    made = _run(
        database,
        tenant,
        lambda client: client.endpoints.create(which, **{"url": None, **given}),
        create=True,
    )
    if as_json:
        print_json(made)
        return
    shown = "signing secret, shown once" if made.signature == "v1" else "public key"
    print_lines([
        f"created {made.name}; its {shown}:",
        made.secret or "",
    ])  # fmt: skip


@app.command("update", cls=Command)
def update_command(
    name: EndpointName = None,
    url: Url = None,
    types: Types = None,
    no_types: NoTypes = False,
    owner: Owner = None,
    header: Header = None,
    secret_header: SecretHeader = None,
    ordered: Ordered = None,
    rate: RatePerSecond = None,
    concurrency: Concurrency = None,
    limit: NamedLimit = None,
    timeout: Timeout = None,
    first_byte: FirstByte = None,
    signature: Signature = None,
    fields: Fields = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Change the given settings of an endpoint; the others stay."""
    which = required(name, "ENDPOINT")
    given = fields_of(
        url=url,
        types=types,
        no_types=no_types,
        owner=owner,
        header=header,
        secret_header=secret_header,
        ordered=ordered,
        rate=rate,
        concurrency=concurrency,
        limit=limit,
        timeout=timeout,
        first_byte=first_byte,
        signature=signature,
        fields=fields,
    )
    if not given:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    changed = _run(database, tenant, lambda client: client.endpoints.update(which, **given))
    _show(changed, as_json=as_json)


@app.command("rotate-secret", cls=Command)
def rotate_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Replace the signing secret and print the new one; the one before stays valid for a day.

    Rotate twice to end a leaked secret at once: only the last two are valid."""
    which = required(name, "ENDPOINT")
    secret = _run(database, tenant, lambda client: client.endpoints.rotate_secret(which))
    if as_json:
        print_json({"endpoint": which, "secret": secret})
    else:
        typer.echo(secret)


@app.command("public-keys", cls=Command)
def public_keys_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Print the public keys of an endpoint with the signature v1a, the current one first."""
    which = required(name, "ENDPOINT")
    from tickwork.ops.endpoints import public_keys

    scope = scope_of(tenant)
    keys = with_context(
        database,
        scope,
        lambda context: public_keys(context, which),
        names=_OPTIONS,
    )
    if as_json:
        print_json({"endpoint": which, "public_keys": keys})
    else:
        print_lines(keys)


@app.command("test", cls=Command)
def try_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send one event of type endpoint.test now, and show the answer; changes nothing else."""
    which = required(name, "ENDPOINT")
    attempt = _run(database, tenant, lambda client: client.endpoints.test(which))
    if as_json:
        print_json(attempt)
    elif attempt.is_delivered:
        typer.echo(f"delivered: {attempt.code} in {attempt.took_seconds:.2f} s")
    else:
        typer.echo(f"not delivered: {attempt.error}")
    if not attempt.is_delivered:
        raise typer.Exit(EXIT_FAILED)


@app.command("disable", cls=Command)
def disable_command(
    name: EndpointName = None,
    reason: Reason = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Stop deliveries to an endpoint; what is published meanwhile is kept."""
    which = required(name, "ENDPOINT")
    why = reason or "disabled by hand"
    changed = _run(database, tenant, lambda client: client.endpoints.disable(which, why))
    _show(changed, as_json=as_json)


@app.command("enable", cls=Command)
def enable_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Go on with deliveries to an endpoint, oldest first; closes an open breaker, too."""
    which = required(name, "ENDPOINT")
    changed = _run(database, tenant, lambda client: client.endpoints.enable(which))
    _show(changed, as_json=as_json)


@app.command("delete", cls=Command)
def delete_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete an endpoint and the deliveries that wait for it."""
    which = required(name, "ENDPOINT")
    stats = _run(database, tenant, lambda client: client.endpoints.stats(which))
    confirm(f"Delete {which} and {_waiting(stats.waiting)}?", yes=yes)
    waited = _run(database, tenant, lambda client: client.endpoints.delete(which))
    if as_json:
        print_json({"endpoint": which, "deleted": True, "waiting": waited})
    else:
        typer.echo(f"{which} is deleted, with {_waiting(waited)}")


@app.command("stats", cls=Command)
def stats_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the deliveries and attempts of an endpoint in the last seven days."""
    which = required(name, "ENDPOINT")
    stats = _run(database, tenant, lambda client: client.endpoints.stats(which))
    if as_json:
        print_json(stats)
    else:
        print_lines(field_lines(_rounded(stats)))


def _rounded(stats: EndpointStats) -> EndpointStats:
    """The numbers with times in milliseconds."""
    from msgspec import structs

    times = {name: getattr(stats, name) for name in ("p50_seconds", "p95_seconds")}
    known = {name: round(time, 3) for name, time in times.items() if time is not None}
    return structs.replace(stats, **known)


def _run(
    database: str | None,
    tenant: str | None,
    work: Callable[[Client], Awaitable[T]],
    *,
    create: bool = False,
) -> T:
    return ask(database, tenant, work, names=_OPTIONS, create=create)


def _show(endpoint: EndpointAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(endpoint)
    else:
        print_lines(_lines(endpoint))


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
    for label, value in _settings(endpoint):
        if value:
            yield f"{label}: {value}"


def _settings(endpoint: EndpointAnswer) -> Iterator[tuple[str, object]]:
    """The settings besides URL and types, with their labels; none is empty."""
    yield "description", endpoint.description
    yield "owner", endpoint.owner
    yield "headers", ", ".join(f"{name}={value}" for name, value in endpoint.headers.items())
    yield "secret headers", ", ".join(endpoint.secret_headers)
    yield "signature", endpoint.signature
    yield "ordered", "yes" if endpoint.ordered else None
    yield "rate", _with_unit(endpoint.rate_per_second, "a second on each node")
    yield "concurrency", _with_unit(endpoint.concurrency, "on each node")
    yield "limit", endpoint.limit
    yield "timeout", _with_unit(endpoint.timeout_seconds, "s")
    yield "first byte", _with_unit(endpoint.first_byte_seconds, "s")
    waits = ", ".join(f"{second:g}" for second in endpoint.retry_seconds)
    yield "retries", f"after {waits} s" if waits else "none"
    yield "not retried", ", ".join(map(str, endpoint.permanent_statuses))
    yield "created", local_time(endpoint.created_at)
    yield "updated", local_time(endpoint.updated_at)


def _with_unit(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value:g} {unit}"


def _go_on(name: str) -> str:
    return f"to go on at once: `tickwork endpoints enable {name}`"


def _waiting(number: int) -> str:
    return counted(number, "waiting delivery", "waiting deliveries")


def _failing_since(health: Health) -> str:
    at = health.failing_since
    return "" if at is None else f", failing since {at:%Y-%m-%d %H:%M} UTC"


def _rows(endpoints: Iterable[EndpointAnswer]) -> Iterator[tuple[object, ...]]:
    for endpoint in endpoints:
        types = shortened(", ".join(endpoint.types), 40) or "none"
        yield endpoint.name, _status(endpoint), types, endpoint.health.failures_in_row, endpoint.url


def _status(endpoint: EndpointAnswer) -> str:
    if endpoint.disabled_at is not None:
        return "disabled"
    return "active" if endpoint.health.open_until is None else "failing"
