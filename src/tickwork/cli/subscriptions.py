"""`tickwork subscriptions`: queues that get copies of messages and events by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, QueueName
from tickwork.cli.output import Report, columns

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.queue import SubscriptionBody

subscriptions = Group("Subscriptions of queues to types: list, create, delete.")

LISTED = 1_000

Types = Annotated[str, Argument("A type, a prefix such as order.*, or * for all.", "TYPES")]


@subscriptions.client_command(
    "list", show=columns("types", "queue", none="there are no subscriptions")
)
async def list_subscriptions(client: Client) -> tuple[SubscriptionBody, ...]:
    """List the subscriptions by types and queue."""
    return await client.subscriptions.list(limit=LISTED)


@subscriptions.client_command("create")
async def create_subscription(client: Client, types: Types, queue: QueueName) -> Report:
    """Copy messages and events of these types to a queue. A repeat has no effect."""
    made = await client.subscriptions.create(types, queue)
    return Report(made, f"{queue} gets copies of {types}")


@subscriptions.client_command("delete")
async def delete_subscription(client: Client, types: Types, queue: QueueName) -> Report:
    """End a subscription."""
    await client.subscriptions.delete(types, queue)
    answer = {"types": types, "queue": queue, "deleted": True}
    return Report(answer, f"{queue} gets no more copies of {types}")
