"""The processes of a cluster as a user sees them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


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
    """The nodes, and the shards without a leader; `now` is the database's time, and everything is
    paused since `paused_at`. Every schedule that is not exact has a fire window of at least
    `widened_seconds`."""

    now: datetime
    schema_version: int
    epoch: int
    nodes: tuple[Node, ...]
    shards_without_leader: tuple[int, ...]
    paused_at: datetime | None = None
    widened_seconds: int = 0
