"""`tickwork endpoints`: the addresses that receive events, their secrets and their health."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import typer

from tickwork.cli.endpoint_options import (
    Concurrency,
    EndpointName,
    Header,
    NamedLimit,
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
    fail,
    field_lines,
    print_json,
    print_lines,
    print_table,
    shortened,
)
from tickwork.cli.store_session import (
    confirm,
    load_settings,
    required,
    scope_of,
    whole_number,
    with_store,
)
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from tickwork.core.delivery.endpoint import Endpoint
    from tickwork.core.model import Scope
    from tickwork.ops.stores import Store

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
    from tickwork.ops.endpoints import list_endpoints

    scope, most = scope_of(tenant), whole_number(limit, "--limit", LISTED)
    found = _run(database, scope, lambda store: list_endpoints(store, scope, limit=most))
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
    from tickwork.ops.endpoints import get_endpoint

    which, scope = required(name, "ENDPOINT"), scope_of(tenant)
    _show(_run(database, scope, lambda store: get_endpoint(store, scope, which)), as_json=as_json)


@app.command("create", cls=Command)
def create_command(
    name: EndpointName = None,
    url: Url = None,
    types: Types = None,
    owner: Owner = None,
    header: Header = None,
    secret_header: SecretHeader = None,
    ordered: Ordered = None,
    rate: RatePerSecond = None,
    concurrency: Concurrency = None,
    limit: NamedLimit = None,
    timeout: Timeout = None,
    signature: Signature = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Create an endpoint and print its signing secret, which is not shown again, or its public
    key."""
    from tickwork.ops.endpoints import create_endpoint
    from tickwork.wiring import guard, secret_box

    which, scope, settings = required(name, "ENDPOINT"), scope_of(tenant), load_settings(database)
    fields = fields_of(
        url,
        types,
        owner,
        header,
        secret_header,
        ordered,
        rate,
        concurrency,
        limit,
        timeout,
        signature,
    )
    made = _run(
        database,
        scope,
        lambda store: create_endpoint(
            store,
            scope,
            which,
            fields,
            box=secret_box(settings),
            check_url=guard(settings).check_url,
        ),
        create=True,
    )
    if as_json:
        print_json(made)
        return
    shown = "signing secret, shown once" if made.settings.signature == "v1" else "public key"
    print_lines([
        f"created {made.name}; its {shown}:",
        made.secret,
    ])  # fmt: skip


@app.command("update", cls=Command)
def update_command(
    name: EndpointName = None,
    url: Url = None,
    types: Types = None,
    owner: Owner = None,
    header: Header = None,
    secret_header: SecretHeader = None,
    ordered: Ordered = None,
    rate: RatePerSecond = None,
    concurrency: Concurrency = None,
    limit: NamedLimit = None,
    timeout: Timeout = None,
    signature: Signature = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Change the given settings of an endpoint; the others stay."""
    from tickwork.ops.endpoints import update_endpoint
    from tickwork.wiring import guard, secret_box

    which, scope, settings = required(name, "ENDPOINT"), scope_of(tenant), load_settings(database)
    fields = fields_of(
        url,
        types,
        owner,
        header,
        secret_header,
        ordered,
        rate,
        concurrency,
        limit,
        timeout,
        signature,
    )
    if not fields:
        fail("nothing to change; give an option, see --help", code=EXIT_BAD_USAGE)
    changed = _run(
        database,
        scope,
        lambda store: update_endpoint(
            store,
            scope,
            which,
            fields,
            box=lambda: secret_box(settings),
            check_url=guard(settings).check_url,
        ),
    )
    _show(changed, as_json=as_json)


@app.command("rotate-secret", cls=Command)
def rotate_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Replace the signing secret and print the new one; the old one stays valid for a day."""
    from tickwork.ops.endpoints import rotate_secret
    from tickwork.wiring import secret_box

    which, scope, settings = required(name, "ENDPOINT"), scope_of(tenant), load_settings(database)
    secret = _run(
        database,
        scope,
        lambda store: rotate_secret(store, scope, which, box=secret_box(settings)),
    )
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
    from tickwork.ops.endpoints import public_keys
    from tickwork.wiring import secret_box

    which, scope, settings = required(name, "ENDPOINT"), scope_of(tenant), load_settings(database)
    keys = _run(
        database, scope, lambda store: public_keys(store, scope, which, box=secret_box(settings))
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
    """Send one event of type endpoint.test now, and show the answer."""
    from tickwork.ops.endpoints import test_endpoint
    from tickwork.wiring import secret_box, webhook_channel

    which, scope, settings = required(name, "ENDPOINT"), scope_of(tenant), load_settings(database)
    attempt = _run(
        database,
        scope,
        lambda store: test_endpoint(
            store, scope, which, box=secret_box(settings), sink=webhook_channel(settings)
        ),
    )
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
    from tickwork.ops.endpoints import disable_endpoint

    which, scope = required(name, "ENDPOINT"), scope_of(tenant)
    why = reason or "disabled by hand"
    changed = _run(database, scope, lambda store: disable_endpoint(store, scope, which, why))
    _show(changed, as_json=as_json)


@app.command("enable", cls=Command)
def enable_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Go on with deliveries to an endpoint, oldest first."""
    from tickwork.ops.endpoints import enable_endpoint

    which, scope = required(name, "ENDPOINT"), scope_of(tenant)
    changed = _run(database, scope, lambda store: enable_endpoint(store, scope, which))
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
    from tickwork.ops.endpoints import delete_endpoint, endpoint_stats

    which, scope = required(name, "ENDPOINT"), scope_of(tenant)
    stats = _run(database, scope, lambda store: endpoint_stats(store, scope, which, since=None))
    confirm(f"Delete {which} and {stats.waiting} waiting deliveries?", yes=yes)
    waited = _run(database, scope, lambda store: delete_endpoint(store, scope, which))
    if as_json:
        print_json({"endpoint": which, "deleted": True, "waiting": waited})
    else:
        typer.echo(f"{which} is deleted, with {waited} waiting deliveries")


@app.command("stats", cls=Command)
def stats_command(
    name: EndpointName = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Show the deliveries and attempts of an endpoint in the last seven days."""
    from tickwork.ops.endpoints import endpoint_stats

    which, scope = required(name, "ENDPOINT"), scope_of(tenant)
    stats = _run(database, scope, lambda store: endpoint_stats(store, scope, which, since=None))
    if as_json:
        print_json(stats)
    else:
        print_lines(field_lines(stats))


def _run(
    database: str | None,
    scope: Scope,
    work: Callable[[Store], Awaitable[T]],
    *,
    create: bool = False,
) -> T:
    return with_store(database, scope, work, names=_OPTIONS, create=create)


def _show(endpoint: Endpoint, *, as_json: bool) -> None:
    if as_json:
        print_json(endpoint)
    else:
        print_lines(_lines(endpoint))


def _lines(endpoint: Endpoint) -> Iterator[str]:
    settings, health = endpoint.settings, endpoint.health
    yield f"endpoint: {endpoint.name} ({endpoint.id})"
    yield f"url: {settings.method} {settings.url}"
    yield f"types: {', '.join(settings.types)}"
    yield f"status: {_status(endpoint)}"
    if endpoint.disabled_reason is not None:
        yield f"disabled: {endpoint.disabled_at:%Y-%m-%d %H:%M} UTC, {endpoint.disabled_reason}"
    if health.failing_since is not None:
        since = f"{health.failing_since:%Y-%m-%d %H:%M} UTC"
        yield f"failures: {health.failures_in_row} in a row, since {since}"
    if health.open_until is not None:
        yield f"next attempt: {health.open_until:%Y-%m-%d %H:%M:%S} UTC"
    for label, value in (
        ("owner", settings.owner),
        ("secret headers", ", ".join(settings.secret_headers)),
        ("signature", settings.signature if settings.signature != "v1" else None),
        ("ordered", "yes" if settings.is_ordered else None),
        ("rate", settings.rate_per_second),
        ("concurrency", settings.concurrency),
        ("limit", settings.limit),
    ):
        if value:
            yield f"{label}: {value}"


def _rows(endpoints: Iterable[Endpoint]) -> Iterator[tuple[object, ...]]:
    for each in endpoints:
        types = shortened(", ".join(each.settings.types), 40)
        yield each.name, _status(each), types, each.health.failures_in_row, each.settings.url


def _status(endpoint: Endpoint) -> str:
    if endpoint.disabled_at is not None:
        return "disabled"
    return "active" if endpoint.health.open_until is None else "failing"
