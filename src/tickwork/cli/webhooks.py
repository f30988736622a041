"""`tickwork webhooks`: the signing secret, and a receiver for a first try."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import Database, Json, Option, Tenant
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json
from tickwork.cli.store_session import (
    report_errors,
    scope_of,
    whole_number,
    with_context,
)
from tickwork.ops.context import Context

if TYPE_CHECKING:
    pass

app = Group(help="Webhooks: the secret they are signed with.")

LISTEN_PORT = 9_000

Rotate = Annotated[
    bool,
    Option(
        name="--rotate",
        help="Replace it; the one before stays valid for a day. Twice ends it at once.",
    ),
]
LostKey = Annotated[
    bool,
    Option(name="--lost-key", help="Replace it although its TICKWORK_SECRET_KEY is lost."),
]
Port = Annotated[str | None, Option(metavar="PORT", help="Port to listen on (9000).")]
Forward = Annotated[str | None, Option(metavar="URL", help="Also send each webhook to this URL.")]
Secret = Annotated[
    str | None,
    Option(metavar="SECRET", help="Secret whsec_… or public key whpk_…; default the app's secret."),
]


@app.plain_command("secret")
def secret_command(
    rotate: Rotate = False,
    lost_key: LostKey = False,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Print the secret that receivers check signatures with."""
    from tickwork.ops.webhook_secret import rotate_signing_secret, signing_secret

    scope = scope_of(tenant)

    async def work(context: Context) -> str:
        if rotate or lost_key:
            return await rotate_signing_secret(context, is_key_lost=lost_key)
        return await signing_secret(context)

    secret = with_context(database, scope, work)
    if as_json:
        print_json({"secret": secret})
    else:
        click.echo(secret)


def listen_command(
    port: Port = None,
    forward: Forward = None,
    secret: Secret = None,
    database: Database = None,
    tenant: Tenant = None,
) -> None:
    """Receive webhooks on this machine, check their signatures and print them."""
    from tickwork.ops.webhook_secret import signing_secrets

    if secret is not None and not secret.startswith(("whsec_", "whpk_")):
        fail("--secret: must be a secret whsec_… or a public key whpk_…", code=EXIT_BAD_USAGE)
    if forward is not None and not forward.startswith(("http://", "https://")):
        fail("--forward: must be a URL such as http://localhost:8000/hook", code=EXIT_BAD_USAGE)
    scope = scope_of(tenant)

    async def known(context: Context) -> tuple[str, ...]:
        return await signing_secrets(context)

    secrets = (secret,) if secret is not None else with_context(database, scope, known, create=True)
    number = whole_number(port, "--port", LISTEN_PORT)
    report_errors(lambda: _listen(number, secrets, forward))


def _listen(port: int, secrets: Sequence[str], forward: str | None) -> None:
    """Receives webhooks on this machine until Ctrl-C."""
    import asyncio

    from tickwork.wiring import delivery_extra

    with delivery_extra("tickwork listen"):
        from tickwork.channel.listener import Listener
    listener = Listener(secrets, click.echo, forward=forward)

    def started(at: int) -> None:
        click.echo(f"listening on http://127.0.0.1:{at}; Ctrl-C stops")

    with suppress(KeyboardInterrupt):
        asyncio.run(listener.serve(port, started))
