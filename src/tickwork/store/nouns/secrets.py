"""Encrypted secrets."""

from __future__ import annotations

from uuid import UUID

from tickwork.core.model import Scope
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.tenants import check_exists
from tickwork.store.steps import NOW, Noun, Statement, Steps, changes, reads, writes

_GET = Statement("get_secrets")
_PUT = Statement("put_secret")
_DROP_PREVIOUS = Statement("drop_previous_secret")
_RETIRE = Statement("retire_secret")
_TOUCH_ENDPOINT = Statement("touch_endpoint")
DELETE_SECRETS = Statement("delete_secrets")


class Secrets(Noun):
    """Secrets by owner and field."""

    @reads
    def get(self, scope: Scope, owner: str, field: str) -> Steps[tuple[bytes, ...]]:
        rows = yield from _GET.fetch(NOW, own_tenant(scope), owner, field)
        return tuple(row["value"] for row in rows)

    @writes(repeatable=True, is_single=True)
    def put(self, scope: Scope, owner: str, field: str, value: bytes) -> Steps[None]:
        yield from _put(own_tenant(scope), owner, field, value)

    @changes
    def rotate(
        self,
        scope: Scope,
        owner: str,
        field: str,
        value: bytes,
        *,
        keep_seconds: float,
        endpoint_id: UUID | None = None,
    ) -> Steps[None]:
        named = (own_tenant(scope), owner, field)
        yield from _DROP_PREVIOUS.execute(*named)
        yield from _RETIRE.execute(NOW, *named, keep_seconds)
        yield from _put(*named, value)
        if endpoint_id is not None:
            yield from _TOUCH_ENDPOINT.execute(NOW, endpoint_id, own_tenant(scope))

    @changes
    def delete(self, scope: Scope, owner: str) -> Steps[None]:
        yield from DELETE_SECRETS.execute(own_tenant(scope), owner)


def _put(tenant: str, owner: str, field: str, value: bytes) -> Steps[None]:
    yield from check_exists(tenant)
    yield from _PUT.execute(tenant, owner, field, value)
