"""Describes the cluster: its nodes, and which node leads which shards of schedules."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store


class Node(Struct, frozen=True):
    """A process with what it holds: the shards it leads, and the number of messages it has claimed.
    `is_alive` is False once its lease has expired."""

    id: str
    name: str
    roles: tuple[str, ...]
    started_at: datetime
    expires_at: datetime
    is_alive: bool
    shards: tuple[int, ...]
    claims: int = 0
    host: str = ""
    pid: int | None = None


class ClusterView(Struct, frozen=True):
    """The nodes, and the shards without a leader; `now` is the database's time."""

    now: datetime
    schema_version: int
    epoch: int
    nodes: tuple[Node, ...]
    shards_without_leader: tuple[int, ...]


async def list_nodes(store: Store) -> tuple[Node, ...]:
    """Returns the nodes whose lease has not been ended, with the shards each one leads."""
    return (await describe_cluster(store)).nodes


async def check_database(store: Store) -> None:
    """Reads one row; raises `StoreError` if the database does not answer."""
    await store.meta()


async def describe_cluster(store: Store) -> ClusterView:
    """Returns the nodes, the shards without a leader and the database's time and schema."""
    now, meta = await store.now(), await store.meta()
    nodes, holdings = await store.nodes.list(SYSTEM), await store.shards.list(SYSTEM)
    claims = await store.nodes.claims(SYSTEM)
    led = {
        node.id: tuple(each.shard for each in holdings if each.node == node.id) for node in nodes
    }
    return ClusterView(
        now=now,
        schema_version=meta.schema_version,
        epoch=meta.epoch,
        nodes=tuple(
            Node(
                id=str(node.id),
                name=node.name,
                roles=node.roles,
                started_at=node.started_at,
                expires_at=node.expires_at,
                is_alive=node.expires_at > now,
                shards=led[node.id],
                claims=claims.get(node.id, 0),
                host=_host_and_pid(node.name)[0],
                pid=_host_and_pid(node.name)[1],
            )
            for node in nodes
        ),
        shards_without_leader=tuple(each.shard for each in holdings if each.node is None),
    )


def _host_and_pid(name: str) -> tuple[str, int | None]:
    """Splits the name of a node, `host:pid`; a name of another form is a host."""
    host, found, pid = name.rpartition(":")
    return (host, int(pid)) if found and pid.isdecimal() else (name, None)
