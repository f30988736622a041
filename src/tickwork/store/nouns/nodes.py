"""Nodes: running processes and their leases. What becomes of the messages of a node that leaves is
in each store: PostgreSQL gives back those of many nodes in one statement, SQLite node by node."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from tickwork.core.limits import check_node, check_system, check_ttl
from tickwork.core.model import QueuePermits, Scope, StoredNode
from tickwork.errors import NodeExpired
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Noun, Row, Statement, Steps, changes, reads, writes

_JOIN = Statement("join_node", StoredNode, roles=Kind.TEXTS)
_HEARTBEAT = Statement("heartbeat", StoredNode, roles=Kind.TEXTS)
_LIST = Statement("list_nodes", StoredNode, roles=Kind.TEXTS)
_CLAIMS = Statement("claims_of_holders", holder=Kind.ID)
_PAUSE_ALL = Statement("pause_all", paused_at=Kind.TIME)
_PAUSED_AT = Statement("paused_at", paused_at=Kind.TIME)
_WIDEN = Statement("widen")
_WIDENED_SECONDS = Statement("widened_seconds")

_PERMITS = msgspec.json.Decoder(tuple[QueuePermits, ...])
_WORKFLOWS = msgspec.json.Decoder(tuple[tuple[str, str | None], ...])


class Nodes(Noun):
    """Nodes by id."""

    @writes(repeatable=True, is_single=True)
    def join(
        self,
        scope: Scope,
        node_id: UUID,
        *,
        name: str,
        roles: Sequence[str],
        ttl_seconds: float,
        workflows: Sequence[tuple[str, str | None]] = (),
        permits: Sequence[QueuePermits] = (),
    ) -> Steps[StoredNode]:
        check_system(scope)
        check_node(name, roles)
        check_ttl(ttl_seconds)
        declared = msgspec.json.encode([*workflows]).decode()
        allowed = msgspec.json.encode([*permits]).decode()
        row = yield from _JOIN.fetch_row(
            NOW, node_id, name, [*roles], ttl_seconds, declared, allowed
        )
        if row is None:
            # An earlier answer was lost, or the id is used twice: a heartbeat shows which.
            return (yield from _renew(node_id, ttl_seconds, None))
        return _node(row)

    @writes(repeatable=True, is_single=True)
    def heartbeat(
        self, scope: Scope, node_id: UUID, ttl_seconds: float, hold_seconds: float | None = None
    ) -> Steps[StoredNode]:
        check_system(scope)
        check_ttl(ttl_seconds)
        return (yield from _renew(node_id, ttl_seconds, hold_seconds))

    @reads
    def list(self, scope: Scope) -> Steps[tuple[StoredNode, ...]]:
        check_system(scope)
        rows = yield from _LIST.fetch()
        return tuple(map(_node, rows))

    @reads
    def claims(self, scope: Scope) -> Steps[dict[UUID, int]]:
        check_system(scope)
        rows = yield from _CLAIMS.fetch()
        return {row["holder"]: row["claims"] for row in rows}

    @changes
    def pause_all(self, scope: Scope, *, is_paused: bool) -> Steps[datetime | None]:
        check_system(scope)
        since: datetime | None = yield from _PAUSE_ALL.fetch_value(NOW, is_paused)
        return since

    @reads
    def paused_at(self, scope: Scope) -> Steps[datetime | None]:
        check_system(scope)
        since: datetime | None = yield from _PAUSED_AT.fetch_value()
        return since

    @changes
    def widen(self, scope: Scope, seconds: int) -> Steps[None]:
        check_system(scope)
        yield from _WIDEN.execute(seconds)

    @reads
    def widened_seconds(self, scope: Scope) -> Steps[int]:
        check_system(scope)
        seconds: int = yield from _WIDENED_SECONDS.fetch_value()
        return seconds


def _renew(node_id: UUID, ttl_seconds: float, hold_seconds: float | None) -> Steps[StoredNode]:
    row = yield from _HEARTBEAT.fetch_row(NOW, node_id, ttl_seconds, hold_seconds)
    if row is None:
        raise NodeExpired(node_id)
    return _node(row)


def _node(row: Row) -> StoredNode:
    lists = {
        "roles": tuple(row["roles"]),
        "workflows": _WORKFLOWS.decode(row["workflows"]),
        "permits": _PERMITS.decode(row["permits"]),
    }
    return StoredNode(**{**row, **lists})
