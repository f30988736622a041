"""What keeps a waiting message from being handled now: a paused queue, no worker, and so on."""

from __future__ import annotations

from tickwork.core.model import SYSTEM
from tickwork.errors import NotFound
from tickwork.ops.context import Context

SCHEDULER_ROLE, WORKER_ROLE = "scheduler", "worker"


async def obstacles(
    context: Context, queue: str, tenant_id: str, role: str | None = WORKER_ROLE
) -> list[str]:
    """Returns what keeps a message of a tenant in a queue from going on, as parts of a sentence.
    Without a `role` it needs no node: consumers pull it."""
    found = []
    if await context.store.nodes.paused_at(SYSTEM) is not None:
        found.append("everything is paused")
    try:
        known = await context.store.queues.get(context.scope, queue)
        if known.paused:
            found.append(f"queue {known.name} is paused")
    except NotFound:
        found.append(f"queue {queue} does not exist")
    tenant = await context.store.tenants.get(SYSTEM, tenant_id)
    if tenant.suspended:
        found.append(f"tenant {tenant.id} is suspended")
    nodes, now = await context.store.nodes.list(SYSTEM), await context.store.now()
    is_alive = any(role in node.roles and node.expires_at > now for node in nodes)
    if role is not None and not is_alive:
        found.append(f"no node with the role {role} is alive")
    return found
