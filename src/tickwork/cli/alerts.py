"""`tickwork alerts`: who is told when something died, was paused or was disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import click

from tickwork.cli.command import Group
from tickwork.cli.options import OPTION_OF_FIELD, Database, Json, Option, Tenant
from tickwork.cli.output import EXIT_BAD_USAGE, fail, print_json
from tickwork.cli.store_session import report_errors, scope_of, with_context
from tickwork.ops.context import Context

if TYPE_CHECKING:
    from tickwork.core.delivery.alert import AlertTarget

app = Group(help="Alerts: who is told of dead letters and disabled endpoints.")

Email = Annotated[list[str] | None, Option(metavar="ADDRESS", help="Email address; repeatable.")]
Webhook = Annotated[str | None, Option(metavar="URL", help="URL of a webhook.")]
Slack = Annotated[str | None, Option(metavar="URL", help="Incoming webhook of Slack.")]
Discord = Annotated[str | None, Option(metavar="URL", help="Webhook of Discord.")]

_OPTIONS = OPTION_OF_FIELD | {
    "email": "--email",
    "webhook": "--webhook",
    "slack": "--slack",
    "discord": "--discord",
}


@app.plain_command("set")
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

    given = {"email": email or None, "webhook": webhook, "slack": slack, "discord": discord}
    if sum(value is not None for value in given.values()) != 1:
        options = ", ".join(f"--{way}" for way in given)
        fail(f"give exactly one of {options}", code=EXIT_BAD_USAGE)
    target = report_errors(lambda: read_alert_target(given), names=_OPTIONS)
    scope = scope_of(tenant)

    async def work(context: Context) -> None:
        await set_alerts(context, target)

    with_context(database, scope, work, names=_OPTIONS, create=True)
    _print(target, as_json=as_json)


@app.plain_command("show")
def show_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Show where alerts go."""
    from tickwork.ops.alerts import get_alerts

    scope = scope_of(tenant)

    async def work(context: Context) -> AlertTarget | None:
        return await get_alerts(context)

    _print(with_context(database, scope, work), as_json=as_json)


@app.plain_command("clear")
def clear_command(database: Database = None, tenant: Tenant = None, as_json: Json = False) -> None:
    """Send no more alerts."""
    from tickwork.ops.alerts import clear_alerts

    scope = scope_of(tenant)
    with_context(database, scope, lambda context: clear_alerts(context))
    _print(None, as_json=as_json)


def _print(target: AlertTarget | None, *, as_json: bool) -> None:
    if as_json:
        print_json(None if target is None else {"way": target.way, "to": target.shown})
    elif target is None:
        click.echo("alerts go nowhere; set them with tickwork alerts set --email ADDRESS")
    else:
        click.echo(f"alerts go by {target.way} to {', '.join(target.shown)}")
