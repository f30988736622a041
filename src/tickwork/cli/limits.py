"""`tickwork limits`: limits that queues and endpoints share by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option
from tickwork.cli.output import Report, columns

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.queue.named_limit import NamedLimit

limits = Group("Limits that queues and endpoints share: list, put, delete.")

LimitName = Annotated[str, Argument("Name of the limit.", "LIMIT")]
Rate = Annotated[float, Option("Messages in a period.", "N")]
Period = Annotated[float, Option("Seconds of a period; default 1.", "SECONDS")]
Concurrency = Annotated[int, Option("Messages at a time.", "N")]

LISTED = 1_000


@limits.client_command(
    "list",
    show=columns(
        ("limit", "name"), "rate", "period_seconds", "concurrency", none="there are no limits"
    ),
    shared=True,
)
async def list_limits(client: Client) -> tuple[NamedLimit, ...]:
    """List the limits of a tenant, or with --shared those of shared queues."""
    return await client.limits.list(limit=LISTED)


@limits.client_command("put", shared=True, create=True)
async def put_limit(
    client: Client,
    name: LimitName,
    rate: Rate | None = None,
    period_seconds: Period = 1.0,
    concurrency: Concurrency | None = None,
) -> Report:
    """Create a limit or replace its numbers."""
    made = await client.limits.put(
        name, rate=rate, period_seconds=period_seconds, concurrency=concurrency
    )
    return Report(made, f"{name} is set")


@limits.client_command("delete", shared=True)
async def delete_limit(client: Client, name: LimitName) -> Report:
    """Delete a limit; who names it is not limited any more."""
    await client.limits.delete(name)
    return Report({"limit": name, "deleted": True}, f"{name} is deleted")
