"""`tickwork alerts`: who gets alerts when something died, was paused or was disabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, fail

if TYPE_CHECKING:
    from tickwork.core.delivery.alert import AlertTarget
    from tickwork.ops.context import Context

alerts = Group("Alerts: who is told of dead letters and disabled endpoints.")

Email = Annotated[list[str], Option("Email address; repeatable.", "ADDRESS")]
Webhook = Annotated[str, Option("URL of a webhook.", "URL")]
Slack = Annotated[str, Option("Incoming webhook of Slack.", "URL")]
Discord = Annotated[str, Option("Webhook of Discord.", "URL")]


def _report(target: AlertTarget | None) -> Report:
    if target is None:
        advice = "set them with tickwork alerts set --email ADDRESS"
        return Report(None, f"alerts go nowhere; {advice}")
    answer = {"way": target.way, "to": target.shown}
    return Report(answer, f"alerts go by {target.way} to {', '.join(target.shown)}")


@alerts.database_command("set", create=True)
async def set_target(
    context: Context,
    email: Email | None = None,
    webhook: Webhook | None = None,
    slack: Slack | None = None,
    discord: Discord | None = None,
) -> Report:
    """Send alerts to email addresses, a webhook or a chat from now on, and nowhere else."""
    from tickwork.core.delivery.alert import read_alert_target
    from tickwork.ops.alerts import set_alerts

    ways = {"email": email, "webhook": webhook, "slack": slack, "discord": discord}
    if sum(value is not None for value in ways.values()) != 1:
        options = ", ".join(f"--{way}" for way in ways)
        fail(f"give exactly one of {options}", code=EXIT_BAD_USAGE)
    target = read_alert_target(ways)
    await set_alerts(context, target)
    return _report(target)


@alerts.database_command("show")
async def show_target(context: Context) -> Report:
    """Show where alerts go."""
    from tickwork.ops.alerts import get_alerts

    return _report(await get_alerts(context))


@alerts.database_command("clear")
async def clear_target(context: Context) -> Report:
    """Send no more alerts."""
    from tickwork.ops.alerts import clear_alerts

    await clear_alerts(context)
    return _report(None)
