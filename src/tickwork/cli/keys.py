"""`tickwork keys`: the API keys of a tenant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option, Yes
from tickwork.cli.output import Report, Shown, columns
from tickwork.cli.store_session import confirm
from tickwork.cli.values import given

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.api_key import ApiKey, CreatedKey

keys = Group("API keys: what programs send with each HTTP request.")

KeyId = Annotated[str, Argument("Id of the key.", "KEY")]
KeyName = Annotated[
    str, Argument("What the key is for.", "NAME", missing="say what the key is for")
]
Scopes = Annotated[
    list[str],
    Option(
        "read, send, consume, manage or admin; repeatable.",
        "SCOPE",
        name="--scope",
        missing="give one or more, such as --scope read",
    ),
]
Owner = Annotated[str, Option("One user, whose schedules the key is limited to.", "OWNER")]
Expires = Annotated[
    str, Option("When the key stops working, such as 2027-01-31T00:00:00Z.", "TIME")
]
Keep = Annotated[float, Option("How long the old secret works; default 86400, a day.", "SECONDS")]

LISTED = 1_000


def _scopes(key: ApiKey) -> str:
    return ",".join(key.scopes)


def _status(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "rotating" if key.previous_until is not None else "active"


def _token(made: CreatedKey) -> Shown:
    return [made.token]


@keys.client_command("create", show=_token, create=True)
async def create_key(
    client: Client,
    name: KeyName,
    scopes: Scopes,
    owner: Owner | None = None,
    expires_at: Expires | None = None,
) -> CreatedKey:
    """Make a key and print it. It is not shown again."""
    fields: dict[str, Any] = {"scopes": scopes, "owner": owner, "expires_at": expires_at}
    return await client.keys.create(name, **fields)


@keys.client_command(
    "list",
    show=columns(
        *(("key", "id"), "name", ("scopes", _scopes), "owner", ("status", _status)),
        *("expires_at", "last_used_at"),
        none="there are no keys",
    ),
)
async def list_keys(client: Client) -> tuple[ApiKey, ...]:
    """List keys, oldest first, without their secrets."""
    return await client.keys.list(limit=LISTED)


@keys.client_command("rotate", show=_token)
async def rotate_key(client: Client, key: KeyId, keep_seconds: Keep | None = None) -> CreatedKey:
    """Give a key a new secret and print it. The old one works for another day."""
    return await client.keys.rotate(key, **given(keep_seconds=keep_seconds))


@keys.client_command("revoke")
async def revoke_key(client: Client, key: KeyId, yes: Yes = False) -> Report:
    """Make a key invalid for ever. API servers notice within three seconds."""
    confirm(f"revoke key {key}? Programs that use it are refused", yes=yes)
    revoked = await client.keys.revoke(key)
    return Report(revoked, f"revoked {revoked.id}")
