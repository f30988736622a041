"""Subscriptions: which queues get copies of which types. PostgreSQL caches what sends read."""

from __future__ import annotations

from tickwork.core.limits import check_subscription, is_name
from tickwork.core.message.subscription import Subscription, pattern_faults
from tickwork.core.model import Scope
from tickwork.core.tenant_limits import check_room
from tickwork.store.nouns.queues import find_queue
from tickwork.store.nouns.tenants import LOCK_QUOTAS
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import After, Noun, Statement, Steps, changes, changes_once, reads

_PUT = Statement("put_subscription")
_LIST = Statement("list_subscriptions", queue_id=Kind.ID)
_DELETE = Statement("delete_subscription")
_COUNT = Statement("count_subscriptions")


class Subscriptions(Noun):
    """Which queues get copies of which types."""

    @changes
    def put(self, scope: Scope, types: str, queue: str) -> Steps[Subscription]:
        check_subscription(types)
        target = yield from find_queue(scope, queue)
        if (yield from _PUT.execute(scope.tenant, types, target.id)):
            quotas = yield from LOCK_QUOTAS.fetch_row(scope.tenant)
            count = yield from _COUNT.fetch_value(scope.tenant)
            most = None if quotas is None else quotas["subscriptions_max"]
            check_room(scope.tenant, "subscriptions_max", count - 1, most)
        yield After(self.forget)
        return Subscription(scope.tenant, types, target.id, target.name)

    @reads
    def list(self, scope: Scope) -> Steps[tuple[Subscription, ...]]:
        if not _can_exist(scope):
            return ()
        rows = yield from _LIST.fetch(scope.tenant)
        return tuple(Subscription(**row) for row in rows)

    @changes_once
    def delete(self, scope: Scope, types: str, queue: str) -> Steps[bool]:
        if any(pattern_faults(types)) or not is_name(queue) or not _can_exist(scope):
            return False
        count = yield from _DELETE.execute(scope.tenant, types, queue)
        yield After(self.forget)
        return count > 0

    def forget(self) -> None:
        """Drops what the process remembers of subscriptions: nothing, unless a store does."""


def _can_exist(scope: Scope) -> bool:
    return scope.tenant is None or is_name(scope.tenant)
