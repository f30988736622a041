"""`tickwork alerts`: who is told when something died, was paused or was disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Tenant
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json
from tickwork.cli.store_session import load_settings, report_errors, scope_of, with_store
from tickwork.cli.typer_commands import Command, Group

if TYPE_CHECKING:
    from tickwork.core.delivery.alert import AlertTarget
    from tickwork.ops.stores import Store

app = typer.Typer(cls=Group, help="Alerts: who is told of dead letters and disabled endpoints.")

Email = Annotated[
    list[str] | None, typer.Option(metavar="ADDRESS", help="Email address; repeatable.")
]
Webhook = Annotated[str | None, typer.Option(metavar="URL", help="URL of a webhook.")]
Slack = Annotated[str | None, typer.Option(metavar="URL", help="Incoming webhook of Slack.")]
Discord = Annotated[str | None, typer.Option(metavar="URL", help="Webhook of Discord.")]

_OPTIONS = OPTION_OF_FIELD | {
    "email": "--email",
    "webhook": "--webhook",
    "slack": "--slack",
    "discord": "--discord",
}


@app.command("set", cls=Command)
def set_command(
    email: Email = None,
    webhook: Webhook = None,
    slack: Slack = None,
    discord: Discord = None,
    database: Database = None,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Send alerts to email addresses, a webhook or a chat from now on, and nowhere else."""
    from tickwork.core.delivery.alert import read_alert_target
    from tickwork.ops.alerts import set_alerts
    from tickwork.wiring import guard, secret_box

    given = {"email": email or None, "webhook": webhook, "slack": slack, "discord": discord}
    if sum(value is not None for value in given.values()) != 1:
        options = ", ".join(f"--{way}" for way in given)
        fail(f"give exactly one of {options}", code=EXIT_BAD_USAGE)
    target = report_errors(lambda: read_alert_target(given), names=_OPTIONS)
    scope, settings = scope_of(tenant), load_settings(database)

    async def work(store: Store) -> None:
        box, check_url = secret_box(settings), guard(settings).check_url
        await set_alerts(store, scope, target, box, check_url)

    with_store(database, scope, work, names=_OPTIONS, create=True)
    _print(target, as_json=as_json)


@app.command("show", cls=Command)
def show_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show where alerts go."""
    from tickwork.ops.alerts import get_alerts
    from tickwork.wiring import secret_box

    scope, settings = scope_of(tenant), load_settings(database)

    async def work(store: Store) -> AlertTarget | None:
        return await get_alerts(store, scope, secret_box(settings))

    _print(with_store(database, scope, work), as_json=as_json)


@app.command("clear", cls=Command)
def clear_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Send no more alerts."""
    from tickwork.ops.alerts import clear_alerts

    scope = scope_of(tenant)
    with_store(database, scope, lambda store: clear_alerts(store, scope))
    _print(None, as_json=as_json)


def _print(target: AlertTarget | None, *, as_json: bool) -> None:
    if as_json:
        print_json(None if target is None else {"way": target.way, "to": target.shown})
    elif target is None:
        typer.echo("alerts go nowhere; set them with tickwork alerts set --email ADDRESS")
    else:
        typer.echo(f"alerts go by {target.way} to {', '.join(target.shown)}")
