"""`tickwork keys`: the API keys of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import click

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Argument, Database, Json, Option, Tenant, Yes
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json, print_table
from tickwork.cli.session import ask
from tickwork.cli.store_session import confirm, number, required

if TYPE_CHECKING:
    from tickwork.client.run_answers import CreatedKey
    from tickwork.core.api_key import ApiKey

app = Group(help="API keys: what programs send with each HTTP request.")

KeyId = Annotated[str | None, Argument(metavar="KEY", help="Id of the key.")]
KeyName = Annotated[str | None, Argument(metavar="NAME", help="What the key is for.")]
Scopes = Annotated[
    list[str] | None,
    Option(
        name="--scope", metavar="SCOPE", help="read, send, consume, manage or admin; repeatable."
    ),
]
Owner = Annotated[
    str | None,
    Option(metavar="OWNER", help="One user, whose schedules the key is limited to."),
]
Expires = Annotated[
    str | None,
    Option(
        name="--expires-at",
        metavar="TIME",
        help="When the key stops working, such as 2027-01-31T00:00:00Z.",
    ),
]
Keep = Annotated[
    str | None,
    Option(
        name="--keep-seconds",
        metavar="SECONDS",
        help="How long the old secret works; default 86400, a day.",
    ),
]

LISTED = 1_000

_OPTIONS = OPTION_OF_FIELD | {
    "name": "NAME",
    "scopes": "--scope",
    "owner": "--owner",
    "expires_at": "--expires-at",
    "keep_seconds": "--keep-seconds",
}


@app.plain_command("create")
def create_command(
    name: KeyName = None,
    scope: Scopes = None,
    owner: Owner = None,
    expires: Expires = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is not shown again."""
    if name is None:
        fail("NAME: is missing; say what the key is for", code=EXIT_BAD_USAGE)
    if not scope:
        fail("--scope: is missing; give one or more, such as --scope read", code=EXIT_BAD_USAGE)
    fields: dict[str, Any] = {"scopes": scope, "owner": owner, "expires_at": expires}
    made = ask(
        database,
        tenant,
        lambda client: client.keys.create(name, **fields),
        create=True,
        names=_OPTIONS,
    )
    _print_token(made, as_json=as_json)


@app.plain_command("list")
def list_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """List keys, oldest first, without their secrets."""
    found = ask(database, tenant, lambda client: client.keys.list(limit=LISTED))
    if as_json:
        print_json(found)
        return
    heading = ("key", "name", "scopes", "owner", "status", "expires_at", "last_used_at")
    rows = [
        (
            *(key.id, key.name, ",".join(key.scopes), key.owner, _status(key)),
            *(key.expires_at, key.last_used_at),
        )
        for key in found
    ]
    print_table(heading, rows, none="there are no keys")


@app.plain_command("rotate")
def rotate_command(
    key: KeyId = None,
    keep: Keep = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Give a key a new secret and print it. The old one works for another day."""
    from tickwork.core.api_key import ROTATION_SECONDS

    key_id = required(key, "KEY")
    seconds = ROTATION_SECONDS if keep is None else number(keep, "--keep-seconds")
    made = ask(
        database,
        tenant,
        lambda client: client.keys.rotate(key_id, keep_seconds=seconds),
        names=_OPTIONS,
    )
    _print_token(made, as_json=as_json)


@app.plain_command("revoke")
def revoke_command(
    key: KeyId = None,
    database: Database = None,
    tenant: Tenant = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Make a key invalid for ever. API servers notice within three seconds."""
    key_id = required(key, "KEY")
    confirm(f"revoke key {key_id}? Programs that use it are refused", yes=yes)
    revoked = ask(database, tenant, lambda client: client.keys.revoke(key_id))
    if as_json:
        print_json(revoked)
    else:
        click.echo(f"revoked {revoked.id}")


def _status(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "rotating" if key.previous_until is not None else "active"


def _print_token(made: CreatedKey, *, as_json: bool) -> None:
    if as_json:
        print_json(made)
    else:
        click.echo(made.token)
