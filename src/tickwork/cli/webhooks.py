"""`tickwork webhooks`: the signing secret, and a receiver for a first try."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, fail
from tickwork.cli.store_session import with_context

if TYPE_CHECKING:
    from tickwork.ops.context import Context

webhooks = Group("Webhooks: the secret they are signed with.")
top = Group("A receiver of webhooks.")

LISTEN_PORT = 9_000

Rotate = Annotated[
    bool, Option("Replace it; the one before stays valid for a day. Twice ends it at once.")
]
LostKey = Annotated[bool, Option("Replace it although its TICKWORK_SECRET_KEY is lost.")]
Port = Annotated[int, Option("Port to listen on (9000).", "PORT")]
Forward = Annotated[str, Option("Also send each webhook to this URL.", "URL")]
Secret = Annotated[
    str, Option("Secret whsec_… or public key whpk_…; default the app's secret.", "SECRET")
]


@webhooks.database_command("secret")
async def show_secret(
    context: Context, rotate: Rotate = False, lost_key: LostKey = False
) -> Report:
    """Print the secret that receivers check signatures with."""
    from tickwork.ops.webhook_secret import rotate_signing_secret, signing_secret

    if rotate or lost_key:
        secret = await rotate_signing_secret(context, is_key_lost=lost_key)
    else:
        secret = await signing_secret(context)
    return Report({"secret": secret}, secret)


@top.plain_command("listen", on_database=True, json=False)
def listen(
    port: Port = LISTEN_PORT, forward: Forward | None = None, secret: Secret | None = None
) -> None:
    """Receive webhooks on this machine, check their signatures and print them."""
    from tickwork.ops.webhook_secret import signing_secrets

    if secret is not None and not secret.startswith(("whsec_", "whpk_")):
        fail("--secret: must be a secret whsec_… or a public key whpk_…", code=EXIT_BAD_USAGE)
    if forward is not None and not forward.startswith(("http://", "https://")):
        fail("--forward: must be a URL such as http://localhost:8000/hook", code=EXIT_BAD_USAGE)
    # Before it listens, for the database is not needed then.
    secrets = with_context(signing_secrets, create=True) if secret is None else (secret,)
    _listen(port, secrets, forward)


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
