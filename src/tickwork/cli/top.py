"""`tickwork top`: a live view of queues, lateness, shards, nodes and failures.

`look` reads a `Snapshot` with the verbs of a client, so it works on a database and on a server. The
screen (`top_screen.py`) is imported late: it needs the extra `top`.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from tickwork.cli.command import Group
from tickwork.cli.options import Json, Option
from tickwork.cli.output import EXIT_BAD_USAGE, Report, fail
from tickwork.errors import Forbidden

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.answers.cluster import ClusterView
    from tickwork.core.answers.queue import QueueView

LOOK_SECONDS = 2.0
"""Seconds between two looks unless --every says otherwise."""

LOOK_SECONDS_MIN = 0.2
FAILING_QUEUES_MAX = 5
QUEUES_SHOWN_MAX = 100
GROUPS_MAX = 5
"""Queues whose dead letters are shown, and groups of each."""

Every = Annotated[float, Option("Seconds between looks; default 2.", "SECONDS")]

top = Group("A live view.")


class QueueRow(Struct, frozen=True):
    """A queue: messages per minute in the last minute that has any, by state, and the oldest."""

    queue: str
    sent: int
    done: int
    ready: int
    delayed: int
    claimed: int
    blocked: int
    dead: int
    oldest_seconds: float | None


class NodeRow(Struct, frozen=True):
    """A process."""

    name: str
    roles: tuple[str, ...]
    is_alive: bool
    messages: int
    shards: int


class Failure(Struct, frozen=True):
    """Open dead letters of one kind."""

    queue: str
    dead_letters: int
    reason: str
    last_failed_at: datetime
    fingerprint: str


class Snapshot(Struct, frozen=True, kw_only=True):
    """What the view shows. `late_seconds` is how long the first schedule is overdue. `nodes` is
    None if the key may not see them."""

    queues: tuple[QueueRow, ...]
    failures: tuple[Failure, ...]
    late_seconds: float
    next_due_at: datetime | None
    nodes: tuple[NodeRow, ...] | None
    shards_without_leader: tuple[int, ...] = ()
    paused_at: datetime | None = None


@top.client_command("top")
async def watch_queues(
    client: Client, every: Every = LOOK_SECONDS, as_json: Json = False
) -> Report | None:
    """Watch queues, lateness, shards, nodes and failures; q ends. With --json: print them once."""
    from tickwork.extras import top_extra

    if not every >= LOOK_SECONDS_MIN:
        fail(f"--every: must be at least {LOOK_SECONDS_MIN} seconds", code=EXIT_BAD_USAGE)
    seen = await look(client)  # A wrong key or database is an error before the screen opens.
    if as_json:
        return Report(seen)
    with top_extra("tickwork top"):
        from tickwork.cli.top_screen import TopScreen
    await TopScreen(lambda: look(client), every).run_async()
    return None


async def look(client: Client) -> Snapshot:
    """What happens now."""
    from tickwork.clock import now

    stats = await client.stats(limit=QUEUES_SHOWN_MAX)
    cluster = await _cluster(client)
    due = await client.schedules.list(status="active", order="next_due_at", limit=1)
    due_at = due[0].next_due_at if due else None
    nodes = None
    if cluster is not None:
        nodes = tuple(
            NodeRow(node.name, node.roles, node.is_alive, node.claims, len(node.shards))
            for node in cluster.nodes
        )
    seen_at = now() if cluster is None else cluster.now
    return Snapshot(
        queues=tuple(map(_row, stats)),
        failures=await _failures(client, stats),
        late_seconds=0.0 if due_at is None else max((seen_at - due_at).total_seconds(), 0.0),
        next_due_at=due_at,
        nodes=nodes,
        shards_without_leader=() if cluster is None else cluster.shards_without_leader,
        paused_at=None if cluster is None else cluster.paused_at,
    )


async def _cluster(client: Client) -> ClusterView | None:
    try:
        return await client.cluster()
    except Forbidden:  # Nodes are the operator's.
        return None


async def _failures(client: Client, stats: Any) -> tuple[Failure, ...]:
    """The largest groups of dead letters of the queues that have the most."""
    failing = sorted((stat for stat in stats if stat.counts.dead), key=lambda q: -q.counts.dead)
    found = []
    for stat in failing[:FAILING_QUEUES_MAX]:
        for group in await client.dead_letters.groups(stat.queue, limit=GROUPS_MAX):
            found.append(  # noqa: PERF401  one queue after the other
                Failure(
                    stat.queue,
                    group.dead_letters,
                    group.reason,
                    group.last_failed_at,
                    group.fingerprint,
                )
            )
    return tuple(sorted(found, key=lambda failure: failure.last_failed_at, reverse=True))


def _row(stats: QueueView) -> QueueRow:
    counts, last = stats.counts, stats.minutes[-1].counts if stats.minutes else {}
    return QueueRow(
        queue=stats.queue,
        sent=last.get("sent", 0),
        done=last.get("done", 0),
        ready=counts.ready,
        delayed=counts.delayed,
        claimed=counts.claimed,
        blocked=counts.blocked,
        dead=counts.dead,
        oldest_seconds=stats.oldest_age_seconds,
    )
